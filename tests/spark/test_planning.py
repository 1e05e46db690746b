"""Where batch reads begin and end, on a cluster in memory."""

from __future__ import annotations

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, In, LessThan

from quorate.client import NotSupported, TopicPartition, Unreachable
from quorate.spark.batch_reader import plan
from quorate.spark.errors import BadOption, DataLost, NotClosed
from quorate.spark.filters import Bounds
from quorate.spark.options import Use, read_options
from tests.broker.protocol.cases import SMALL, build
from tests.support.fake_cluster import FakeCluster

Q0, Q1, R0 = TopicPartition("q", 0), TopicPartition("q", 1), TopicPartition("r", 0)


def made(fills: int = 5) -> FakeCluster:
    """Two queues. Batches of two records, at 1000, 2000, ... ms; one fewer in q-1, and none in the other queue."""
    cluster = FakeCluster(q=2, r=1)
    for number in range(fills):
        cluster.now_ms = 1000 * (number + 1)
        cluster.produce(Q0, build(SMALL))
        if number:
            cluster.produce(Q1, build(SMALL))
    return cluster


def planned(cluster: FakeCluster, *filters: Filter, **given: str) -> dict[TopicPartition, tuple[int, int]]:
    options = {"bootstrap": "127.0.0.1:9", **given}
    if not {"subscribe", "subscribePattern", "assign"} & set(given):
        options["subscribe"] = "q"
    bounds = Bounds()
    list(bounds.take(filters))
    ranges = plan(cluster, read_options(options, Use.BATCH), bounds)
    assert all(one.size > 0 for one in ranges)
    assert len({one.part for one in ranges}) == len(ranges)
    return {one.part: (one.start, one.end) for one in ranges}


def test_all_of_it() -> None:
    assert planned(made()) == {Q0: (0, 10), Q1: (0, 8)}
    assert planned(made(), subscribePattern="q|r") == {Q0: (0, 10), Q1: (0, 8)}
    assert planned(made(), assign='{"q":[1]}') == {Q1: (0, 8)}


def test_what_is_deleted_is_no_part_of_earliest() -> None:
    cluster = made()
    cluster.logs[Q0].log_start = 4
    assert planned(cluster) == {Q0: (4, 10), Q1: (0, 8)}


def test_given_offsets() -> None:
    given = {"startingOffsets": '{"q":{"0":3,"1":-2}}', "endingOffsets": '{"q":{"0":-1,"1":7}}'}
    assert planned(made(), **given) == {Q0: (3, 10), Q1: (0, 7)}


@pytest.mark.parametrize(
    ("given", "option", "says"),
    [
        ({"startingOffsets": '{"q":{"0":3}}'}, "startingOffsets", "q-1 is missing; use -2"),
        ({"startingOffsets": '{"q":{"0":3,"1":1,"2":1}}'}, "startingOffsets", "q-2 is not among"),
        ({"startingOffsets": '{"q":{"0":11,"1":1}}'}, "startingOffsets", "q-0 ends before offset 10, and 11"),
        ({"endingOffsets": '{"q":{"0":3,"1":9}}'}, "endingOffsets", "q-1 ends before offset 8, and 9"),
        ({"endingOffsetsByTimestamp": '{"q":{"0":3}}'}, "endingOffsetsByTimestamp", "q-1 is missing"),
        ({"startingTimestamp": "6000"}, "startingTimestamp", "no record at or after that time yet in q-0 (6000 ms), q-1"),
        ({"subscribe": "q,none"}, "subscribe", "there is no queue 'none'"),
        ({"assign": '{"q":[5]}'}, "assign", "there is no partition q-5"),
        ({"subscribePattern": "nope.*"}, "subscribePattern", "no queue's name matches 'nope.*'"),
    ],
)
def test_what_there_is_not(given: dict[str, str], option: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.spark.planner._PATIENCE_S", 0.0)
    with pytest.raises(BadOption, match=f"^option {option}: ") as caught:
        planned(made(), **given)
    assert says in str(caught.value)


def test_times() -> None:
    assert planned(made(), startingTimestamp="2500") == {Q0: (4, 10), Q1: (2, 8)}
    assert planned(made(), endingTimestamp="2000") == {Q0: (0, 2)}
    each = {"startingOffsetsByTimestamp": '{"q":{"0":5000,"1":0}}', "endingOffsetsByTimestamp": '{"q":{"0":9000,"1":3001}}'}
    assert planned(made(), **each) == {Q0: (8, 10), Q1: (0, 4)}


def test_a_start_beyond_the_last_record_may_be_latest() -> None:
    assert planned(made(), startingTimestamp="6000", startingOffsetsByTimestampStrategy="latest") == {}


def test_nodes_that_do_not_answer_are_named_by_the_option() -> None:
    cluster = made()
    cluster.failure = Unreachable(("127.0.0.1:9",), {"127.0.0.1:9": "refused"})
    with pytest.raises(BadOption, match=r"^option kafka.bootstrap.servers: no node answers .*127.0.0.1:9: refused"):
        planned(cluster)


def test_missing_offsets(caplog: pytest.LogCaptureFixture) -> None:
    cluster = made()
    cluster.logs[Q0].log_start = 4
    given = {"startingOffsets": '{"q":{"0":1,"1":1}}'}
    with pytest.raises(DataLost, match=r"q-0 offsets 1 to 3 .the log begins at 4 now.*failOnDataLoss") as caught:
        planned(cluster, **given)
    assert [(one.topic, one.partition, one.first, one.end) for one in caught.value.missing] == [("q", 0, 1, 4)]
    assert planned(cluster, **given, failOnDataLoss="false") == {Q0: (4, 10), Q1: (1, 8)}
    assert "q-0 offsets 1 to 3" in caplog.text


# A cut in time.


def closed(cluster: FakeCluster, *times: int) -> FakeCluster:
    for log, time_ms in zip(cluster.logs.values(), times, strict=False):
        log.closed_ms = time_ms
    return cluster


def test_a_cut_has_everything_up_to_its_time_and_nothing_later() -> None:
    cluster = closed(made(), 9000, 3500)
    assert planned(cluster, asOf="3000") == {Q0: (0, 6), Q1: (0, 4)}
    assert planned(cluster, asOf="3499") == {Q0: (0, 6), Q1: (0, 4)}
    assert planned(closed(made(), 9000, 9000), asOf="8000") == {Q0: (0, 10), Q1: (0, 8)}
    assert planned(closed(made(), 9000, 9000), asOf="999") == {}


def test_a_cut_that_is_not_closed_says_where_and_why() -> None:
    cluster = closed(made(), 9000, 3500)
    with pytest.raises(NotClosed, match=r"asOf: after 0 ms .*4000 is still open.*q-1 .500 ms before it.*leader") as caught:
        planned(cluster, asOf="4000", asOfTimeoutMs="0")
    assert "q-0" not in str(caught.value)
    with pytest.raises(NotClosed, match=r"in the future by this machine's clock"):
        planned(cluster, asOf="2999-01-01T00:00:00Z", asOfTimeoutMs="0")


def test_a_cut_is_waited_for() -> None:
    class Waiting(FakeCluster):
        def closed_time(self, parts, *, at_least=-1, max_wait_ms=0):  # type: ignore[no-untyped-def]
            found = super().closed_time(parts, at_least=at_least, max_wait_ms=max_wait_ms)
            for part in parts:
                self.logs[part].closed_ms += 1000
            return found

    cluster = Waiting(q=1)
    cluster.produce(Q0, build(SMALL))
    assert planned(cluster, asOf="3000") == {Q0: (0, 2)}
    assert cluster.asked.count("closed_time") == 5


def test_servers_without_closed_time() -> None:
    class Other(FakeCluster):
        def closed_time(self, parts, *, at_least=-1, max_wait_ms=0):  # type: ignore[no-untyped-def]
            raise NotSupported("127.0.0.1:9", "CLOSED_TIME")

    with pytest.raises(BadOption, match=r"^option asOf: these servers do not publish closed time"):
        planned(Other(q=1), asOf="3000")


# Filters and splitting.


def test_filters_bound_what_is_read() -> None:
    assert planned(made(), EqualTo(("partition",), 1)) == {Q1: (0, 8)}
    assert planned(made(), In(("partition",), (0, 7))) == {Q0: (0, 10)}
    assert planned(made(), EqualTo(("topic",), "r")) == {}
    assert planned(made(), GreaterThanOrEqual(("offset",), 3), LessThan(("offset",), 9)) == {Q0: (3, 9), Q1: (3, 8)}
    assert planned(made(), EqualTo(("offset",), 9)) == {Q0: (9, 10)}


def test_large_partitions_are_split() -> None:
    options = read_options({"bootstrap": "127.0.0.1:9", "subscribe": "q", "minPartitions": "5"}, Use.BATCH)
    ranges = plan(made(50), options, Bounds())
    assert len(ranges) == 5
    assert sum(one.size for one in ranges) == 198
    assert max(one.size for one in ranges) < 51
