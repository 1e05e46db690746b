"""What is written is read again, by the tables alone: any message, and messages of which most is left out."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.protocol.kafka.apis import Api
from quorate.broker.protocol.kafka.codec import decode_request, encode_request, encode_response
from quorate.broker.protocol.kafka.errors import BadValue
from quorate.broker.protocol.kafka.schema import MESSAGES, Field
from tests.broker.protocol.kafka.test_agreement import decode, encode
from tests.broker.protocol.kafka.values import CASES, Case, Value, draw

ALL_TOPICS_OF_LIBRDKAFKA = bytes.fromhex("00000000010000")


@given(st.sampled_from(CASES), st.integers(0, 1 << 32))
def test_any_message(case: Case, seed: int) -> None:
    value = draw(case, Random(seed))
    assert decode(case, encode(case, value)) == value


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_left_out_is_at_its_default(case: Case) -> None:
    assert decode(case, encode(case, {})) == defaults(MESSAGES[case.api, case.direction], case.version)


def defaults(fields: tuple[Field, ...], version: int) -> Value:
    return {field.name: field.default_value(version) for field in fields if field.versions.has(version)}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_fields_of_other_versions_are_passed_over(case: Case) -> None:
    everything: dict[str, Any] = {
        field.name: field.default_value(case.version) for field in MESSAGES[case.api, case.direction]
    }
    assert encode(case, everything) == encode(case, {})


def test_a_misspelt_field_is_refused() -> None:
    with pytest.raises(BadValue, match="topcis"):
        encode_request(Api.METADATA, 12, {"topcis": []})


@pytest.mark.parametrize(
    "value",
    [
        {"error_code": 1 << 15},
        {"error_code": "none"},
        {"error_code": None},
        {"api_keys": None},
        {"api_keys": 5},
        {"api_keys": [{"api_key": None}]},
    ],
)
def test_a_value_that_does_not_fit_is_ours_to_mend(value: Value) -> None:
    with pytest.raises(BadValue):
        encode_response(Api.API_VERSIONS, 3, value)


@pytest.mark.parametrize("text", ["x" * 0x8000, "\ud800"])
def test_a_string_that_nobody_accepts_is_not_sent(text: str) -> None:
    with pytest.raises(BadValue):
        encode_request(Api.SASL_HANDSHAKE, 1, {"mechanism": text})


def test_metadata_of_all_topics_as_librdkafka_asks_for_it() -> None:
    """It writes four bytes for a null array that takes one, and what was meant for the end is left over."""
    found = decode_request(Api.METADATA, 12, memoryview(ALL_TOPICS_OF_LIBRDKAFKA))
    assert found["topics"] is None
    assert not found["allow_auto_topic_creation"]
