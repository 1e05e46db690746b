"""What one task reads, on a cluster in memory."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator

import pytest
from pyspark.sql.datasource import InputPartition

import pyspark_quorate
from quorate.client import TopicPartition
from quorate.spark import QuorateDataSource, reading
from quorate.spark.errors import BadOption, DataLost, Missing
from quorate.spark.options import Use, read_options
from quorate.spark.ranges import Range, RangeTask
from tests.broker.protocol.cases import RECORDS, build
from tests.support.fake_cluster import FakeCluster

Q0 = TopicPartition("q", 0)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """Five batches of a hundred records."""
    fake = FakeCluster(q=1)
    for _ in range(5):
        fake.produce(Q0, build(RECORDS))
    monkeypatch.setattr(reading, "shared_client", lambda settings: fake)
    return fake


def read(start: int, end: int, **given: str) -> list[int]:
    options = read_options({"bootstrap": "127.0.0.1:9", "subscribe": "q", "fetchBytes": "1024", **given}, Use.BATCH)
    task = pickle.loads(pickle.dumps(RangeTask(Range(Q0, start, end))))
    return [offset for rows in reading.read_task(options, task) for offset in rows.column("offset").to_pylist()]


def test_just_its_range(cluster: FakeCluster) -> None:
    assert read(0, 500) == list(range(500))
    assert read(150, 310) == list(range(150, 310))
    assert read(99, 100) == [99]
    assert (
        list(reading.read_task(read_options({"bootstrap": "a:1", "subscribe": "q"}, Use.BATCH), InputPartition(None))) == []
    )


def test_retention_overtakes_a_task(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.logs[Q0].log_start = 200
    with pytest.raises(DataLost, match=r"q-0 offsets 50 to 199 \(the log begins at 200 now\)"):
        read(50, 400)
    with caplog.at_level(logging.WARNING):
        assert read(50, 400, failOnDataLoss="false") == list(range(200, 400))
        assert read(50, 120, failOnDataLoss="false") == []
    assert "q-0 offsets 50 to 119" in caplog.text


def test_retention_overtakes_a_task_in_its_middle(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = FakeCluster.stream

    def cut_short(self: FakeCluster, part: TopicPartition, start: int, end: int, *, max_bytes: int) -> Iterator[memoryview]:
        yield from stream(self, part, start, min(end, 200), max_bytes=max_bytes)
        if start < 200:
            self.logs[part].log_start = 300
        yield from stream(self, part, max(start, 200), end, max_bytes=max_bytes)

    monkeypatch.setattr(FakeCluster, "stream", cut_short)
    assert read(50, 400, failOnDataLoss="false") == [*range(50, 200), *range(300, 400)]


def test_a_log_that_was_made_anew(cluster: FakeCluster) -> None:
    with pytest.raises(DataLost, match=r"q-0 offsets 600 to 699 \(the log ends at 500 now\)"):
        read(600, 700)
    assert read(600, 700, failOnDataLoss="false") == []


def test_errors_travel_between_processes() -> None:
    lost = DataLost([Missing("q", 0, 1, 4, "why")])
    for error in (lost, BadOption("topic", "no")):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy)) == (type(error), str(error))


def test_spark_finds_the_format_by_itself() -> None:
    assert pyspark_quorate.DefaultSource is QuorateDataSource
    assert QuorateDataSource.name() == "quorate"
