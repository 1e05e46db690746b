"""A range of a partition, read to its end: the next fetches are under way while the caller works with the last one.

Every batch comes once and in order, whatever happens to nodes and connections in between: the position moves on with what
was received, and what failed is fetched again from there. At most `prefetch` answers wait for the caller; one is arriving.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Self

from quorate.client.core import Core, Part
from quorate.client.errors import BadInput, QuorateError, TimedOut
from quorate.client.reading import Fetcher

_WAIT_MS: Final = 500
"""How long a fetch waits for messages that are not there yet, before the next one does."""


class Stream:
    """An async iterator. `aclose` ends it early; whoever makes it calls that in any case."""

    def __init__(self, core: Core, part: Part, start: int, end: int, max_bytes: int, prefetch: int) -> None:
        if start < 0:
            raise BadInput(f"{part}: a stream from offset {start}")
        if prefetch < 0:
            raise BadInput(f"prefetch must not be negative, and is {prefetch}")
        self._core = core
        self._part = part
        self._at = start
        self._end = end
        self._most = prefetch
        self._fetcher = Fetcher(core, part, max_bytes, max_wait_ms=_WAIT_MS)
        self._ready: deque[memoryview] = deque()
        self._wanted = asyncio.Event()
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._error: QuorateError | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> memoryview:
        if not self._most:
            data = await self._next()
            if data is None:
                raise StopAsyncIteration
            return data
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        while not self._ready:
            if self._task.done():
                self._task.result()
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        data = self._ready.popleft()
        self._wanted.set()
        return data

    async def aclose(self) -> None:
        """No more. Drops what is under way."""
        self._ready.clear()
        self._at = self._end
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        """Fetch ahead. Its end is seen once everything before it has been taken."""
        try:
            while (data := await self._next()) is not None:
                self._ready.append(data)
                self._news.set()
                while len(self._ready) >= self._most:
                    self._wanted.clear()
                    await self._wanted.wait()
        except QuorateError as error:
            self._error = error
        finally:
            self._news.set()

    async def _next(self) -> memoryview | None:
        """The next batches; None at the end."""
        if self._at >= self._end:
            return None
        attempts = self._core.attempts()
        while True:
            fetched = await self._fetcher.fetch(self._at, self._end, attempts)
            self._at = self._fetcher.next_offset
            if fetched.data:
                return fetched.data
            # There is nothing yet: the range reaches beyond the log, or its leader is behind.
            await attempts.idle(TimedOut(str(self._part), f"offset {self._at}", self._core.settings.retry_ms))
