"""The client's side of Fetch, Produce and Stage, which is written by hand, against the tables."""

from __future__ import annotations

from random import Random

import pytest

from quorate.broker.protocol.kafka.apis import PRIVATE, SUPPORTED, Api
from quorate.broker.protocol.kafka.codec import encode_request, encode_response
from quorate.broker.protocol.kafka.errors import BadMessage, BadValue
from quorate.broker.protocol.kafka.fetched import (
    PRODUCE_FIRST,
    decode_fetch_response,
    encode_produce_body,
    encode_stage_body,
)
from tests.broker.protocol.kafka.values import Case, Value, draw

FETCH = range(SUPPORTED[Api.FETCH][0], SUPPORTED[Api.FETCH][1] + 1)
PRODUCE = range(PRODUCE_FIRST, SUPPORTED[Api.PRODUCE][1] + 1)
EXAMPLES = 60
RECORDS = b"a batch of records" * 20


def drawn(version: int) -> list[Value]:
    random = Random(version)
    return [draw(Case(Api.FETCH, version, "response"), random) for _ in range(EXAMPLES)]


@pytest.mark.parametrize("version", FETCH)
def test_fetch_responses(version: int) -> None:
    for value in drawn(version):
        found = decode_fetch_response(version, memoryview(encode_response(Api.FETCH, version, value)))
        assert found.throttle_ms == value["throttle_time_ms"]
        assert (found.error, found.session_id) == (value.get("error_code", 0), value.get("session_id", 0))
        assert len(found.topics) == len(value["responses"])
        for (name, parts), topic in zip(found.topics, value["responses"], strict=True):
            assert name == (topic["topic_id"] if version >= 13 else topic["topic"])
            assert [_partition(one) for one in topic["partitions"]] == [
                (
                    one.partition,
                    one.error,
                    one.high_watermark,
                    one.last_stable,
                    one.log_start,
                    b"".join(one.records),
                    one.leader_id,
                    one.leader_epoch,
                    one.aborted,
                    one.preferred_replica,
                )
                for one in parts
            ]


def _partition(one: Value) -> tuple[object, ...]:
    leader = one.get("current_leader", {"leader_id": -1, "leader_epoch": -1})
    aborted = one["aborted_transactions"]
    return (
        one["partition_index"],
        one["error_code"],
        one["high_watermark"],
        one["last_stable_offset"],
        one.get("log_start_offset", -1),
        one["records"] or b"",
        leader["leader_id"],
        leader["leader_epoch"],
        None if aborted is None else [(each["producer_id"], each["first_offset"]) for each in aborted],
        one.get("preferred_read_replica", -1),
    )


def test_records_are_parts_of_the_answer() -> None:
    part = {"partition_index": 0, "error_code": 0, "high_watermark": 5, "aborted_transactions": None, "records": RECORDS}
    value = {"responses": [{"topic": "t", "partitions": [part]}]}
    frame = bytearray(encode_response(Api.FETCH, 12, value))
    [(_, [found])] = decode_fetch_response(12, memoryview(frame)).topics
    [records] = found.records
    assert isinstance(records, memoryview)
    assert records.obj is frame


@pytest.mark.parametrize("version", FETCH)
def test_answers_that_are_cut_off(version: int) -> None:
    for value in drawn(version)[:10]:
        body = encode_response(Api.FETCH, version, value)
        for end in range(len(body)):
            with pytest.raises(BadMessage):
                decode_fetch_response(version, memoryview(body[:end]))


@pytest.mark.parametrize("version", FETCH)
def test_nonsense_is_a_bad_message_or_an_answer(version: int) -> None:
    random = Random(version)
    for value in drawn(version):
        body = bytearray(encode_response(Api.FETCH, version, value))
        for _ in range(5):
            body[random.randrange(len(body))] = random.randrange(256)
        try:
            decode_fetch_response(version, memoryview(body))
        except BadMessage:
            continue


def test_versions_that_there_are_not() -> None:
    for version in (FETCH[0] - 1, FETCH[-1] + 1):
        with pytest.raises(BadMessage):
            decode_fetch_response(version, memoryview(bytes(100)))
    for version in (PRODUCE[0] - 1, PRODUCE[-1] + 1):
        with pytest.raises(BadValue):
            encode_produce_body(version, "t", 0, RECORDS, -1, 5)
    with pytest.raises(BadValue):
        encode_stage_body(PRIVATE[Api.STAGE][1] + 1, "t", 0, RECORDS, 5)


@pytest.mark.parametrize("version", PRODUCE)
def test_produce_requests(version: int) -> None:
    parts = encode_produce_body(version, "töpic", 7, RECORDS, -1, 30_000)
    assert any(part is RECORDS for part in parts)
    topic = {"name": "töpic", "partition_data": [{"index": 7, "records": RECORDS}]}
    assert b"".join(parts) == encode_request(Api.PRODUCE, version, {"acks": -1, "timeout_ms": 30_000, "topic_data": [topic]})


def test_stage_requests() -> None:
    parts = encode_stage_body(0, "töpic", 7, RECORDS, 30_000)
    assert any(part is RECORDS for part in parts)
    topic = {"name": "töpic", "partitions": [{"index": 7, "records": RECORDS}]}
    assert b"".join(parts) == encode_request(Api.STAGE, 0, {"timeout_ms": 30_000, "topics": [topic]})
