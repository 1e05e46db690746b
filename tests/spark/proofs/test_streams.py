"""Streams whose queue changes under them: it grows, gets partitions, loses its beginning; and two streams with one sink."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.cimpl import NewPartitions
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.proofs.stage import holds_each_once, produce
from tests.support.broker_cluster import BrokerCluster

pytestmark = pytest.mark.xdist_group("spark")

PARTITIONS = 2


def copy(
    spark: SparkSession, cluster: BrokerCluster, source: str, sink: str, checkpoint: Path, **options: str
) -> StreamingQuery:
    """What is in one queue now, into the other."""
    reader = spark.readStream.format("quorate").option("kafka.bootstrap.servers", cluster.bootstrap)
    rows = reader.option("subscribe", source).option("startingOffsets", "earliest").options(**options).load()
    writer = rows.select("value").writeStream.format("quorate").option("kafka.bootstrap.servers", cluster.bootstrap)
    writer = writer.option("topic", sink).option("delivery", "exactly-once").option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True).start()


@pytest.mark.timeout(600)
def test_available_now_while_somebody_produces(spark: SparkSession, cluster: BrokerCluster, tmp_path: Path) -> None:
    """Each run ends though messages keep coming, and all runs together take each once."""
    source, sink = cluster.topic(PARTITIONS), cluster.topic(PARTITIONS)
    produce(cluster, source, range(500), PARTITIONS)
    stop, sent = threading.Event(), [500]

    def load() -> None:
        while not stop.is_set():
            produce(cluster, source, range(sent[0], sent[0] + 50), PARTITIONS)
            sent[0] += 50
            stop.wait(0.05)

    thread = threading.Thread(target=load)
    thread.start()
    try:
        for _ in range(2):
            assert copy(spark, cluster, source, sink, tmp_path, maxOffsetsPerTrigger="400").awaitTermination(200)
    finally:
        stop.set()
        thread.join()
    assert copy(spark, cluster, source, sink, tmp_path).awaitTermination(200)
    holds_each_once(cluster, sink, range(sent[0]))


@pytest.mark.timeout(600)
def test_a_new_partition_is_read_from_its_beginning(spark: SparkSession, cluster: BrokerCluster, tmp_path: Path) -> None:
    source, sink = cluster.topic(PARTITIONS), cluster.topic(PARTITIONS)
    produce(cluster, source, range(100), PARTITIONS)
    assert copy(spark, cluster, source, sink, tmp_path).awaitTermination(200)
    cluster.admin.create_partitions([NewPartitions(source, PARTITIONS + 1)])[source].result(30)
    cluster.await_whole(source, PARTITIONS + 1)
    produce(cluster, source, range(100, 250), PARTITIONS + 1)
    assert copy(spark, cluster, source, sink, tmp_path).awaitTermination(200)
    holds_each_once(cluster, sink, range(250))


@pytest.mark.timeout(600)
def test_what_retention_took_is_an_error_and_can_be_left_out(
    spark: SparkSession, cluster: BrokerCluster, tmp_path: Path
) -> None:
    source, sink = cluster.topic(1), cluster.topic(1)
    produce(cluster, source, range(100), 1)
    assert copy(spark, cluster, source, sink, tmp_path).awaitTermination(200)
    produce(cluster, source, range(100, 200), 1)
    cut = TopicPartition(source, 0, _offset_after(cluster, source, 50))
    cluster.admin.delete_records([cut])[cut].result(30)
    with pytest.raises(StreamingQueryException, match=f"data that has not been read is gone: {source}-0 offsets"):
        copy(spark, cluster, source, sink, tmp_path).awaitTermination(200)
    assert copy(spark, cluster, source, sink, tmp_path, failOnDataLoss="false").awaitTermination(200)
    holds_each_once(cluster, sink, [*range(100), *range(150, 200)])


def _offset_after(cluster: BrokerCluster, queue: str, left: int) -> int:
    """An offset that the last so many messages follow: nothing but messages was appended at the end."""
    from quorate.client import LATEST, Client
    from quorate.client import TopicPartition as Part

    with Client(cluster.bootstrap) as client:
        return client.offsets({Part(queue, 0): LATEST})[Part(queue, 0)].offset - left


@pytest.mark.timeout(600)
def test_two_streams_into_one_queue(spark: SparkSession, cluster: BrokerCluster, tmp_path: Path) -> None:
    first, second, sink = cluster.topic(PARTITIONS), cluster.topic(PARTITIONS), cluster.topic(PARTITIONS)
    produce(cluster, first, range(300), PARTITIONS)
    produce(cluster, second, range(300, 600), PARTITIONS)
    queries = [
        copy(spark, cluster, source, sink, tmp_path / source, maxOffsetsPerTrigger="100") for source in (first, second)
    ]
    deadline = time.monotonic() + 300
    assert all(query.awaitTermination(max(1, round(deadline - time.monotonic()))) for query in queries)
    holds_each_once(cluster, sink, range(600))
