"""Batch reads of a real cluster by a real Spark."""

from __future__ import annotations

import time

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.functions import col, lit, spark_partition_id

from bench.peers.processes import await_condition
from tests.spark.stand import Stand

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def test_every_column_of_every_row(stand: Stand) -> None:
    topic = stand.cluster.topic(partitions=2)
    for partition in range(2):
        stand.fill(topic, partition, [b"%d-%d" % (partition, number) for number in range(25)])
    rows = stand.rows(subscribe=topic, includeHeaders="true")
    assert [(row.partition, row.value) for row in rows] == [
        (partition, b"%d-%d" % (partition, number)) for partition in range(2) for number in range(25)
    ]
    assert [row.key for row in rows[:25]] == [b"k%d" % number for number in range(25)]
    assert {row.topic for row in rows} == {topic}
    assert {row.timestampType for row in rows} == {1}
    assert [row.headers[0].asDict() for row in rows] == [{"key": "h", "value": row.value} for row in rows]
    assert len({row.offset for row in rows if row.partition == 0}) == 25


def test_splitting_and_filters_change_no_row(stand: Stand) -> None:
    topic = stand.cluster.topic(partitions=2)
    for partition in range(2):
        stand.fill(topic, partition, [b"%d" % number for number in range(100)])
    whole = stand.rows(subscribe=topic)
    split = stand.read(subscribe=topic, minPartitions="7")
    assert sorted(split.collect(), key=lambda row: (row.topic, row.partition, row.offset)) == whole
    assert split.select(spark_partition_id()).distinct().count() == 7
    middle = whole[150].timestamp
    condition = (col("partition") == 1) & (col("offset") >= 20) & (col("offset") < 90) & (col("timestamp") <= lit(middle))
    wanted = [row for row in whole if row.partition == 1 and 20 <= row.offset < 90 and row.timestamp <= middle]
    for pushdown in ("false", "true"):
        stand.spark.conf.set(PUSHDOWN, pushdown)
        try:
            frame = stand.read(subscribe=topic).where(condition)
            assert sorted(frame.collect(), key=lambda row: row.offset) == wanted
            # With pushdown the other partition is not even looked at.
            assert frame.rdd.getNumPartitions() == (1 if pushdown == "true" else 2)
        finally:
            stand.spark.conf.unset(PUSHDOWN)


def test_a_cut_is_the_same_for_ever(stand: Stand) -> None:
    topic = stand.cluster.topic(partitions=3)
    for partition in range(3):
        stand.fill(topic, partition, [b"before"] * 20)
    time_ms = int(1000 * max(row.timestamp for row in stand.rows(subscribe=topic)).timestamp())
    # Stamps of records to come are later.
    await_condition(lambda: int(1000 * time.time()) > time_ms + 5, "the clock has moved on", 10)
    stand.fill(topic, 0, [b"after"] * 20)
    first = stand.rows(subscribe=topic, asOf=time_ms)
    assert [row.value for row in first] == [b"before"] * 60
    stand.fill(topic, 1, [b"after"] * 20)
    assert stand.rows(subscribe=topic, asOf=time_ms) == first
    with pytest.raises(PySparkException, match=r"option asOf: after 100 ms .* is still open.* in the future"):
        stand.rows(subscribe=topic, asOf="2999-01-01T00:00:00Z", asOfTimeoutMs="100")


def test_mistakes_are_named_before_anything_runs(stand: Stand) -> None:
    with pytest.raises(PySparkException, match=r"option (?i:startingOffset): there is no such option"):
        stand.read(subscribe="q", startingOffset="earliest")
    with pytest.raises(PySparkException, match=r"option startingOffsets: .* is no JSON"):
        stand.read(subscribe="q", startingOffsets='{"q":')
    with pytest.raises(PySparkException, match=r"option subscribe: there is no queue 'nobody-made-it'"):
        stand.read(subscribe="nobody-made-it").collect()
    unreachable = stand.spark.read.format("quorate").option("bootstrap", "127.0.0.1:1").option("subscribe", "q")
    with pytest.raises(PySparkException, match=r"option kafka.bootstrap.servers: no node answers .*127.0.0.1:1"):
        unreachable.load().collect()
    with pytest.raises(PySparkException, match="option schema: the columns are fixed"):
        unreachable.schema("value string").load().collect()
