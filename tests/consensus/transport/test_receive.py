"""A stream into frames, however it is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.consensus.transport import BadFrame
from quorate.consensus.transport.frames import HEAD
from quorate.consensus.transport.receive import EAGER_BYTES, LARGE_BYTES, SHARED_BYTES, Receiver

LIMIT = 1 << 20


class Sink:
    """Feeds a receiver, and keeps what it hands on: copies, and the frames that are its own."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.frames: list[bytes] = []
        self.owned: list[memoryview] = []
        self.receiver = Receiver(self.on_frame, limit)

    def on_frame(self, frame: memoryview, owned: bool) -> None:
        self.frames.append(bytes(frame))
        if owned:
            self.owned.append(frame)

    def feed(self, data: bytes, most: int) -> None:
        view = memoryview(data)
        while view:
            room = self.receiver.buffer()
            assert len(room) > 0
            count = min(len(room), len(view), most)
            room[:count] = view[:count]
            view = view[count:]
            self.receiver.received(count)


def frame(size: int, fill: int) -> bytes:
    return HEAD.pack(size - 4, 16) + bytes([fill]) * (size - HEAD.size)


sizes = st.integers(HEAD.size, 300) | st.integers(LARGE_BYTES - 50, LARGE_BYTES + 50) | st.integers(1_000, 200_000)


@given(st.lists(sizes, min_size=1, max_size=8), st.integers(1, 300_000))
def test_frames_come_out_whole_in_order_however_they_arrive(sizes: list[int], most: int) -> None:
    sent = [frame(size, n) for n, size in enumerate(sizes)]
    sink = Sink()
    sink.feed(b"".join(sent), max(most, sum(sizes) // 2_000))
    assert sink.frames == sent


def test_a_large_frame_has_a_buffer_of_just_its_size_that_stays_valid() -> None:
    sink = Sink()
    large = frame(SHARED_BYTES + 1000, 7)
    sink.feed(large + frame(60, 1) + frame(SHARED_BYTES * 2, 9), 50_000)
    assert len(sink.owned) == 2
    assert isinstance(sink.owned[0].obj, bytearray)
    assert len(sink.owned[0].obj) == len(large)
    assert bytes(sink.owned[0]) == large


@pytest.mark.parametrize("size", [LIMIT + 1, (1 << 32) + 3, 4])
def test_a_length_out_of_bounds_is_refused_before_anything_is_allocated(size: int) -> None:
    sink = Sink()
    with pytest.raises(BadFrame, match="not within"):
        sink.feed(HEAD.pack(size - 4, 16), 100)


def test_a_length_alone_sets_little_memory_aside() -> None:
    sink = Sink(limit=128 << 20)
    size = 100 << 20
    sink.feed(HEAD.pack(size - 4, 16), 100)
    assert sink.receiver.set_aside == EAGER_BYTES
    sent = frame(3 * EAGER_BYTES, 5)
    grown = Sink(limit=128 << 20)
    grown.feed(sent + frame(60, 1), 1 << 20)
    assert grown.frames == [sent, frame(60, 1)]
    assert grown.receiver.set_aside == 0


@given(st.binary(max_size=3_000), st.integers(1, 100))
def test_garbage_is_refused_or_waits_for_more(data: bytes, most: int) -> None:
    sink = Sink(limit=1024)
    try:
        sink.feed(data, most)
    except BadFrame:
        return
    assert sum(map(len, sink.frames)) <= len(data)
