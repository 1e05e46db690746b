"""Batch reads of a real cluster by a real Spark."""

from __future__ import annotations

import pytest

from tests.spark.stand import Stand

pytestmark = pytest.mark.xdist_group("spark")


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
