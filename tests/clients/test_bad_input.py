"""What clients do wrong is answered with Kafka's own error codes, and hurts nobody else."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from bench.peers.processes import await_condition
from tests.clients.drivers.job import Job, as_record
from tests.support.broker_cluster import BrokerCluster
from tests.support.record_batches import record_batch

pytestmark = pytest.mark.xdist_group("clients")

PRODUCE, LIST_OFFSETS, JOIN_GROUP, API_VERSIONS = 0, 2, 11, 18
CORRUPT_MESSAGE, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, INVALID_GROUP_ID, UNSUPPORTED_VERSION = 2, 3, 6, 24, 35


@pytest.fixture
def producer(cluster: BrokerCluster) -> Producer:
    return Producer({"bootstrap.servers": cluster.bootstrap, "message.max.bytes": 20_000_000, "log_level": 0})


def _consumer(cluster: BrokerCluster, reset: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "nobody",
            "auto.offset.reset": reset,
            "enable.auto.commit": False,
        }
    )


def _next(consumer: Consumer) -> Message:
    message = consumer.poll(30.0)
    assert message is not None
    return message


def test_message_too_large(cluster: BrokerCluster, producer: Producer) -> None:
    topic = cluster.topic(max_message_bytes="100000")
    codes: list[int | None] = []
    for size in (200_000, 50_000):
        producer.produce(
            topic, b"x" * size, on_delivery=lambda error, _: codes.append(None if error is None else error.code())
        )
        assert producer.flush(30) == 0
    assert codes == [KafkaError.MSG_SIZE_TOO_LARGE, None]


def test_unknown_topic(cluster: BrokerCluster) -> None:
    with closing(_consumer(cluster, "earliest")) as consumer:
        consumer.subscribe(["there-is-no-such-topic"])
        error = _next(consumer).error()
        assert error is not None
        assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_the_clusters_own_queues_are_not_for_clients(cluster: BrokerCluster, producer: Producer) -> None:
    """A pattern does not match them, and who writes to one is told so at once."""
    topic = cluster.topic()
    given: list[TopicPartition] = []
    with closing(_consumer(cluster, "earliest")) as consumer:
        consumer.subscribe(["^.*"], on_assign=lambda _, parts: given.extend(parts))
        await_condition(lambda: consumer.poll(0.1) is not None or bool(given), "partitions are assigned", 60.0)
    names = {part.topic for part in given}
    assert topic in names
    assert not [name for name in names if name.startswith("@")]

    codes: list[int] = []
    producer.produce("@groups", b"x", partition=0, on_delivery=lambda error, _: codes.append(error.code() if error else 0))
    assert producer.flush(30) == 0
    assert codes[0] in (KafkaError.TOPIC_EXCEPTION, KafkaError._UNKNOWN_TOPIC)


def test_offsets_out_of_range_reset(cluster: BrokerCluster, producer: Producer) -> None:
    topic = cluster.topic()
    producer.produce(topic, b"the first")
    assert producer.flush(30) == 0
    with closing(_consumer(cluster, "earliest")) as consumer:
        consumer.assign([TopicPartition(topic, 0, 1_000_000)])
        assert _next(consumer).value() == b"the first"
    with closing(_consumer(cluster, "error")) as consumer:
        consumer.assign([TopicPartition(topic, 0, 1_000_000)])
        error = _next(consumer).error()
        assert error is not None
        assert error.code() == KafkaError._AUTO_OFFSET_RESET


NAMES = {
    "confluent": ("MSG_SIZE_TOO_LARGE", "_AUTO_OFFSET_RESET"),
    "kafka-python": ("MessageSizeTooLargeError", "OffsetOutOfRangeError"),
    "aiokafka": ("MessageSizeTooLargeError", "OffsetOutOfRangeError"),
}
"""What each client calls a message that is too large, and an offset that is not in the log."""


@pytest.mark.parametrize("client", NAMES)
def test_one_message_is_too_large_as_each_client_sees_it(cluster: BrokerCluster, client: str) -> None:
    topic = cluster.topic(max_message_bytes="100000")

    def write(size: int) -> list[Any]:
        records = [as_record(None, b"x" * size, [])]
        job = Job(client=client, do="write", bootstrap=cluster.bootstrap, topic=topic, records=records)
        said = cluster.run(job)
        return [said["acked"], said["failed"], said["errors"]]

    assert write(110_000) == [0, 1, [NAMES[client][0]]]
    assert write(50_000) == [1, 0, []]


@pytest.mark.parametrize("client", NAMES)
def test_offsets_out_of_range_as_each_client_sees_them(cluster: BrokerCluster, client: str) -> None:
    topic = cluster.topic()

    def job(do: str, reset: str = "earliest", count: int = 0) -> Job:
        return Job(client=client, do=do, bootstrap=cluster.bootstrap, topic=topic, first=1_000_000, reset=reset, count=count)

    assert cluster.run(job("produce", count=1))["acked"] == 1
    assert cluster.run(job("seek")) == {"number": 1_000_000}
    assert cluster.run(job("seek", reset="none")) == {"error": NAMES[client][1]}


class _Raw:
    """One connection, and requests written by hand, for what no client library would send."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=20)

    def close(self) -> None:
        self._socket.close()

    def ask(self, api: int, version: int, body: bytes, *, flexible: bool = False) -> bytes:
        """The answer after its correlation id."""
        request = struct.pack(">hhi", api, version, 77) + _text("test") + (b"\0" if flexible else b"") + body
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        answer = self._receive(struct.unpack(">i", self._receive(4))[0])
        assert answer[:4] == struct.pack(">i", 77)
        return answer[4:]

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            assert more, "the broker closed the connection"
            data += more
        return data


@pytest.fixture
def raw(cluster: BrokerCluster) -> Iterator[_Raw]:
    with closing(_Raw(cluster.bootstrap.split(",")[0])) as connection:
        yield connection


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _to_leader(cluster: BrokerCluster, topic: str) -> _Raw:
    metadata = cluster.admin.list_topics(topic, timeout=10)
    broker = metadata.brokers[metadata.topics[topic].partitions[0].leader]
    return _Raw(f"{broker.host}:{broker.port}")


def test_unsupported_version_of_api_versions(raw: _Raw) -> None:
    answer = raw.ask(API_VERSIONS, 99, b"\x05test\x021\0", flexible=True)
    code, count = struct.unpack_from(">hi", answer)
    assert code == UNSUPPORTED_VERSION
    versions = {api: (low, high) for api, low, high in struct.iter_unpack(">hhh", answer[6 : 6 + 6 * count])}
    assert API_VERSIONS in versions, "the client learns from the refusal what it may use"


def _produce(topic: str, partition: int, batch: bytes) -> bytes:
    """Produce, version 3."""
    records = struct.pack(">i", len(batch)) + batch
    head = struct.pack(">hhi", -1, -1, 10_000) + struct.pack(">i", 1) + _text(topic)
    return head + struct.pack(">ii", 1, partition) + records


def _produce_code(answer: bytes, topic: str) -> int:
    return int(struct.unpack_from(">h", answer, 4 + 2 + len(topic) + 4 + 4)[0])


def test_corrupt_batch(cluster: BrokerCluster) -> None:
    topic = cluster.topic()
    batch = record_batch(200)
    batch[150] ^= 1
    codes: list[int] = []

    def answered() -> bool:
        codes.append(_produce_code(leader.ask(PRODUCE, 3, _produce(topic, 0, bytes(batch))), topic))
        return codes[-1] not in {UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER}

    # A leader may hear later than others that it leads.
    with closing(_to_leader(cluster, topic)) as leader:
        await_condition(answered, "the leader knows its topic", 20.0)
    assert codes[-1] == CORRUPT_MESSAGE


def test_produce_to_what_is_not_there(raw: _Raw, cluster: BrokerCluster) -> None:
    topic = cluster.topic()
    for name, partition in (("there-is-no-such-topic", 0), (topic, 9)):
        answer = raw.ask(PRODUCE, 3, _produce(name, partition, bytes(record_batch(200))))
        assert _produce_code(answer, name) == UNKNOWN_TOPIC_OR_PARTITION


def test_offsets_of_a_partition_that_is_not_there(raw: _Raw, cluster: BrokerCluster) -> None:
    topic = cluster.topic()
    body = struct.pack(">ii", -1, 1) + _text(topic) + struct.pack(">iiq", 1, 9, -1)
    answer = raw.ask(LIST_OFFSETS, 1, body)
    assert struct.unpack_from(">h", answer, 4 + 2 + len(topic) + 4 + 4)[0] == UNKNOWN_TOPIC_OR_PARTITION


def test_a_group_without_a_name(raw: _Raw) -> None:
    protocol = struct.pack(">i", 1) + _text("range") + struct.pack(">i", 0)
    answer = raw.ask(JOIN_GROUP, 0, _text("") + struct.pack(">i", 10_000) + _text("") + _text("consumer") + protocol)
    assert struct.unpack_from(">h", answer)[0] == INVALID_GROUP_ID


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, struct.pack(">i", 0x7FFFFFFF), b"\0\0\0\x08\0"]
)
def test_garbage_disturbs_nobody_else(cluster: BrokerCluster, producer: Producer, garbage: bytes) -> None:
    topic = cluster.topic()
    host, _, port = cluster.bootstrap.split(",")[0].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as bad:
        bad.sendall(garbage)
        producer.produce(topic, b"fine")
        assert producer.flush(30) == 0
