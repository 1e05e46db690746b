"""Ranges of offsets as tasks: splitting large ones, and taking no more than a limit. Arithmetic only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from pyspark.sql.datasource import InputPartition

from quorate.client import TopicPartition
from quorate.spark.offsets import Offsets


class Range(NamedTuple):
    """The offsets from `start` to before `end` of one partition."""

    part: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets; control batches take some, and are no rows."""
        return self.end - self.start


class RangeTask(InputPartition):
    """A range as Spark hands it to a task."""

    def __init__(self, wanted: Range) -> None:
        super().__init__(wanted)
        self.range = wanted


def split(ranges: Iterable[Range], least: int | None) -> list[Range]:
    """At least so many ranges, if there are as many offsets; the large ones are split, into equal pieces."""
    whole = [one for one in ranges if one.size > 0]
    if least is None or len(whole) >= least:
        return whole
    total = sum(one.size for one in whole)
    pieces = {one.part: 1 for one in whole}
    # Like seats to parties: each further piece goes to the range whose pieces are the largest.
    for _ in range(min(least, total) - len(whole)):
        most = max(whole, key=lambda one: (one.size / pieces[one.part], one.part))
        pieces[most.part] += 1
    return [piece for one in whole for piece in _pieces(one, pieces[one.part])]


def _pieces(one: Range, count: int) -> list[Range]:
    edges = [one.start + one.size * number // count for number in range(count + 1)]
    return [Range(one.part, first, end) for first, end in pairwise(edges) if end > first]


def tasks(ranges: Iterable[Range]) -> Sequence[RangeTask]:
    """What Spark wants."""
    return [RangeTask(one) for one in ranges]


def limited(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], most: int, turn: int) -> Offsets:
    """Ends that are at most `most` offsets from the starts, shared out by how much there is.

    What is left over after rounding goes one by one to partitions, beginning with another one each `turn`, and first to
    those that got nothing: so none starves.
    """
    sizes = {part: max(0, end[part] - start[part]) for part in sorted(end)}
    total = sum(sizes.values())
    if total <= most:
        return dict(end)
    shares = {part: most * size // total for part, size in sizes.items()}
    waiting = [part for part, size in sizes.items() if shares[part] < size]
    first = turn % len(waiting)
    queue = sorted(waiting[first:] + waiting[:first], key=lambda part: shares[part] > 0)
    for part in queue[: most - sum(shares.values())]:
        shares[part] += 1
    return {part: start[part] + share if sizes[part] else end[part] for part, share in shares.items()}
