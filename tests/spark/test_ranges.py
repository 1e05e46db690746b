"""Splitting and limiting never lose an offset, and never starve a partition."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from quorate.client import TopicPartition
from quorate.spark.ranges import Range, limited, split

_sizes = st.lists(st.integers(0, 1000), min_size=1, max_size=8)


def parts(count: int) -> list[TopicPartition]:
    return [TopicPartition("q", number) for number in range(count)]


@given(_sizes, st.none() | st.integers(1, 50))
def test_pieces_are_the_whole(sizes: list[int], least: int | None) -> None:
    ranges = [Range(part, 7, 7 + size) for part, size in zip(parts(len(sizes)), sizes, strict=True)]
    pieces = split(ranges, least)
    assert all(piece.size > 0 for piece in pieces)
    busy = [one for one in ranges if one.size]
    assert len(pieces) >= min(least or 0, sum(sizes)) or len(pieces) == len(busy)
    for one in busy:
        own = [piece for piece in pieces if piece.part == one.part]
        assert own[0].start == one.start
        assert own[-1].end == one.end
        assert all(before.end == after.start for before, after in pairwise(own))


@given(_sizes, st.integers(1, 2000), st.integers(0, 20))
def test_a_limit_is_kept_and_used(sizes: list[int], most: int, turn: int) -> None:
    start = dict.fromkeys(parts(len(sizes)), 5)
    end = {part: 5 + size for part, size in zip(start, sizes, strict=True)}
    got = limited(start, end, most, turn)
    assert got.keys() == end.keys()
    assert all(start[part] <= got[part] <= end[part] for part in end)
    assert sum(got[part] - 5 for part in got) == min(most, sum(sizes))


def test_no_partition_starves_below_a_tiny_limit() -> None:
    start, end = dict.fromkeys(parts(5), 0), dict(zip(parts(5), [1_000_000, 1, 1, 1, 1], strict=True))
    for turn in range(6):
        start = limited(start, end, 2, turn)
    assert all(start[part] == 1 for part in parts(5)[1:])


def test_a_log_that_is_shorter_than_it_was_stays_where_it_ends() -> None:
    first, second = parts(2)
    assert limited({first: 10, second: 0}, {first: 3, second: 100}, 5, 0) == {first: 3, second: 5}
