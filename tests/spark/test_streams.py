"""Streams from a real cluster through a real Spark. Kills of the driver are in `proofs`."""

from __future__ import annotations

import json

import pytest

from bench.peers.processes import await_condition
from quorate.client import TopicPartition
from tests.spark.stand import Stand

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]


def numbers(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def test_a_query_from_latest_goes_on_where_it_was(stand: Stand) -> None:
    topic = stand.cluster.topic()
    stand.fill(topic, 0, [b"old"] * 10)
    frame = stand.stream(subscribe=topic, **{"kafka.group.id": f"g-{topic}"}).load()
    query = stand.run(frame, "out")
    await_condition(lambda: bool(query.lastProgress), "the query has begun", 60)
    stand.fill(topic, 0, numbers(0, 50))
    stand.await_rows(query, 50)
    stand.fill(topic, 0, numbers(50, 50))
    stand.await_rows(query, 100)
    progress = query.lastProgress
    assert progress is not None
    ends = json.loads(progress.sources[0].latestOffset)
    query.stop()
    # What comes meanwhile is there afterwards, once.
    stand.fill(topic, 0, numbers(100, 50))
    last = stand.finish(frame, "out")
    assert [row.value for row in stand.written("out")] == numbers(0, 150)
    assert ends[topic]["0"] > 100
    assert sum(one.numInputRows for one in last.recentProgress) == 50
    committed = stand.client.group_offsets(f"g-{topic}")
    assert committed[TopicPartition(topic, 0)] > 10


def test_limits_and_a_dead_leader_are_not_seen_in_the_rows(stand: Stand) -> None:
    topic = stand.cluster.topic(partitions=2)
    for partition in range(2):
        stand.fill(topic, partition, numbers(0, 300))
    frame = stand.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="50", minPartitions="3").load()
    query = stand.run(frame, "out")
    stand.await_rows(query, 100)
    with stand.cluster.without(stand.cluster.leader(topic)):
        for partition in range(2):
            stand.fill(topic, partition, numbers(300, 100))
        stand.await_rows(query, 800)
    query.stop()
    assert max(progress.numInputRows for progress in query.recentProgress) <= 50
    rows = stand.written("out")
    for partition in range(2):
        assert [row.value for row in rows if row.partition == partition] == numbers(0, 400)
    stand.cluster.await_whole(topic, 2)
