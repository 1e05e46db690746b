"""Which filters are used, and which Spark has to look at again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from quorate.spark.filters import FAR, Bounds


def bounds(*filters: Filter) -> tuple[Bounds, list[Filter]]:
    found = Bounds()
    return found, list(found.take(filters))


def test_offsets_partitions_and_topics_are_exact() -> None:
    found, left = bounds(
        GreaterThan(("offset",), 5),
        LessThanOrEqual(("offset",), 9),
        In(("partition",), (1, 2)),
        EqualTo(("partition",), 2),
        EqualTo(("topic",), "q"),
    )
    assert left == []
    assert (found.offsets, found.partitions, found.topics) == ((6, 10), frozenset({2}), frozenset({"q"}))


def test_times_are_looked_at_again() -> None:
    moment = datetime(2023, 11, 14, 22, 13, 20, 500, tzinfo=UTC)
    filters = [
        GreaterThanOrEqual(("timestamp",), moment),
        LessThan(("timestamp",), moment.astimezone(timezone(timedelta(hours=5)))),
    ]
    found, left = bounds(*filters)
    assert left == filters
    assert found.times_us == (1_700_000_000_000_500, 1_700_000_000_000_500)


def test_the_rest_is_sparks() -> None:
    filters = [
        IsNotNull(("offset",)),
        EqualTo(("key",), b"k"),
        EqualTo(("headers", "key"), "h"),
        Not(EqualTo(("partition",), 1)),
        EqualTo(("offset",), None),
        GreaterThan(("partition",), 1),
        In(("partition",), (1, None)),
    ]
    found, left = bounds(*filters)
    assert left == filters
    assert found.offsets == (0, FAR)
    assert (found.partitions, found.topics) == (None, None)
