"""Bytes from a client's socket into requests, with as little copying as the socket allows. No I/O: the connection feeds it.

Small requests are read together and handed on as copies of their own. A large one gets its own buffer, into which the socket
writes directly, and which grows as the request arrives, if there is room. Either way a request's bytes belong to it alone:
an append may keep and patch them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

SHARED_BYTES = 64 * 1024
LARGE_BYTES = 16 * 1024
"""A request above this that is not here as a whole gets its own buffer."""
EAGER_BYTES = 1024 * 1024
"""The most that is set aside on the strength of a length alone; more only as it arrives."""
MIN_BYTES = 8
"""A request's api, version and correlation id."""

_LENGTH = struct.Struct(">i")


class BadFrame(Exception):
    """The stream cannot be understood any further."""


class Receiver:
    """Cuts a stream into requests.

    While `halted`, requests are left in the buffer; while `short`, a large one waits for room (`grow`); `full` says when no
    more bytes may be read.
    Invariant: shared[begin:end] is what was received and not handed on.
    """

    __slots__ = (
        "_begin",
        "_end",
        "_large",
        "_large_end",
        "_large_size",
        "_on_frame",
        "_room",
        "_shared",
        "_shared_bytes",
        "halted",
        "limit",
        "short",
    )

    def __init__(
        self,
        on_frame: Callable[[memoryview], None],
        limit: int,
        room: Callable[[int], bool] = lambda count: True,
        shared_bytes: int = SHARED_BYTES,
    ) -> None:
        """`on_frame(frame)`: a whole request without its length, in memory of its own. `room(count)`: whether so many bytes
        more may be set aside for a large one."""
        self._on_frame = on_frame
        self._room = room
        self.limit = limit
        """The largest request that is accepted."""
        self.halted = self.short = False
        self._shared_bytes = shared_bytes
        self._shared = memoryview(bytearray(shared_bytes))
        self._begin = self._end = 0
        self._large: memoryview | None = None
        self._large_end = self._large_size = 0

    @property
    def partial(self) -> bool:
        """Whether something is here that was not handed on."""
        return self._large is not None or self._begin < self._end

    @property
    def set_aside(self) -> int:
        """Bytes of the buffer of a large request that is still arriving."""
        return len(self._large) if self._large is not None else 0

    @property
    def full(self) -> bool:
        """Whether there is no room for more bytes before something is handed on."""
        return self.short or (self._large is None and self._end == self._shared_bytes)

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
            return self.cut()
        self._large_end += count
        if self._large_end == self._large_size:
            self._large = None
            self._on_frame(large)
        elif self._large_end == len(large):
            self.grow()
        return None

    def grow(self) -> bool:
        """Set more aside for the large request, whose buffer is full; whether there was room."""
        large = self._large
        if large is None:
            return True
        size = min(self._large_size, 4 * len(large))
        self.short = not self._room(size - len(large))
        if not self.short:
            self._large = memoryview(bytearray(size))
            self._large[: len(large)] = large
        return not self.short

    def cut(self) -> None:
        """Hand on every whole request, unless halted, and make room for the rest of the one after."""
        shared, unpack = self._shared, _LENGTH.unpack_from
        begin, end = self._begin, self._end
        size = 0
        while end - begin >= 4 and not self.halted:
            size = unpack(shared, begin)[0]
            if size < MIN_BYTES or size > self.limit:
                raise BadFrame(f"a request of {size} bytes is not within {MIN_BYTES}..{self.limit}")
            stop = begin + 4 + size
            if stop > end:
                break
            self._begin = stop
            self._on_frame(memoryview(bytearray(shared[begin + 4 : stop])))
            begin, size = stop, 0
        if begin == end:
            self._begin = self._end = 0
        elif size > LARGE_BYTES:
            self._own(begin + 4, end, size)
        elif begin and (begin + 4 + size > self._shared_bytes or end == self._shared_bytes):
            self._move(begin, end)

    def _own(self, begin: int, end: int, size: int) -> None:
        """Give the request whose bytes begin at `begin` a buffer of its own. Without room for that it stays where it is."""
        have = end - begin
        first = min(size, max(EAGER_BYTES, 2 * have))
        if not self._room(first):
            self.halted = True
            return
        large = memoryview(bytearray(first))
        large[:have] = self._shared[begin:end]
        self._large, self._large_end, self._large_size = large, have, size
        self._begin = self._end = 0

    def _move(self, begin: int, end: int) -> None:
        """Move what is left to the front, so that there is room behind it."""
        rest = bytes(self._shared[begin:end])
        self._shared[: len(rest)] = rest
        self._begin, self._end = 0, len(rest)
