"""Cutting a stream into answers, however it comes in."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.client.receive import SHARED_BYTES, BadFrame, Receiver

LIMIT = 1 << 20
SIZES = st.one_of(
    st.integers(4, 300), st.integers(SHARED_BYTES - 10, SHARED_BYTES + 10), st.integers(SHARED_BYTES, 3 * SHARED_BYTES)
)


@settings(max_examples=40)
@given(sizes=st.lists(SIZES, max_size=8), steps=st.lists(st.integers(1, 2 * SHARED_BYTES), min_size=1, max_size=20))
def test_any_cuts_give_the_same_answers(sizes: list[int], steps: list[int]) -> None:
    frames = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    found: list[memoryview] = []
    receiver = Receiver(found.append, LIMIT)
    at, step = 0, 0
    while at < len(stream):
        buffer = receiver.buffer()
        assert len(buffer), "there is always room"
        count = min(len(buffer), steps[step % len(steps)], len(stream) - at)
        buffer[:count] = stream[at : at + count]
        receiver.received(count)
        at, step = at + count, step + 1
        assert receiver.partial is (at != sum(len(frame) + 4 for frame in frames[: len(found)]))
    # What was handed on stays as it is, whatever came after it.
    assert found == frames


@pytest.mark.parametrize("size", [0, 3, LIMIT + 1, -1, 0x48545450])
def test_a_length_that_cannot_be(size: int) -> None:
    receiver = Receiver(lambda frame: None, LIMIT)
    receiver.buffer()[:4] = size.to_bytes(4, "big", signed=True)
    with pytest.raises(BadFrame):
        receiver.received(4)
