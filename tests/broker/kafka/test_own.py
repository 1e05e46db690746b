"""Requests of our own: who is told of them, and what they are answered."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.broker.kafka.backend import KafkaFailure
from quorate.broker.kafka.dispatch import OWN, SERVED
from quorate.broker.protocol.kafka.apis import SUPPORTED, Api
from quorate.broker.protocol.kafka.errors import Error
from tests.broker.kafka.test_handlers import ask
from tests.support.memory_backend import MemoryBackend

Value = dict[str, Any]


@pytest.mark.parametrize("name", ["quorate", "quorate-client"])
def test_our_own_clients_are_told_of_everything(name: str) -> None:
    answer = ask(Api.API_VERSIONS, 3, {"client_software_name": name, "client_software_version": "1"})
    assert {one["api_key"] for one in answer["api_keys"]} == set(SERVED) | set(OWN)


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
