"""Finding the batches that cover a range of offsets in what a fetch brought."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.protocol.batches import Span, span
from quorate.consensus.batch.errors import BadBatch, Reason
from quorate.consensus.batch.header import stamp
from tests.support.record_batches import record_batch

END = 1 << 63


def log(*batches: tuple[int, int]) -> bytes:
    """Batches by their first offset and count."""
    found = b""
    for base, count in batches:
        data = record_batch(100, count)
        stamp(data, base, 1)
        found += data
    return found


@given(
    counts=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), max_size=8),
    begin=st.integers(0, 30),
    length=st.integers(0, 30),
    cut=st.integers(0, 99),
)
def test_it_is_what_a_look_at_each_batch_finds(counts: list[tuple[int, int]], begin: int, length: int, cut: int) -> None:
    """With gaps between batches, as compaction leaves them, and a last one that is cut off."""
    batches, base = [], 0
    for gap, count in counts:
        batches.append((base + gap, count))
        base += gap + count
    end = begin + length
    data = log(*batches)
    wanted = [number for number, (base, count) in enumerate(batches) if base + count > begin and base < end]
    if cut and batches:
        data = data[:-cut]
        wanted = [number for number in wanted if number < len(batches) - 1]
    found = span(data, begin, end, check=True)
    if not wanted:
        assert found == Span(0, 0, begin)
    else:
        last = batches[wanted[-1]]
        assert found == Span(100 * wanted[0], 100 * (wanted[-1] + 1), last[0] + last[1])


def test_checksums_are_compared_if_asked_for() -> None:
    data = bytearray(log((0, 1), (1, 1)))
    data[150] ^= 1
    with pytest.raises(BadBatch) as error:
        span(data, 0, END, check=True)
    assert error.value.reason is Reason.CRC
    assert span(data, 0, END, check=False) == Span(0, 200, 2)
    # What is not wanted is not looked at.
    assert span(data, 0, 1, check=True) == Span(0, 100, 1)


@pytest.mark.parametrize("batches", [[(0, 5), (3, 5)], [(0, 5), (0, 5)], [(5, 5), (0, 5)]])
def test_batches_that_overlap_or_go_back(batches: list[tuple[int, int]]) -> None:
    with pytest.raises(BadBatch) as error:
        span(log(*batches), 0, END, check=True)
    assert error.value.reason is Reason.OFFSET


@given(data=st.binary(max_size=300), begin=st.integers(0, 100))
def test_nonsense_is_refused_or_empty(data: bytes, begin: int) -> None:
    try:
        found = span(data, begin, END, check=True)
    except BadBatch:
        return
    assert found == Span(0, 0, begin)
