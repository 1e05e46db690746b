"""What clients write is what clients read, whoever writes and reads: compression, sizes, headers, nulls, times."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.peers.processes import await_condition
from tests.clients.drivers.job import Job, as_record
from tests.support.broker_cluster import BrokerCluster

pytestmark = pytest.mark.xdist_group("clients")

CLIENTS = ("confluent", "kafka-python", "aiokafka")
MIB = 1 << 20
RECORDS = [
    as_record(b"key", b"value", []),
    as_record(None, b"no key", []),
    as_record(b"no value", None, []),
    as_record(b"", b"", []),
    as_record(b"headers", b"with", [("a", b"1"), ("a", b"2"), ("", b""), ("bytes", bytes(range(256)))]),
    as_record(bytes(range(256)), b"text " * 2_000, []),
]


def _pass_through(cluster: BrokerCluster, topic: str, writer: str, codec: str, records: list[dict[str, Any]]) -> None:
    job = Job(client=writer, do="write", bootstrap=cluster.bootstrap, topic=topic, compression=codec, records=records)
    said = cluster.run(job)
    assert said["acked"] == len(records)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compression_headers_and_nulls(cluster: BrokerCluster, codec: str) -> None:
    topic = cluster.topic()
    for writer in CLIENTS:
        _pass_through(cluster, topic, writer, codec, RECORDS)
    # The others refuse to write a record that has neither; all of them read it.
    neither = as_record(None, None, [])
    _pass_through(cluster, topic, "confluent", codec, [neither])
    for reader in CLIENTS:
        count = len(RECORDS) * len(CLIENTS) + 1
        found = cluster.run(Job(client=reader, do="records", bootstrap=cluster.bootstrap, topic=topic, count=count))
        assert found["records"] == [*RECORDS * len(CLIENTS), neither], f"as {reader} reads it"


@pytest.mark.parametrize("acks", [1, 0])
def test_weaker_acknowledgements(cluster: BrokerCluster, acks: int) -> None:
    topic = cluster.topic()
    for number, writer in enumerate(CLIENTS):
        job = Job(
            client=writer, do="produce", bootstrap=cluster.bootstrap, topic=topic, acks=acks, count=50, first=50 * number
        )
        assert cluster.run(job)["acked"] == 50
    for reader in CLIENTS:
        found = cluster.run(Job(client=reader, do="read", bootstrap=cluster.bootstrap, topic=topic, count=150))
        assert found["numbers"]["0"] == list(range(150)), f"as {reader} reads it"


def test_messages_of_a_mebibyte(cluster: BrokerCluster) -> None:
    topic = cluster.topic(max_message_bytes=str(2 * MIB))
    for writer in CLIENTS:
        job = Job(client=writer, do="produce", bootstrap=cluster.bootstrap, topic=topic, count=3, size=MIB)
        assert cluster.run(job)["acked"] == 3
    for reader in CLIENTS:
        job = Job(client=reader, do="read", bootstrap=cluster.bootstrap, topic=topic, count=9)
        assert cluster.run(job)["numbers"]["0"] == [0, 1, 2] * 3, f"as {reader} reads it"


def test_seek_by_time(cluster: BrokerCluster) -> None:
    topic = cluster.topic()
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "nobody", "auto.offset.reset": "error"})
    try:
        middle_ms = 0
        for half in (b"before", b"after"):
            for _ in range(10):
                producer.produce(topic, half)
            assert producer.flush(30) == 0
            if half == b"before":
                middle_ms = _a_little_later()
        found = consumer.offsets_for_times([TopicPartition(topic, 0, middle_ms)], timeout=20)[0]
        consumer.assign([found])
        values = [message.value() for message in consumer.consume(10, 20.0)]
        assert values == [b"after"] * 10
        first = consumer.offsets_for_times([TopicPartition(topic, 0, 0)], timeout=20)[0]
        consumer.assign([first])
        assert [message.value() for message in consumer.consume(11, 20.0)] == [b"before"] * 10 + [b"after"]
        future_ms = middle_ms + 3_600_000
        assert consumer.offsets_for_times([TopicPartition(topic, 0, future_ms)], timeout=20)[0].offset == -1, "the end"
    finally:
        consumer.close()


def _a_little_later() -> int:
    """Wait until the clock has moved on by more than it may be coarse; what it says then."""
    began = time.time()
    await_condition(lambda: time.time() > began + 0.05, "the clock has moved on", 5.0)
    return int(time.time() * 1000)
