"""Bytes from a node's socket into answers. A large one gets a buffer of its own, into which the socket writes directly.

No I/O: the connection feeds it. An answer's bytes belong to it alone, so that whoever has it may keep it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

SHARED_BYTES: Final = 64 << 10
_LENGTH: Final = struct.Struct(">i")
_SMALLEST: Final = 4


class BadFrame(Exception):
    """The stream cannot be understood any further."""


class Receiver:
    """Cuts a stream into answers. Invariant: shared[:end] was received and not handed on."""

    __slots__ = ("_end", "_large", "_large_end", "_limit", "_on_frame", "_shared")

    def __init__(self, on_frame: Callable[[memoryview], None], limit: int) -> None:
        """`on_frame(frame)`: a whole answer without its length. `limit`: the largest one that is believed."""
        self._on_frame = on_frame
        self._limit = limit
        self._shared = memoryview(bytearray(SHARED_BYTES))
        self._end = 0
        self._large: memoryview | None = None
        self._large_end = 0

    @property
    def partial(self) -> bool:
        """Whether an answer has begun to arrive."""
        return self._large is not None or self._end > 0

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
        if self._large_end == len(large):
            self._large = None
            self._on_frame(large)
        return None

    def _cut(self) -> None:
        shared, at, end = self._shared, 0, self._end
        while end - at >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(shared, at)
            if not _SMALLEST <= size <= self._limit:
                raise BadFrame(f"an answer of {size} bytes")
            stop = at + _LENGTH.size + size
            if stop <= end:
                self._on_frame(memoryview(bytes(shared[at + _LENGTH.size : stop])))
                at = stop
                continue
            if stop - at > SHARED_BYTES:
                have = end - at - _LENGTH.size
                self._large = memoryview(bytearray(size))
                self._large[:have] = shared[at + _LENGTH.size : end]
                self._large_end, at = have, end
            break
        if at:
            rest = bytes(shared[at:end])
            shared[: len(rest)] = rest
            self._end = len(rest)
