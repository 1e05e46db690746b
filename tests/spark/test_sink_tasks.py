"""What tasks write, and what their driver commits, on a cluster in memory."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, LongType, StringType, StructType, TimestampType

from quorate.client import QuorateError, RequestFailed, TimedOut, TopicPartition
from quorate.spark import sink as sink_module
from quorate.spark.errors import BadOption, BadRows
from quorate.spark.options import write_options
from quorate.spark.record_headers import HEADERS_TYPE
from quorate.spark.routing import by_key
from quorate.spark.sink import BatchWriter, StreamWriter, Written, check_schema
from tests.support.fake_cluster import FakeCluster

Q0, Q1 = TopicPartition("q", 0), TopicPartition("q", 1)
SCHEMA = "key binary, value binary, topic string, partition int, headers pairs"

# Spark's own parser of such texts needs a Java machine.
TYPES = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "long": LongType(),
    "timestamp": TimestampType(),
    "strings": ArrayType(StringType()),
    "pairs": ArrayType(StructType().add("key", StringType()).add("value", BinaryType())),
}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """The cluster that writers find."""
    fake = FakeCluster(q=2, r=1)
    monkeypatch.setattr(sink_module, "shared_client", lambda settings: fake)
    return fake


class Context:
    """What Spark tells a task of a micro-batch."""

    def __init__(self, query: str | None, batch: str | None) -> None:
        self._properties = {sink_module.QUERY_ID: query, sink_module.BATCH_ID: batch}

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802
        return self._properties[name]


def in_batch(monkeypatch: pytest.MonkeyPatch, query: str | None, batch: str | None) -> None:
    monkeypatch.setattr(TaskContext, "get", lambda: Context(query, batch))


def schema(text: str = SCHEMA) -> StructType:
    fields = StructType()
    for column in text.split(", "):
        name, _, kind = column.partition(" ")
        fields = fields.add(name, TYPES[kind])
    return fields


def writer(**given: str) -> BatchWriter:
    return BatchWriter(write_options({"bootstrap": "127.0.0.1:9", **given}), schema())


def stream_writer(**given: str) -> StreamWriter:
    return StreamWriter(
        write_options({"bootstrap": "127.0.0.1:9", "topic": "q", "delivery": "exactly-once", **given}), schema()
    )


def rows(*values: bytes | None, **columns: list[Any]) -> pa.RecordBatch:
    types = {"key": pa.binary(), "topic": pa.string(), "partition": pa.int32(), "headers": HEADERS_TYPE}
    arrays = {"value": pa.array(values, pa.binary())}
    arrays |= {name: pa.array(column, types[name]) for name, column in columns.items()}
    return pa.RecordBatch.from_pydict(arrays)


def values(cluster: FakeCluster, part: TopicPartition) -> list[bytes | None]:
    return [record.value for record in cluster.logs[part].records()]


def test_rows_go_where_they_say(cluster: FakeCluster) -> None:
    columns: dict[str, list[Any]] = {
        "topic": ["q", "r", "q", "q"],
        "partition": [1, None, 0, 1],
        "key": [b"a", None, b"b", None],
        "headers": [[{"key": "h", "value": b"1"}], None, [], [{"key": "n", "value": None}]],
    }
    done = writer().write(iter([rows(b"1", b"2", None, b"4", **columns)]))
    assert done == Written(4)
    assert values(cluster, Q0) == [None]
    assert values(cluster, TopicPartition("r", 0)) == [b"2"]
    first, second = cluster.logs[Q1].records()
    assert (first.key, first.value, first.headers) == (b"a", b"1", (("h", b"1"),))
    assert (second.key, second.value, second.headers) == (None, b"4", (("n", None),))


def test_keys_choose_and_order_is_kept(cluster: FakeCluster) -> None:
    keys = [b"k%d" % (number % 7) for number in range(100)]
    chunks = [
        rows(*(b"%d" % number for number in range(first, first + 10)), key=keys[first : first + 10])
        for first in range(0, 100, 10)
    ]
    writer(topic="q").write(iter(chunks))
    places = by_key(pa.array(keys, pa.binary()), 2, 0).tolist()
    for part in (Q0, Q1):
        assert values(cluster, part) == [b"%d" % number for number in range(100) if places[number] == part.partition]


def test_the_option_topic_wins_and_text_is_bytes(cluster: FakeCluster) -> None:
    batch = pa.RecordBatch.from_pydict(
        {"value": ["größe"], "topic": ["r"], "key": ["é"], "partition": pa.array([0], pa.int32())}
    )
    writer(topic="q").write(iter([batch]))
    (record,) = cluster.logs[Q0].records()
    assert (record.key, record.value) == ("é".encode(), "größe".encode())


def test_large_writes_are_cut_and_numbered(cluster: FakeCluster) -> None:
    batches = [rows(*[bytes(100)] * 50, partition=[0] * 50) for _ in range(10)]
    done = writer(topic="q", batchBytes="2048").write(iter(batches))
    assert isinstance(done, Written)
    assert done.rows == 500
    assert len(cluster.logs[Q0].batches) > 20
    assert all(len(batch) <= 2048 for batch in cluster.logs[Q0].batches)


def test_nothing_to_write_asks_nobody(cluster: FakeCluster) -> None:
    assert writer().write(iter([rows()])) == Written(0)
    assert cluster.asked == []


@pytest.mark.parametrize(
    ("given", "columns", "says"),
    [
        ({}, {"topic": [None]}, "column topic: a row has null there"),
        ({}, {"topic": ["none"]}, "column topic: there is no queue 'none'"),
        ({"topic": "q"}, {"partition": [2]}, "column partition: q has no partition 2"),
        ({"topic": "q"}, {"partition": [-1]}, "column partition: q has no partition"),
    ],
)
def test_rows_that_cannot_be_written(
    cluster: FakeCluster, given: dict[str, str], columns: dict[str, list[Any]], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorate.spark.task_writer.PATIENCE_S", 0.0)
    with pytest.raises(BadRows) as caught:
        writer(**given).write(iter([rows(b"v", **columns)]))
    assert says in str(caught.value)


def test_a_row_that_is_larger_than_a_batch_goes_alone(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    writer(topic="q", batchBytes="1024").write(iter([rows(b"a", bytes(5000), b"b", partition=[0, 0, 0])]))
    assert [len(batch) > 5000 for batch in cluster.logs[Q0].batches] == [False, True, False]

    def refuse(*_: object) -> None:
        raise RequestFailed(10, "an append to q/0")

    monkeypatch.setattr(cluster, "produce", refuse)
    with pytest.raises(BadRows, match=r"a batch of 50\d\d bytes is larger than max.message.bytes of q"):
        writer(topic="q").write(iter([rows(bytes(5000), partition=[0])]))


def test_a_queue_that_there_is_not(cluster: FakeCluster) -> None:
    with pytest.raises(BadOption, match="option topic: there is no queue 'none'"):
        writer(topic="none")


@pytest.mark.parametrize(
    ("ddl", "given", "says"),
    [
        ("key binary", {"topic": "q"}, "there is no column value; there are key"),
        ("value binary", {}, "neither an option topic nor a column topic"),
        ("value int", {"topic": "q"}, "column value: it must be binary or string, and is int"),
        ("value string, partition long", {"topic": "q"}, "column partition: it must be int, and is bigint"),
        ("value string, topic binary", {"topic": "q"}, "column topic: it must be string"),
        ("value string, headers strings", {"topic": "q"}, "column headers: it must be array<struct<"),
    ],
)
def test_columns_that_cannot_be_written(ddl: str, given: dict[str, str], says: str) -> None:
    with pytest.raises(BadRows) as caught:
        check_schema(write_options({"bootstrap": "a:1", **given}), schema(ddl))
    assert says in str(caught.value)


def test_columns_that_nobody_knows_are_left_out() -> None:
    check_schema(write_options({"bootstrap": "a:1", "topic": "q"}), schema("value string, offset long, timestamp timestamp"))


# Exactly once.


def test_each_micro_batch_is_committed_once(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    in_batch(monkeypatch, "query-1", "7")
    tasks = [stream_writer().write(iter([rows(b"%d" % task, b"x", partition=[0, 1])])) for task in range(3)]
    assert values(cluster, Q0) == []
    stream_writer().commit([*tasks, Written(0)], 7)
    assert sorted(filter(None, values(cluster, Q0))) == [b"0", b"1", b"2"]
    assert cluster.commits == {"query-1": 7}
    # The driver died before Spark's own commit, and all of it is done again.
    again = [stream_writer().write(iter([rows(b"again", b"x", partition=[0, 1])]))]
    stream_writer().commit(list(again), 7)
    assert len(values(cluster, Q0)) == 3
    assert cluster.logs[Q0].staged == {}
    assert "batch 7 of application query-1 was committed before" in caplog.text


def test_every_attempt_stages_under_an_id_of_its_own(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    in_batch(monkeypatch, "query-1", "0")
    first, second = (stream_writer().write(iter([rows(b"v", partition=[0])])) for _ in range(2))
    stream_writer().commit([second], 0)
    assert values(cluster, Q0) == [b"v"]
    assert isinstance(first, Written)
    assert first.stage is not None
    assert list(cluster.logs[Q0].staged) == [first.stage.producer_id]


def test_an_application_id_of_ones_own(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    in_batch(monkeypatch, "query-1", "0")
    stream_writer(applicationId="app").commit([stream_writer(applicationId="app").write(iter([rows(b"v")]))], 0)
    assert cluster.commits == {"app": 0}
    in_batch(monkeypatch, None, None)
    with pytest.raises(BadOption, match="option applicationId"):
        stream_writer().write(iter([rows(b"v")]))
    assert not cluster.logs[Q0].staged


def test_a_commit_of_other_batches_is_refused(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    in_batch(monkeypatch, "query-1", "3")
    done = stream_writer().write(iter([rows(b"v")]))
    with pytest.raises(BadRows, match="several batches"):
        stream_writer().commit([done], 4)


def test_after_a_failed_task_stages_are_dropped(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    in_batch(monkeypatch, "query-1", "0")
    done = stream_writer().write(iter([rows(b"v", partition=[0])]))
    stream_writer().abort([done], 0)  # every task was done: a commit may be under way
    assert cluster.logs[Q0].staged
    stream_writer().abort([done, None], 0)
    assert not cluster.logs[Q0].staged

    def broken() -> Any:
        yield rows(b"v", partition=[0])
        raise ValueError("the task's own input fails")

    with pytest.raises(ValueError, match="own input"):
        stream_writer(batchBytes="1024").write(broken())
    assert not cluster.logs[Q0].staged


def test_dropping_is_best_effort(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    in_batch(monkeypatch, "query-1", "0")
    done = stream_writer().write(iter([rows(b"v")]))
    cluster.failure = TimedOut("somewhere", "DROP_STAGED", 5)
    stream_writer().abort([done, None], 0)
    with pytest.raises(QuorateError):
        stream_writer().commit([done], 0)


def test_a_batch_write_is_all_or_nothing_and_can_be_named(cluster: FakeCluster) -> None:
    plain = writer(topic="q", delivery="exactly-once")
    plain.commit([plain.write(iter([rows(b"1")])), plain.write(iter([rows(b"2")]))])
    assert len(values(cluster, Q0) + values(cluster, Q1)) == 2
    for _ in range(2):
        named = writer(topic="q", delivery="exactly-once", applicationId="nightly", batchId="20261118")
        named.commit([named.write(iter([rows(b"3")]))])
    assert len(values(cluster, Q0) + values(cluster, Q1)) == 3
    assert cluster.commits["nightly"] == 20261118
