"""A small blocking client of our own requests, for tests against real processes: it stages, commits and drops.

It goes to any node that answers and to whoever leads, and tries again until its patience is over.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import Consumer, TopicPartition

from quorate.broker.protocol.builder import BatchBuilder, Producer
from quorate.broker.protocol.kafka.apis import SUPPORTED, Api
from quorate.broker.protocol.kafka.codec import decode_response_frame, encode_request_frame
from quorate.broker.protocol.kafka.errors import Error

T = TypeVar("T")
Value = dict[str, Any]
PATIENCE_S = 60.0
_CALL_S = 8.0
AGAIN = (
    Error.NOT_LEADER_OR_FOLLOWER,
    Error.LEADER_NOT_AVAILABLE,
    Error.REQUEST_TIMED_OUT,
    Error.NOT_ENOUGH_REPLICAS,
    Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    Error.UNKNOWN_TOPIC_OR_PARTITION,
)


class Failed(Exception):
    """The cluster's answer is an error."""

    def __init__(self, code: int, message: str | None) -> None:
        super().__init__(f"error {code}: {message}")
        self.code = code


class Part(NamedTuple):
    """What was staged in one partition under one producer id."""

    topic: str
    partition: int
    producer: int
    batches: int
    records: int


class Stager:
    """Knows the addresses of nodes; keeps no connections."""

    def __init__(self, addresses: Callable[[], Sequence[str]]) -> None:
        self._addresses = addresses
        self._turn = itertools.count()

    def ask(self, address: str, api: Api, body: Value, version: int | None = None, timeout_s: float = _CALL_S) -> Value:
        """One request over a connection of its own. Raises OSError."""
        version = SUPPORTED.get(api, (0, 0))[1] if version is None else version
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout_s) as connection:
            connection.sendall(encode_request_frame(api, version, 1, "stager", body))
            with connection.makefile("rb") as stream:
                head = stream.read(4)
                if len(head) < 4:
                    raise ConnectionResetError("no answer")
                (size,) = struct.unpack(">i", head)
                frame = stream.read(size)
                if len(frame) < size:
                    raise ConnectionResetError("half an answer")
        return decode_response_frame(api, version, memoryview(frame))[1]

    def ask_any(self, api: Api, body: Value, timeout_s: float = _CALL_S) -> Value:
        """One request to the nodes in turn, until one answers."""
        for _ in self._tries():
            addresses = self._addresses()
            if addresses:
                with contextlib.suppress(OSError):
                    return self.ask(addresses[next(self._turn) % len(addresses)], api, body, timeout_s=timeout_s)
        raise TimeoutError(f"nobody answers {api.name}")

    def leader(self, topic: str, partition: int) -> str | None:
        """Where a partition is led."""
        said = self.ask_any(Api.METADATA, {"topics": [{"name": topic, "topic_id": bytes(16)}]})
        nodes = {one["node_id"]: f"{one['host']}:{one['port']}" for one in said["brokers"]}
        found = [one["leader_id"] for one in said["topics"][0]["partitions"] if one["partition_index"] == partition]
        return nodes.get(found[0]) if found else None

    def new_producer(self) -> int:
        for _ in self._tries():
            said = self.ask_any(Api.INIT_PRODUCER_ID, {"transactional_id": None, "transaction_timeout_ms": 0})
            if not said["error_code"]:
                return int(said["producer_id"])
        raise TimeoutError("no producer id")

    def stage(self, topic: str, partition: int, values: Sequence[str], batches: int = 1, producer: int = -1) -> Part:
        """Stage values as so many batches under a new producer id, or the one that is given. Raises Failed."""
        producer = self.new_producer() if producer < 0 else producer
        for number in range(batches):
            mine = values[len(values) * number // batches : len(values) * (number + 1) // batches]
            sequence = len(values) * number // batches
            self._stage(topic, partition, batch_of(mine, Producer(producer, 0, sequence)))
        return Part(topic, partition, producer, batches, len(values))

    def _stage(self, topic: str, partition: int, records: bytes) -> None:
        body = {"timeout_ms": 5_000, "topics": [{"name": topic, "partitions": [{"index": partition, "records": records}]}]}
        self._insist(lambda: self._at_leader(topic, partition, Api.STAGE, body))

    def _at_leader(self, topic: str, partition: int, api: Api, body: Value) -> Value:
        leader = self.leader(topic, partition)
        if leader is None:
            raise Failed(Error.LEADER_NOT_AVAILABLE, None)
        return _checked(self.ask(leader, api, body)["topics"][0]["partitions"][0])

    def commit(self, application: str, batch: int, parts: Sequence[Part], timeout_s: float = 5.0) -> Value:
        """Commit, asking again until it is known what became of it. Raises Failed."""
        body = {
            "application_id": application,
            "batch_id": batch,
            "timeout_ms": int(timeout_s * 1000),
            "stages": [
                {"producer_id": producer, "parts": [wish(part) for part in parts if part.producer == producer]}
                for producer in dict.fromkeys(part.producer for part in parts)
            ],
        }
        return self._insist(lambda: _checked(self.ask_any(Api.COMMIT_STAGED, body, timeout_s + _CALL_S)))

    def drop(self, parts: Sequence[Part]) -> None:
        """Drop stages. Raises Failed."""
        stages = [
            {"producer_id": part.producer, "parts": [{"topic": part.topic, "partition": part.partition}]} for part in parts
        ]
        self._insist(lambda: _checked(self.ask_any(Api.DROP_STAGED, {"stages": stages}, 20.0)))

    def closed_time(self, topic: str, partition: int, at_least: int = -1, wait_ms: int = 0) -> tuple[int, int]:
        """Closed time, and the end of what it covers."""
        body = {"topics": [{"name": topic, "partitions": [partition]}], "at_least": at_least, "max_wait_ms": wait_ms}
        said = self._insist(lambda: self._at_leader(topic, partition, Api.CLOSED_TIME, body))
        return said["closed_time"], said["end_offset"]

    def _insist(self, attempt: Callable[[], T]) -> T:
        """Try again what may be tried again."""
        for _ in self._tries():
            try:
                return attempt()
            except OSError:
                continue
            except Failed as failure:
                if failure.code not in AGAIN:
                    raise
        raise TimeoutError("tried again and again in vain")

    def _tries(self) -> Iterator[int]:
        deadline = time.monotonic() + PATIENCE_S
        for number in itertools.count():
            yield number
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)


def wish(part: Part) -> Value:
    """As a commit names it."""
    return {"topic": part.topic, "partition": part.partition, "batches": part.batches, "records": part.records}


def _checked(answer: Value) -> Value:
    if answer["error_code"]:
        raise Failed(answer["error_code"], answer.get("error_message"))
    return answer


def batch_of(values: Sequence[str], producer: Producer) -> bytes:
    """A batch as a client sends it."""
    builder = BatchBuilder()
    for value in values:
        builder.append(1_000, b"key", value.encode())
    return bytes(builder.build(producer=producer))


def read_all(bootstrap: str, topic: str, partition: int) -> list[str]:
    """Everything that an unmodified Kafka client sees in a partition, from the beginning to the end of this moment."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "all", "enable.auto.commit": False})
    try:
        place = TopicPartition(topic, partition)
        start, end = consumer.get_watermark_offsets(place, 20)
        consumer.assign([TopicPartition(topic, partition, start)])
        values: list[str] = []
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for message in consumer.consume(500, 0.1):
                value = message.value()
                assert message.error() is None, message.error()
                assert value is not None
                values.append(value.decode())
            if consumer.position([place])[0].offset >= end:
                return values
        raise TimeoutError(f"{topic}/{partition} cannot be read up to {end}")
    finally:
        consumer.close()
