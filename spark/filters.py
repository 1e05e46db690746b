"""Filters that Spark pushes down, as bounds: which partitions, which offsets, which times. All of them are ANDed.

Bounds only leave out what cannot match. Spark is told to look again at what is bounded by time, since that is only as exact
as batches are. Not here: turning times into offsets (`batch_reader`).
"""

from __future__ import annotations

import calendar
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

FAR: Final = 1 << 63
"""Beyond every offset and time."""


@dataclass
class Bounds:
    """What may match: from the first to before the second number of each pair."""

    offsets: tuple[int, int] = (0, FAR)
    times_us: tuple[int, int] = (-FAR, FAR)
    partitions: frozenset[int] | None = None
    topics: frozenset[str] | None = None
    exact: list[Filter] = field(default_factory=list)

    def take(self, filters: Iterable[Filter]) -> Iterator[Filter]:
        """Use what can be used, and return what Spark still has to look at."""
        for one in filters:
            if not self._take(one):
                yield one

    def _take(self, one: Filter) -> bool:
        """Whether rows within the bounds need not be looked at for this filter's sake."""
        column: tuple[str, ...] = getattr(one, "attribute", ())
        take = _TAKERS.get(column[0]) if len(column) == 1 else None
        return take is not None and take(self, one)

    def _take_offset(self, one: Filter) -> bool:
        span = _span(one, int)
        if span is None:
            return False
        self.offsets = _both(self.offsets, span)
        return True

    def _take_partition(self, one: Filter) -> bool:
        wanted = _values(one, int)
        if wanted is None:
            return False
        self.partitions = wanted if self.partitions is None else self.partitions & wanted
        return True

    def _take_topic(self, one: Filter) -> bool:
        wanted = _values(one, str)
        if wanted is None:
            return False
        self.topics = wanted if self.topics is None else self.topics & wanted
        return True

    def _take_time(self, one: Filter) -> bool:
        span = _span(one, datetime, _microseconds)
        if span is not None:
            self.times_us = _both(self.times_us, span)
        return False


_TAKERS: Final[dict[str, Callable[[Bounds, Filter], bool]]] = {
    "offset": Bounds._take_offset,
    "partition": Bounds._take_partition,
    "topic": Bounds._take_topic,
    "timestamp": Bounds._take_time,
}


def _same(value: Any) -> int:
    return int(value)


def _span(one: Filter, kind: type, number: Callable[[Any], int] = _same) -> tuple[int, int] | None:
    """The numbers that match: from the first to before the second."""
    value = getattr(one, "value", None)
    if isinstance(value, bool) or not isinstance(value, kind):
        return None
    match one:
        case EqualTo():
            return number(value), number(value) + 1
        case GreaterThan():
            return number(value) + 1, FAR
        case GreaterThanOrEqual():
            return number(value), FAR
        case LessThan():
            return -FAR, number(value)
        case LessThanOrEqual():
            return -FAR, number(value) + 1
        case _:
            return None


def _values(one: Filter, kind: type) -> frozenset[Any] | None:
    values = (one.value,) if isinstance(one, EqualTo) else one.value if isinstance(one, In) else None
    if values is None or not all(isinstance(value, kind) and not isinstance(value, bool) for value in values):
        return None
    return frozenset(values)


def _both(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return max(one[0], other[0]), min(one[1], other[1])


def _microseconds(moment: datetime) -> int:
    """Since 1970. A time without a zone is UTC, as Arrow's are."""
    return calendar.timegm(moment.utctimetuple()) * 1_000_000 + moment.microsecond
