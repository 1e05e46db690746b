"""Bytes from a socket into frames, with as little copying as the socket allows. No I/O: the connection feeds it.

Small frames are read together into one buffer that is used again and again. A large frame gets a buffer of its own, of just
its size, into which the socket writes directly: views of it stay valid and pin nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

from quorate.consensus.transport.errors import BadFrame
from quorate.consensus.transport.frames import HEAD, LENGTH

SHARED_BYTES = 128 * 1024
LARGE_BYTES = 32 * 1024
"""A frame above this that is not here as a whole gets its own buffer."""
EAGER_BYTES = 4 * 1024 * 1024
"""The most that is set aside on the strength of a length alone; more only as it arrives."""


class Receiver:
    """Cuts a stream into frames.

    Invariant: shared[begin:end] is what was received and not handed on; it is less than one frame after `received`.
    """

    __slots__ = (
        "_begin",
        "_end",
        "_large",
        "_large_end",
        "_large_size",
        "_on_frame",
        "_shared",
        "_shared_bytes",
        "limit",
    )

    def __init__(self, on_frame: Callable[[memoryview, bool], None], limit: int, shared_bytes: int = SHARED_BYTES) -> None:
        """`on_frame(frame, owned)`: a whole frame. Unless it is owned, it is valid during the call only."""
        self._on_frame = on_frame
        self.limit = limit
        """The largest frame that is accepted."""
        self._shared_bytes = shared_bytes
        self._shared = memoryview(bytearray(shared_bytes))
        self._begin = self._end = 0
        self._large: memoryview | None = None
        self._large_end = self._large_size = 0

    @property
    def set_aside(self) -> int:
        """Bytes of the buffer of a large frame that is still arriving."""
        return len(self._large) if self._large is not None else 0

    def buffer(self) -> memoryview:
        """Where the next bytes go."""
        if self._large is not None:
            return self._large[self._large_end :]
        return self._shared[self._end :]

    def received(self, count: int) -> None:
        """`count` bytes were put into `buffer()`. Raises BadFrame; then the stream is lost."""
        large = self._large
        if large is None:
            self._end += count
            return self._cut()
        self._large_end += count
        if self._large_end == self._large_size:
            self._large = None
            self._on_frame(large, True)
        elif self._large_end == len(large):
            self._large = _grown(large, self._large_size)
        return None

    def _cut(self) -> None:
        """Hand on every whole frame, and make room for the rest of the one after."""
        shared, unpack = self._shared, LENGTH.unpack_from
        begin, end = self._begin, self._end
        size = HEAD.size
        while end - begin >= HEAD.size:
            size = LENGTH.size + unpack(shared, begin)[0]
            if size < HEAD.size or size > self.limit:
                raise BadFrame(f"a frame of {size} bytes is not within {HEAD.size}..{self.limit}")
            if end - begin < size:
                break
            self._begin = begin + size
            self._on_frame(shared[begin : begin + size], False)
            begin += size
            size = HEAD.size
        if begin == end:
            self._begin = self._end = 0
        elif size > LARGE_BYTES:
            self._own(begin, end, size)
        else:
            self._begin = begin
            if begin + size > self._shared_bytes:
                self._move(begin, end)

    def _own(self, begin: int, end: int, size: int) -> None:
        """Give the frame that begins at `begin` a buffer of its own."""
        have = end - begin
        large = memoryview(bytearray(min(size, EAGER_BYTES)))
        large[:have] = self._shared[begin:end]
        self._large, self._large_end, self._large_size = large, have, size
        self._begin = self._end = 0

    def _move(self, begin: int, end: int) -> None:
        """Move what is left to the front, so that the frame fits."""
        rest = bytes(self._shared[begin:end])
        self._shared[: len(rest)] = rest
        self._begin, self._end = 0, len(rest)


def _grown(large: memoryview, size: int) -> memoryview:
    grown = memoryview(bytearray(min(size, 4 * len(large))))
    grown[: len(large)] = large
    return grown
