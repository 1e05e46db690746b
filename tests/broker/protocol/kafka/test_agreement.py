"""Every message in every version that we advertise, against two other implementations, in both directions.

Each example goes ours -> theirs (they read what we wrote, and see the same values) and theirs -> ours (we read what they
wrote). Names are compared too: two fields of one width that changed places would round-trip without a word.
"""

from __future__ import annotations

import struct
from random import Random

import pytest

from quorate.broker.protocol.kafka.apis import SUPPORTED, Api
from quorate.broker.protocol.kafka.codec import decode_request, decode_response, encode_request, encode_response
from quorate.broker.protocol.kafka.header import (
    decode_request_header,
    decode_response_header,
    write_request_header,
    write_response_header,
)
from tests.broker.protocol.kafka.oracles import ORACLES, KafkaPythonOracle, KioOracle
from tests.broker.protocol.kafka.values import KAFKAS, REQUESTS, Case, Value, draw

Oracle = KioOracle | KafkaPythonOracle

EXAMPLES = 25
# Nobody else remembers these: Kafka 4 dropped them, and both oracles are made from its schemas.
FORGOTTEN = {("kio", Api.PRODUCE, version) for version in (0, 1, 2)}
PAIRS = [pytest.param(oracle, case, id=f"{oracle.name}-{case}") for oracle in ORACLES for case in KAFKAS if oracle.has(case)]


def encode(case: Case, value: Value) -> bytes:
    return (encode_request if case.direction == "request" else encode_response)(case.api, case.version, value)


def decode(case: Case, data: bytes) -> Value:
    view = memoryview(data)
    return (decode_request if case.direction == "request" else decode_response)(case.api, case.version, view)


def test_oracles_know_everything_that_we_advertise() -> None:
    missing = {(oracle.name, case.api, case.version) for oracle in ORACLES for case in KAFKAS if not oracle.has(case)}
    assert missing == FORGOTTEN


@pytest.mark.parametrize(("oracle", "case"), PAIRS)
def test_both_directions(oracle: Oracle, case: Case) -> None:
    random = Random(str(case))
    for _ in range(EXAMPLES):
        value = draw(case, random, tame=oracle.tame)
        if oracle.name == "kafka-python" and case.api == Api.API_VERSIONS and case.direction == "response":
            value["error_code"] = 0  # with any other it reads version 0, as a client should
        check(oracle, case, value)


def check(oracle: Oracle, case: Case, value: Value) -> None:
    ours = encode(case, value)
    seen, theirs = oracle.decode(case, ours)
    assert theirs == ours
    assert decode(case, theirs) == value
    assert same(seen, value)


def same(seen: object, value: object) -> bool:
    """Whether an oracle saw our value, under our names or shorter ones, and with nothing more."""
    if isinstance(seen, dict) and isinstance(value, dict):
        partners = {name: partner(name, value) for name in seen}
        return sorted(partners.values()) == sorted(value) and all(
            same(one, value[partners[name]]) for name, one in seen.items()
        )
    if isinstance(seen, list) and isinstance(value, list):
        return len(seen) == len(value) and all(map(same, seen, value))
    return seen == value or (seen is None and is_nothing(value))


def partner(name: str, value: Value) -> str:
    """Our name for theirs: kio leaves units out, kafka-python says what operations are of by where they stand."""
    ours = (name, f"{name}_ms", f"topic_{name}", f"cluster_{name}")
    return next((one for one in ours if one in value), "")


def is_nothing(value: object) -> bool:
    """What they say None for: no time, no id, a tagged structure that was left out, operations that are not known."""
    if isinstance(value, dict):
        return all(one == -1 for one in value.values())
    return value in (-1, bytes(16), -(1 << 31))


@pytest.mark.parametrize(("oracle", "case"), PAIRS)
def test_headers(oracle: Oracle, case: Case) -> None:
    for client_id in ("", "me", "ü" * 100, None):
        header = oracle.header(case, -7, client_id)
        out = bytearray()
        if case.direction == "request":
            write_request_header(out, case.api, case.version, -7, client_id)
            found = decode_request_header(memoryview(header + b"body"))
            assert found == (case.api, case.version, -7, client_id, len(header))
        else:
            write_response_header(out, case.api, case.version, -7)
            assert decode_response_header(case.api, case.version, memoryview(header + b"body")) == (-7, len(header))
        assert out == header


@pytest.mark.parametrize("version", range(SUPPORTED[Api.API_VERSIONS][1] + 1))
def test_answers_to_api_versions_have_the_oldest_header(version: int) -> None:
    """A client reads it before it knows what we speak."""
    out = bytearray()
    write_response_header(out, Api.API_VERSIONS, version, 99)
    assert out == struct.pack(">i", 99)


@pytest.mark.parametrize("case", REQUESTS, ids=str)
def test_unknown_tagged_fields_are_passed_over(case: Case) -> None:
    """A newer client may say more than we know, in the header too."""
    value: Value = {}
    body = encode(case, value)
    header = bytearray()
    write_request_header(header, case.api, case.version, 1, "c")
    if not header.endswith(b"\0"):
        return
    more = b"\x01\x63\x03abc"
    frame = bytes(header[:-1]) + more + body[:-1] + more
    at = decode_request_header(memoryview(frame)).body_at
    assert decode(case, frame[at:]) == decode(case, body)
