"""Requests of our own: who is told of them, and what they are answered."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.broker.kafka.backend import KafkaFailure
from quorate.broker.kafka.dispatch import OWN, SERVED
from quorate.broker.protocol.kafka.apis import PRIVATE, SUPPORTED, Api
from quorate.broker.protocol.kafka.errors import Error
from tests.broker.kafka.lab import lab, run
from tests.broker.kafka.test_handlers import ask
from tests.support.memory_backend import MemoryBackend
from tests.support.record_batches import record_batch

Value = dict[str, Any]


@pytest.mark.parametrize("name", ["quorate", "quorate-client"])
def test_our_own_clients_are_told_of_everything(name: str) -> None:
    answer = ask(Api.API_VERSIONS, 3, {"client_software_name": name, "client_software_version": "1"})
    assert {one["api_key"] for one in answer["api_keys"]} == set(SERVED) | set(PRIVATE)


@pytest.mark.parametrize(("version", "name"), [(0, ""), (3, "librdkafka"), (4, "apache-kafka-java"), (4, "not-quorate")])
def test_others_see_what_kafka_has(version: int, name: str) -> None:
    value = {"client_software_name": name, "client_software_version": "1"} if version >= 3 else {}
    assert {one["api_key"] for one in ask(Api.API_VERSIONS, version, value)["api_keys"]} == set(SERVED)
    assert not set(SERVED) & set(OWN)
    assert set(SERVED) <= set(SUPPORTED)


def closed(*partitions: int, topic: str = "t") -> Value:
    return {"topics": [{"name": topic, "partitions": list(partitions)}], "at_least": 5, "max_wait_ms": 0}


def test_closed_time_of_several_partitions() -> None:
    [topic] = ask(Api.CLOSED_TIME, 0, closed(0, 1, 7))["topics"]
    assert topic["name"] == "t"
    assert [(one["index"], one["error_code"], one["closed_time"], one["end_offset"]) for one in topic["partitions"]] == [
        (0, 0, 5, 0),
        (1, Error.NOT_LEADER_OR_FOLLOWER, -1, -1),
        (7, Error.UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
    ]
    assert [one["error_message"] is None for one in topic["partitions"]] == [True, False, False]


def test_what_a_partition_refuses_is_passed_on() -> None:
    backend = MemoryBackend()
    backend.here.refuses = KafkaFailure(Error.KAFKA_STORAGE_ERROR, "the disk is gone")
    [topic] = ask(Api.CLOSED_TIME, 0, closed(0), backend)["topics"]
    [one] = topic["partitions"]
    assert (one["error_code"], one["error_message"]) == (Error.KAFKA_STORAGE_ERROR, "the disk is gone")


def staged(*partitions: int, topic: str = "t", records: bytes | None = None) -> Value:
    data = bytes(record_batch(200)) if records is None else records
    return {"timeout_ms": 5, "topics": [{"name": topic, "partitions": [{"index": i, "records": data} for i in partitions]}]}


def test_stage_answers_for_each_partition() -> None:
    [topic] = ask(Api.STAGE, 0, staged(0, 1, 0, 7))["topics"]
    assert [(one["index"], one["error_code"], one["base_offset"]) for one in topic["partitions"]] == [
        (0, 0, 0),
        (1, Error.NOT_LEADER_OR_FOLLOWER, -1),
        (0, 0, 1),
        (7, Error.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]
    [topic] = ask(Api.STAGE, 0, staged(0, records=b""))["topics"]
    assert topic["partitions"][0]["error_code"] == Error.INVALID_RECORD
    assert topic["partitions"][0]["error_message"] == "there must be exactly one batch"


def test_stages_of_one_connection_keep_their_order() -> None:
    async def main() -> None:
        async with lab() as node:
            client = await node.client()
            numbers = [client.send(Api.STAGE, 0, staged(0)) for _ in range(20)]
            answers = [await client.answer(Api.STAGE, 0, number) for number in numbers]
            assert [one["topics"][0]["partitions"][0]["base_offset"] for one in answers] == list(range(20))

    run(main())


def test_a_stage_may_be_as_large_as_a_produce() -> None:
    async def main() -> None:
        async with lab(max_command_bytes=1_000) as node:
            client = await node.client()
            answer = await client.ask(Api.STAGE, 0, staged(0, records=bytes(record_batch(5_000))))
            assert answer["topics"][0]["partitions"][0]["error_code"] == 0

    run(main())


def commit(batch: int, producer: int, application: str = "a") -> Value:
    part = {"topic": "t", "partition": 0, "batches": 1, "records": 1}
    stages = [{"producer_id": producer, "parts": [part]}]
    return {"application_id": application, "batch_id": batch, "timeout_ms": 1_000, "stages": stages}


def test_commits_and_drops() -> None:
    backend = MemoryBackend()
    first = ask(Api.COMMIT_STAGED, 0, commit(0, 5), backend)
    assert (first["error_code"], first["outcome"], first["published"]) == (0, 0, True)
    assert ask(Api.COMMIT_STAGED, 0, commit(0, 5), backend)["outcome"] == 0
    assert not backend.dropped
    assert ask(Api.COMMIT_STAGED, 0, commit(0, 6), backend)["outcome"] == 1
    assert backend.dropped == [6], "another attempt was first, so these are superfluous"
    answer = ask(Api.COMMIT_STAGED, 0, commit(1, 5, ""), backend)
    assert (answer["error_code"], answer["error_message"]) == (Error.INVALID_REQUEST, "an application id has characters")
    parts = [{"topic": "t", "partition": 0}]
    assert ask(Api.DROP_STAGED, 0, {"stages": []}, backend)["error_code"] == 0
    assert ask(Api.DROP_STAGED, 0, {"stages": [{"producer_id": 9, "parts": parts}]}, backend)["error_code"] == 0
    assert backend.dropped == [6, 9]
