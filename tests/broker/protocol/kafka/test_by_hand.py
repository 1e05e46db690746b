"""Produce and Fetch, which are written by hand, against the tables: the same values, the same bytes, and no copies."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from quorate.broker.protocol.kafka.apis import SUPPORTED, Api
from quorate.broker.protocol.kafka.codec import encode_request, encode_response_frame
from quorate.broker.protocol.kafka.errors import BadMessage, BadValue
from quorate.broker.protocol.kafka.fetch import FetchedPartition, decode_fetch, encode_fetch_response
from quorate.broker.protocol.kafka.produce import Endpoint, decode_produce, encode_produce_response
from tests.broker.protocol.kafka.values import Case, Value, draw

PRODUCE = range(SUPPORTED[Api.PRODUCE][0], SUPPORTED[Api.PRODUCE][1] + 1)
FETCH = range(SUPPORTED[Api.FETCH][0], SUPPORTED[Api.FETCH][1] + 1)
EXAMPLES = 60
ENDPOINTS = [Endpoint(3, "höst", 9092, "r"), Endpoint(4, "", 1)]
NODES = [node._asdict() for node in ENDPOINTS]


def drawn(api: Api, version: int, direction: str) -> list[Value]:
    random = Random(f"{api.name} {version} {direction}")
    return [draw(Case(api, version, direction), random) for _ in range(EXAMPLES)]


# Produce.


@pytest.mark.parametrize("version", PRODUCE)
def test_produce_requests(version: int) -> None:
    for value in drawn(Api.PRODUCE, version, "request"):
        found = decode_produce(version, memoryview(encode_request(Api.PRODUCE, version, value)))
        assert (found.acks, found.timeout_ms) == (value["acks"], value["timeout_ms"])
        assert found.transactional_id == value.get("transactional_id")
        topics = [
            (topic["name"], [(part["index"], part["records"]) for part in topic["partition_data"]])
            for topic in value["topic_data"]
        ]
        assert found.topics == topics


@pytest.mark.parametrize("version", PRODUCE)
def test_records_are_parts_of_the_request(version: int) -> None:
    """What the partition patches in place is the buffer that the socket wrote to."""
    records = b"a batch of records"
    value = {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{"index": 5, "records": records}]}]}
    buffer = bytearray(encode_request(Api.PRODUCE, version, value))
    [(_, [(_, found)])] = decode_produce(version, memoryview(buffer)).topics
    assert found is not None
    assert found.obj is buffer
    assert not found.readonly
    found[:1] = b"A"
    assert buffer.count(b"A batch of records") == 1


def produce_answer(random: Random, version: int) -> tuple[Any, Value]:
    part = draw(Case(Api.PRODUCE, version, "response"), random)
    for topic in part["responses"]:
        for one in topic["partition_responses"]:
            one.update({"record_errors": []} if version >= 8 else {})
    if version >= 10:
        part["node_endpoints"] = random.choice(([], NODES))
    given = [
        (
            topic["name"],
            [
                (
                    one["index"],
                    one["error_code"],
                    one["base_offset"],
                    one.get("log_append_time_ms", -1),
                    one.get("log_start_offset", -1),
                    one.get("error_message"),
                    *one.get("current_leader", {"leader_id": 7, "leader_epoch": 8}).values(),
                )
                for one in topic["partition_responses"]
            ],
        )
        for topic in part["responses"]
    ]
    return given, part


@pytest.mark.parametrize("version", PRODUCE)
def test_produce_responses(version: int) -> None:
    random = Random(version)
    for _ in range(EXAMPLES):
        given, value = produce_answer(random, version)
        # What a version cannot tell is given all the same, and is left out.
        nodes = ENDPOINTS if value.get("node_endpoints", NODES) else []
        frame = encode_produce_response(version, 9, given, value.get("throttle_time_ms", 5), nodes)
        assert frame == encode_response_frame(Api.PRODUCE, version, 9, value)


# Fetch.


@pytest.mark.parametrize("version", FETCH)
def test_fetch_requests(version: int) -> None:
    for value in drawn(Api.FETCH, version, "request"):
        found = decode_fetch(version, memoryview(encode_request(Api.FETCH, version, value)))
        limits = (value["max_wait_ms"], value["min_bytes"], value["max_bytes"], value["isolation_level"])
        assert found[:4] == limits
        assert (found.session_id, found.session_epoch) == (value.get("session_id", 0), value.get("session_epoch", -1))
        assert found.topics == [(name_of(topic), [wish(one) for one in topic["partitions"]]) for topic in value["topics"]]


def name_of(topic: Value) -> str | bytes:
    name: str | bytes = topic["topic_id"] if "topic_id" in topic else topic["topic"]
    return name


def wish(one: Value) -> tuple[int, int, int, int]:
    return one["partition"], one.get("current_leader_epoch", -1), one["fetch_offset"], one["partition_max_bytes"]


def fetch_answer(random: Random, version: int) -> tuple[Any, Value]:
    value = draw(Case(Api.FETCH, version, "response"), random)
    if version >= 16:
        value["node_endpoints"] = random.choice(([], NODES))
    given = []
    for topic in value["responses"]:
        for one in topic["partitions"]:
            one["records"] = one["records"] or b""
            for name in ("diverging_epoch", "snapshot_id"):  # for other brokers only
                one.pop(name, None)
        given.append((name_of(topic), [fetched(one, random) for one in topic["partitions"]]))
    return given, value


def fetched(one: Value, random: Random) -> FetchedPartition:
    cut = random.randrange(len(one["records"]) + 1)
    leader = one.get("current_leader", {})
    aborted = one["aborted_transactions"]
    return FetchedPartition(
        one["partition_index"],
        one["error_code"],
        one["high_watermark"],
        one["last_stable_offset"],
        one.get("log_start_offset", -1),
        [one["records"][:cut], one["records"][cut:]],
        leader.get("leader_id", 7),
        leader.get("leader_epoch", 8),
        aborted if aborted is None else [(each["producer_id"], each["first_offset"]) for each in aborted],
        one.get("preferred_read_replica", -1),
    )


@pytest.mark.parametrize("version", FETCH)
def test_fetch_responses(version: int) -> None:
    random = Random(version)
    for _ in range(EXAMPLES):
        given, value = fetch_answer(random, version)
        nodes = ENDPOINTS if value.get("node_endpoints", NODES) else []
        buffers = encode_fetch_response(
            version,
            9,
            given,
            error=value.get("error_code", 0),
            session_id=value.get("session_id", 0),
            throttle_ms=value["throttle_time_ms"],
            endpoints=nodes,
        )
        assert b"".join(buffers) == encode_response_frame(Api.FETCH, version, 9, value)


@pytest.mark.parametrize("version", FETCH)
def test_batches_leave_as_they_are(version: int) -> None:
    batches = [memoryview(bytearray(b"one")), memoryview(bytearray(b"two")), memoryview(bytearray(b"three"))]
    name: str | bytes = bytes(16) if version >= 13 else "t"
    parts = [FetchedPartition(0, 0, 9, 9, 0, batches[:2]), FetchedPartition(1, 0, 9, 9, 0, batches[2:])]
    buffers = encode_fetch_response(version, 1, [(name, parts)])
    assert [buffer for buffer in buffers if any(buffer is batch for batch in batches)] == batches


# What is not spoken.


@pytest.mark.parametrize("version", [-1, 12, 99])
def test_other_versions_of_produce(version: int) -> None:
    with pytest.raises(BadMessage):
        decode_produce(version, memoryview(bytes(100)))
    with pytest.raises(BadValue):
        encode_produce_response(version, 1, [])


@pytest.mark.parametrize("version", [-1, 3, 17])
def test_other_versions_of_fetch(version: int) -> None:
    with pytest.raises(BadMessage):
        decode_fetch(version, memoryview(bytes(100)))
    with pytest.raises(BadValue):
        encode_fetch_response(version, 1, [])


@pytest.mark.parametrize(("version", "name"), [(12, bytes(16)), (13, "t"), (13, bytes(15))])
def test_topics_are_named_as_the_version_has_it(version: int, name: str | bytes) -> None:
    with pytest.raises(BadValue):
        encode_fetch_response(version, 1, [(name, [])])
