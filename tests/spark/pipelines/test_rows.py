"""What the pipelines do to rows, on DataFrames that are made here: no cluster, no queue."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from quorate.spark.pipelines.archive import PARTITIONED_BY, SCHEMA, laid_out, read_archive, write_batch
from quorate.spark.pipelines.errors import PipelineError
from quorate.spark.pipelines.files import OWN, Files, Marks
from quorate.spark.pipelines.replay import Plan, in_ranges, in_time, to_append
from quorate.spark.pipelines.traffic import EventTime, Prefix, as_messages, summed, timed
from quorate.spark.schema import spark_schema

pytestmark = pytest.mark.xdist_group("spark")

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)


def at(minute: int, second: int = 0) -> datetime:
    return NOON.replace(minute=minute, second=second)


def message(offset: int, when: datetime = NOON, *, partition: int = 0, topic: str = "orders", **more: Any) -> dict[str, Any]:
    return {
        "key": more.get("key"),
        "value": more.get("value", f"value {offset}".encode()),
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": when,
        "timestampType": 1,
        "headers": more.get("headers"),
    }


def frame(session: SparkSession, *messages: dict[str, Any]) -> DataFrame:
    return session.createDataFrame([Row(**one) for one in messages], spark_schema(headers=True))


def offsets(rows: DataFrame) -> list[tuple[int, int]]:
    return sorted((row.partition, row.offset) for row in rows.select("partition", "offset").collect())


def test_folders_are_named_by_log_time_in_utc(session: SparkSession) -> None:
    rows = laid_out(frame(session, message(7, datetime(2026, 11, 18, 23, 59, 59, tzinfo=UTC))), 3)
    [row] = rows.select(*PARTITIONED_BY).collect()
    assert row == ("orders", date(2026, 11, 18), 23, 3)


def test_an_archive_is_read_back_as_it_was(session: SparkSession, tmp_path: Path) -> None:
    to = str(tmp_path / "archive")
    put = write_batch(to, Marks(Files(session, to), f"{OWN}/done"))
    header = [Row(key="trace", value=b"\x00\xff")]
    put(frame(session, message(0, key=b"\xff\x00", headers=header), message(1, value=None, topic="2026")), 0)
    rows = read_archive(session, to).orderBy("offset").collect()
    assert rows[0].key == b"\xff\x00"
    assert rows[0].headers == header
    assert rows[1].value is None
    assert [row.topic for row in rows] == ["orders", "2026"]
    assert read_archive(session, to).schema == SCHEMA


def test_a_batch_that_runs_again_replaces_itself_and_nothing_else(session: SparkSession, tmp_path: Path) -> None:
    to = str(tmp_path / "archive")
    done = Marks(Files(session, to), f"{OWN}/done")
    put = write_batch(to, done)
    first, second = frame(session, message(0), message(1)), frame(session, message(2), message(3, NOON.replace(hour=13)))
    put(first, 0)
    put(second, 1)
    put(second, 1)
    put(first, 0)
    assert offsets(read_archive(session, to)) == [(0, 0), (0, 1), (0, 2), (0, 3)]
    # Any reader of Parquet, not only one that knows our marks.
    assert offsets(session.read.parquet(to)) == [(0, 0), (0, 1), (0, 2), (0, 3)]


def test_a_batch_that_is_not_finished_is_not_read(session: SparkSession, tmp_path: Path) -> None:
    to = str(tmp_path / "archive")
    done = Marks(Files(session, to), f"{OWN}/done")
    write_batch(to, done)(frame(session, message(0)), 0)
    half = laid_out(frame(session, message(1)), 1)
    half.write.mode("append").partitionBy(*PARTITIONED_BY).parquet(to)
    assert offsets(read_archive(session, to)) == [(0, 0)]


def test_what_is_no_archive_is_refused(session: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="is no archive"):
        read_archive(session, str(tmp_path))


def test_a_time_range_begins_with_its_first_and_ends_before_its_last_moment(session: SparkSession) -> None:
    late = datetime(2026, 11, 19, tzinfo=UTC)
    rows = laid_out(frame(session, message(0, at(1)), message(1, at(2)), message(2, at(3)), message(3, late)), 0)
    since, until = (round(when.timestamp() * 1_000) for when in (at(2), at(3)))
    assert offsets(in_time(rows, since, until)) == [(0, 1)]
    assert offsets(in_time(rows, since, None)) == [(0, 1), (0, 2), (0, 3)]
    assert offsets(in_time(rows, None, since)) == [(0, 0)]
    assert offsets(in_time(rows, None, round(late.timestamp() * 1_000) + 1)) == [(0, 0), (0, 1), (0, 2), (0, 3)]


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 100])
def test_the_steps_of_a_plan_cover_each_offset_once(steps: int) -> None:
    plan = Plan(ranges={0: (10, 25), 1: (0, 1), 2: (5, 5), 3: (1_000, 1_099)}, total=115, steps=steps)
    covered = [
        (part, offset) for number in range(steps) for part, (a, b) in plan.step(number).items() for offset in range(a, b)
    ]
    wanted = [(part, offset) for part, (a, b) in plan.ranges.items() for offset in range(a, b)]
    assert sorted(covered) == wanted
    assert all(list(plan.step(number)) == sorted(plan.step(number)) for number in range(steps))


def test_rows_of_a_step_keep_the_order_of_their_partition(session: SparkSession) -> None:
    made = [message(offset, partition=part) for offset in range(20) for part in (1, 0)]
    rows = in_ranges(frame(session, *made).repartition(5), {0: (3, 15), 1: (0, 2)})
    order = [(row.partition, row.offset) for row in rows.collect()]
    assert [offset for part, offset in order if part == 0] == list(range(3, 15))
    assert [offset for part, offset in order if part == 1] == [0, 1]


def test_a_mark_says_where_a_message_came_from(session: SparkSession) -> None:
    rows = to_append(
        frame(session, message(5, headers=[Row(key="a", value=b"1")]), message(6, partition=2)),
        keep_partitions=True,
        mark=True,
    )
    first, second = rows.collect()
    stamp = round(NOON.timestamp() * 1_000)
    assert first.headers == [Row(key="a", value=b"1"), Row(key="quorate-replayed", value=f"orders/0/5@{stamp}".encode())]
    assert second.headers == [Row(key="quorate-replayed", value=f"orders/2/6@{stamp}".encode())]
    assert second.partition == 2
    assert to_append(frame(session, message(5)), keep_partitions=False, mark=False).columns == ["key", "value", "headers"]


def event_times(session: SparkSession, where: EventTime, *values: bytes | None) -> list[tuple[datetime, bool]]:
    rows = timed(frame(session, *(message(number, value=value) for number, value in enumerate(values))), where)
    return [(row.event_time.replace(tzinfo=UTC), row.untimed) for row in rows.orderBy("offset").collect()]


def test_event_time_is_found_in_a_field(session: SparkSession) -> None:
    values = [
        json.dumps({"made": {"at": round(at(5).timestamp() * 1_000)}}).encode(),
        json.dumps({"made": {"at": "2026-11-18T12:05:00Z"}}).encode(),
        json.dumps({"made": {"at": "2026-11-18T13:05:00+01:00"}}).encode(),
        json.dumps({"made": {"at": "2026-11-18 12:05:00"}}).encode(),
    ]
    assert event_times(session, EventTime(kind="json", name="made.at"), *values) == [(at(5), False)] * 4


def test_what_tells_no_event_time_counts_at_its_log_time(session: SparkSession) -> None:
    values = [
        None,
        b"",
        b"\xff\xfe",
        b"{",
        b'{"at": "soon"}',
        b'{"at": 99999999999999999999}',
        b'{"at": null}',
    ]
    found = event_times(session, EventTime(kind="json", name="at"), *values)
    assert found == [(NOON, True)] * len(values)
    assert event_times(session, EventTime(), b"x") == [(NOON, False)]


def test_event_time_is_found_in_the_last_header_of_its_name(session: SparkSession) -> None:
    def sent(*times: str) -> list[Row]:
        return [Row(key="sent", value=time.encode()) for time in times] + [Row(key="other", value=b"2026-01-01")]

    rows = frame(
        session, message(0, headers=sent("2026-11-18T12:01:00Z", "2026-11-18T12:02:00Z")), message(1, headers=sent())
    )
    found = timed(rows, EventTime(kind="header", name="sent")).orderBy("offset").collect()
    assert [(row.event_time, row.untimed) for row in found] == [
        (at(2).replace(tzinfo=None), False),
        (NOON.replace(tzinfo=None), True),
    ]


def test_traffic_is_summed_up_per_queue_prefix_and_minute(session: SparkSession) -> None:
    def sent(offset: int, when: datetime, event: datetime, **more: Any) -> dict[str, Any]:
        value = json.dumps({"at": event.isoformat()}).encode()
        return message(offset, when, value=value, **more)

    size = len(json.dumps({"at": at(1).isoformat()}))
    rows = frame(
        session,
        sent(0, at(1, 2), at(1), key=b"eu:1"),
        sent(1, at(1, 4), at(1), key=b"eu:2"),
        sent(2, at(3), at(2), key=b"eu:1"),
        sent(3, at(1, 2), at(1), key=b"us:1"),
        sent(4, at(1, 2), at(1), key=b"eu:9", topic="payments"),
        message(5, at(1, 2), value=b"no time", key=None),
    )
    table = summed(timed(rows, EventTime(kind="json", name="at")), Prefix(until=":"))
    found = {(row.queue, row.prefix, row.minute.minute): row for row in table.collect()}
    assert set(found) == {
        ("orders", "eu", 1),
        ("orders", "eu", 2),
        ("orders", "us", 1),
        ("payments", "eu", 1),
        ("orders", "", 1),
    }
    first = found["orders", "eu", 1]
    assert (first.messages, first.bytes, first.untimed) == (2, 2 * (size + 4), 0)
    assert (first.lag_ms_avg, first.lag_ms_max) == (3_000, 4_000)
    assert found["orders", "eu", 2].lag_ms_max == 60_000
    untimed = found["orders", "", 1]
    assert (untimed.messages, untimed.untimed, untimed.lag_ms_avg, untimed.lag_ms_max) == (1, 1, None, None)


def test_prefixes_are_bounded_and_need_no_utf8(session: SparkSession) -> None:
    keys = [b"abcdef", b"\xff\xfeabc", "äöüß".encode(), None]
    rows = timed(frame(session, *(message(number, key=key) for number, key in enumerate(keys))), EventTime())
    found = {row.prefix for row in summed(rows, Prefix(length=3)).collect()}
    assert found == {"abc", "\ufffd\ufffda", "äöü", ""}
    assert {row.prefix for row in summed(rows, Prefix(length=0)).collect()} == {""}


def test_traffic_as_messages(session: SparkSession) -> None:
    rows = summed(timed(frame(session, message(0, at(1), key=b"eu:1", value=b"12345")), EventTime()), Prefix(until=":"))
    [row] = as_messages(rows).collect()
    assert row.key == b"orders/eu"
    assert json.loads(row.value) == {
        "queue": "orders",
        "prefix": "eu",
        "minute": "2026-11-18T12:01:00Z",
        "messages": 1,
        "bytes": 9,
        "untimed": 0,
        "lag_ms_avg": 0.0,
        "lag_ms_max": 0,
    }
