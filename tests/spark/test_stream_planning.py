"""What a stream does between two micro-batches, on a cluster in memory."""

from __future__ import annotations

import logging
import pickle

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows

from quorate.client import TimedOut, TopicPartition
from quorate.spark.errors import BadOption, DataLost
from quorate.spark.offsets import Offsets
from quorate.spark.options import Use, read_options
from quorate.spark.stream_planner import LOST, StreamPlanner
from quorate.spark.stream_reader import StreamReader
from tests.broker.protocol.cases import SMALL, build
from tests.support.fake_cluster import FakeCluster

Q0, Q1 = TopicPartition("q", 0), TopicPartition("q", 1)


@pytest.fixture(autouse=True)
def _brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_PATIENCE_S", "_LIST_EVERY_S", "_LONGEST_POLL_S", "_SHORTEST_POLL_S"):
        monkeypatch.setattr(f"quorate.spark.stream_planner.{name}", 0.0)
    monkeypatch.setattr("quorate.spark.planner._PATIENCE_S", 0.0)


def planner(cluster: FakeCluster, **given: str) -> StreamPlanner:
    base = {"bootstrap": "127.0.0.1:9", "longPollMs": "0"}
    if "subscribePattern" not in given:
        base["subscribe"] = "q"
    return StreamPlanner(cluster, read_options({**base, **given}, Use.STREAM))


def fill(cluster: FakeCluster, part: TopicPartition, batches: int) -> None:
    for _ in range(batches):
        cluster.produce(part, build(SMALL))


def spans(plan: StreamPlanner, start: Offsets, end: Offsets) -> dict[TopicPartition, tuple[int, int]]:
    return {one.part: (one.start, one.end) for one in plan.ranges(start, end)}


def test_a_new_query_begins_at_latest_and_remembers_it() -> None:
    cluster = FakeCluster(q=2)
    fill(cluster, Q0, 3)
    plan = planner(cluster)
    first = plan.initial()
    assert first == {Q0: 6, Q1: 0}
    fill(cluster, Q0, 1)
    assert plan.initial() == first
    # The first micro-batch is empty, so that its end says where the query began.
    assert plan.next_end(first, limited=False) == first
    assert plan.next_end(first, limited=False) == {Q0: 8, Q1: 0}


def test_the_first_micro_batch_done_again_after_a_crash_loses_nothing() -> None:
    cluster = FakeCluster(q=1)
    fill(cluster, Q0, 3)
    logged = planner(cluster).initial()  # the end of micro-batch 0; then the driver dies
    fill(cluster, Q0, 2)
    again = planner(cluster)
    late = again.initial()
    assert late == {Q0: 10}
    assert again.ranges(late, logged) == []
    assert spans(again, logged, again.next_end(logged, limited=False)) == {Q0: (6, 10)}


def test_a_query_that_begins_at_a_fixed_place_begins_at_once() -> None:
    cluster = FakeCluster(q=1)
    fill(cluster, Q0, 1)
    plan = planner(cluster, startingOffsets="earliest")
    assert plan.next_end(plan.initial(), limited=False) == {Q0: 2}


def test_a_queue_that_there_is_not() -> None:
    with pytest.raises(BadOption, match="option subscribe: there is no queue 'q'"):
        planner(FakeCluster()).initial()
    # A pattern may match later.
    cluster = FakeCluster()
    plan = planner(cluster, subscribePattern="q.*")
    assert plan.next_end(plan.initial(), limited=False) == {}
    cluster.grow("q7", 1)
    fill(cluster, TopicPartition("q7", 0), 1)
    assert plan.next_end({}, limited=False) == {TopicPartition("q7", 0): 2}


def test_new_partitions_are_read_from_their_beginning() -> None:
    cluster = FakeCluster(q=1)
    plan = planner(cluster)
    start = plan.initial()
    plan.next_end(start, limited=False)
    cluster.grow("q", 2)
    fill(cluster, Q1, 2)
    end = plan.next_end(start, limited=False)
    assert end == {Q0: 0, Q1: 4}
    assert spans(plan, start, end) == {Q1: (0, 4)}


def test_nothing_new_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(q=1)
    plan = planner(cluster, longPollMs="60000", startingOffsets="earliest")
    naps = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 5:
            fill(cluster, Q0, 1)

    monkeypatch.setattr("quorate.spark.stream_planner.time.sleep", nap)
    assert plan.next_end({Q0: 0}, limited=False) == {Q0: 2}
    assert len(naps) == 5


def test_the_most_offsets_of_a_micro_batch() -> None:
    cluster = FakeCluster(q=2)
    fill(cluster, Q0, 30)
    fill(cluster, Q1, 10)
    plan = planner(cluster, startingOffsets="earliest", maxOffsetsPerTrigger="8")
    assert plan.next_end(plan.initial(), limited=True) == {Q0: 6, Q1: 2}
    # Spark may ask for everything.
    assert plan.next_end(plan.initial(), limited=False) == {Q0: 60, Q1: 20}


def test_the_least_offsets_of_a_micro_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(q=1)
    fill(cluster, Q0, 2)
    clock = [100.0]
    monkeypatch.setattr("quorate.spark.admission.time.monotonic", lambda: clock[0])
    plan = planner(cluster, startingOffsets="earliest", minOffsetsPerTrigger="6", maxTriggerDelay="10s")
    start = plan.initial()
    assert plan.next_end(start, limited=True) == start
    assert plan.next_end(start, limited=False) == {Q0: 4}
    clock[0] += 9.9
    assert plan.next_end(start, limited=True) == start
    clock[0] += 0.2
    assert plan.next_end(start, limited=True) == {Q0: 4}
    assert plan.next_end(start, limited=True) == start
    fill(cluster, Q0, 1)
    assert plan.next_end(start, limited=True) == {Q0: 6}


def test_about_the_most_bytes_of_a_micro_batch() -> None:
    cluster = FakeCluster(q=2)
    fill(cluster, Q0, 100)
    fill(cluster, Q1, 100)
    size = len(build(SMALL))
    plan = planner(cluster, startingOffsets="earliest", maxBytesPerTrigger=str(10 * size))
    assert plan.next_end(plan.initial(), limited=True) == {Q0: 10, Q1: 10}
    tiny = planner(cluster, startingOffsets="earliest", maxBytesPerTrigger="1")
    assert sum(tiny.next_end(tiny.initial(), limited=True).values()) == 1


def test_available_now_ends_where_it_began_to_look() -> None:
    cluster = FakeCluster(q=1)
    fill(cluster, Q0, 5)
    plan = planner(cluster, startingOffsets="earliest", maxOffsetsPerTrigger="8", minOffsetsPerTrigger="8")
    start = plan.initial()
    plan.fix_target()
    fill(cluster, Q0, 50)
    cluster.grow("q", 2)
    fill(cluster, Q1, 5)
    first = plan.next_end(start, limited=True)
    assert first == {Q0: 8}
    last = plan.next_end(first, limited=True)  # fewer than the least, but no more will come
    assert last == {Q0: 10}
    assert plan.next_end(last, limited=True) == last
    # What a query before this one read beyond the target stays read.
    beyond = {Q0: 12, Q1: 3}
    assert plan.next_end(beyond, limited=True) == beyond


def test_retention_that_overtakes_a_checkpoint(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster(q=1)
    fill(cluster, Q0, 10)
    cluster.logs[Q0].log_start = 12
    strict = planner(cluster)
    end = strict.next_end({Q0: 4}, limited=False)
    with pytest.raises(DataLost, match=r"q-0 offsets 4 to 11 \(the log begins at 12 now\)"):
        strict.ranges({Q0: 4}, end)
    lenient = planner(cluster, failOnDataLoss="false")
    lenient.next_end({Q0: 4}, limited=False)
    with caplog.at_level(logging.WARNING):
        assert spans(lenient, {Q0: 4}, end) == {Q0: (12, 20)}
        assert spans(lenient, {Q0: 4}, end) == {Q0: (12, 20)}
    assert caplog.text.count("q-0 offsets 4 to 11") == 1
    assert lenient.reported() == {"q": {"0": 20}, LOST: {"q": {"0": 8}}}


def test_all_of_a_micro_batch_gone() -> None:
    cluster = FakeCluster(q=1)
    fill(cluster, Q0, 10)
    cluster.logs[Q0].log_start = 12
    lenient = planner(cluster, failOnDataLoss="false")
    assert spans(lenient, {Q0: 4}, {Q0: 8}) == {}
    with pytest.raises(DataLost, match=r"offsets 4 to 7"):
        planner(cluster).ranges({Q0: 4}, {Q0: 8})


def test_a_queue_that_was_deleted(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster(q=2, r=1)
    fill(cluster, Q0, 2)
    start = {Q0: 2, Q1: 0}
    cluster.delete("q")
    with pytest.raises(DataLost, match=r"q-0 offsets 2 to 2 \(the partition does not exist any more\)"):
        planner(cluster, subscribePattern="q|r").next_end(start, limited=False)
    with pytest.raises(DataLost, match="does not exist any more"):
        planner(cluster).ranges(start, {Q0: 4, Q1: 0})
    lenient = planner(cluster, subscribePattern="q|r", failOnDataLoss="false")
    assert lenient.next_end(start, limited=False) == start
    fill(cluster, TopicPartition("r", 0), 1)
    assert lenient.next_end(start, limited=False) == {TopicPartition("r", 0): 2}


def test_a_queue_that_was_made_anew() -> None:
    cluster = FakeCluster(q=1)
    fill(cluster, Q0, 2)
    start = {Q0: 100}
    with pytest.raises(DataLost, match=r"q-0 offsets 4 to 99 \(the log ends at 4 now\)"):
        planner(cluster).next_end(start, limited=False)
    lenient = planner(cluster, failOnDataLoss="false")
    end = lenient.next_end(start, limited=False)
    assert end == {Q0: 4}
    assert lenient.ranges(start, end) == []
    fill(cluster, Q0, 1)
    assert spans(lenient, end, lenient.next_end(end, limited=False)) == {Q0: (4, 6)}


def test_a_group_is_told_and_may_be_out_of_reach(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster(q=1)
    planner(cluster).commit({Q0: 5})
    assert cluster.groups == {}
    plan = planner(cluster, **{"kafka.group.id": "g"})
    plan.commit({Q0: 5})
    assert cluster.groups == {"g": {Q0: 5}}
    cluster.failure = TimedOut("somewhere", "OFFSET_COMMIT", 5)
    plan.commit({Q0: 7})
    assert "group g could not be committed" in caplog.text


def test_what_spark_is_told_of_the_limits() -> None:
    def limit(**given: str) -> object:
        return StreamReader(read_options({"bootstrap": "a:1", "subscribe": "q", **given}, Use.STREAM)).getDefaultReadLimit()

    assert limit() == ReadAllAvailable()
    assert limit(maxOffsetsPerTrigger="5", minOffsetsPerTrigger="2") == ReadMaxRows(5)
    assert limit(maxBytesPerTrigger="5") == ReadMaxBytes(5)
    assert limit(minOffsetsPerTrigger="5") == ReadMinRows(5)


def test_tasks_get_a_reader_without_a_planner() -> None:
    reader = StreamReader(read_options({"bootstrap": "a:1", "subscribe": "q"}, Use.STREAM))
    reader._planner = planner(FakeCluster(q=1))
    copy = pickle.loads(pickle.dumps(reader))
    assert copy._planner is None
    assert copy._options == reader._options
