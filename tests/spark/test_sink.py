"""Writes by a real Spark to a real cluster. Kills of the driver and of nodes are in `proofs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql.functions import udf

from bench.peers.processes import await_condition
from quorate.spark import QuorateDataSource
from tests.spark.stand import QUERY_S, Stand

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]


def write(stand: Stand, frame: Any, **options: str) -> None:
    writer = frame.write.format("quorate").option("kafka.bootstrap.servers", stand.cluster.bootstrap).options(**options)
    writer.mode("append").save()


def values(stand: Stand, topic: str) -> list[bytes]:
    return sorted(row.value for row in stand.rows(subscribe=topic))


def test_batch_writes(stand: Stand) -> None:
    topic, other = stand.cluster.topic(partitions=2), stand.cluster.topic()
    columns = "key string, value string, topic string, partition int, headers array<struct<key:string,value:binary>>"
    rows: list[tuple[Any, ...]] = [
        ("a", "1", topic, 1, [("h", bytearray(b"x"))]),
        (None, "2", other, None, None),
        ("b", None, topic, 0, []),
    ]
    write(stand, stand.spark.createDataFrame(rows, columns))
    first, second = stand.rows(subscribe=topic, includeHeaders="true")
    assert (first.partition, first.key, first.value, first.headers) == (0, b"b", None, None)
    assert (second.partition, second.key, second.value) == (1, b"a", b"1")
    assert [pair.asDict() for pair in second.headers] == [{"key": "h", "value": b"x"}]
    assert values(stand, other) == [b"2"]
    # Exactly once, by name: the second write of a batch is no write.
    numbers = stand.spark.range(100, numPartitions=3).selectExpr("cast(id as string) as value")
    sink = stand.cluster.topic(partitions=2)
    for _ in range(2):
        write(stand, numbers, topic=sink, delivery="exactly-once", applicationId=sink, batchId="1", compression="lz4")
    await_condition(lambda: len(values(stand, sink)) >= 100, "what is committed is published", 60)
    assert values(stand, sink) == sorted(b"%d" % number for number in range(100))


def test_mistakes_in_writes_are_named(stand: Stand) -> None:
    frame = stand.spark.range(1).selectExpr("cast(id as string) as value")
    with pytest.raises(PySparkException, match="option topic: there is no queue 'nobody-made-it'"):
        write(stand, frame, topic="nobody-made-it")
    with pytest.raises(PySparkException, match="there is no column value; there are id"):
        write(stand, stand.spark.range(1), topic="q")
    with pytest.raises(PySparkException, match="option delivery: 'twice' is none of"):
        write(stand, frame, topic="q", delivery="twice")


def test_a_task_that_fails_and_a_query_that_is_started_again_double_nothing(stand: Stand, tmp_path: Path) -> None:
    """Also what the sink takes from Spark's own properties: without the query's and the batch's id this cannot pass."""
    source, sink = stand.cluster.topic(partitions=2), stand.cluster.topic(partitions=2)
    for partition in range(2):
        stand.fill(source, partition, [b"%d-%d" % (partition, number) for number in range(200)])
    once = str(tmp_path / "failed-once")

    @udf(returnType="binary", useArrow=False)
    def fail_once(value: bytes) -> bytes:
        if value == b"0-150" and not Path(once).exists():
            Path(once).touch()
            raise ValueError("fails in the middle of a task")
        return value

    rows = stand.stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="100").load()
    writer = rows.select(fail_once("value").alias("value")).writeStream.format("quorate").option("topic", sink)
    writer = writer.option("bootstrap", stand.cluster.bootstrap).option("delivery", "exactly-once")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    with pytest.raises(StreamingQueryException, match="fails in the middle of a task"):
        writer.start().awaitTermination(QUERY_S)
    query = writer.start()
    assert query.awaitTermination(QUERY_S)
    everything = sorted(b"%d-%d" % (partition, number) for partition in range(2) for number in range(200))
    await_condition(lambda: len(values(stand, sink)) >= 400, "what is committed is published", 60)
    assert values(stand, sink) == everything
    # The query's id is the application's: its batches are known by it.
    done = stand.client.commit_staged(query.id, 0, [], timeout_ms=10_000)
    assert done.outcome == "already"


def test_the_format_can_be_registered_by_hand_too(stand: Stand) -> None:
    stand.spark.dataSource.register(QuorateDataSource)
    topic = stand.cluster.topic()
    stand.fill(topic, 0, [b"v"])
    assert values(stand, topic) == [b"v"]
