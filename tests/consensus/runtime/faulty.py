"""Stores that fail or dawdle when they are told to, and a state machine that can be slow."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Sequence

from quorate.consensus.core import Batch, BatchKind, Configuration, Offset, Persist, new_group
from quorate.consensus.storage.api import StorageError
from quorate.consensus.storage.memory import MemoryLog


class FaultyLog(MemoryLog):
    """A log in memory whose writes fail while `fault` is set, and wait while `gate` is closed."""

    def __init__(self, members: Configuration) -> None:
        super().__init__(new_group(members))
        self.fault: StorageError | None = None
        self.refused = 0
        self.gate = threading.Event()
        self.gate.set()

    def write(self, writes: Sequence[Persist]) -> None:
        self.gate.wait(20)
        if self.fault is not None and any(write.batches for write in writes):
            self.refused += 1
            raise self.fault
        super().write(writes)


class Sums:
    """A state machine: how many batches there were, and the last offset. `hold` makes it slow."""

    def __init__(self) -> None:
        self.offsets: list[Offset] = []
        self.loaded: list[tuple[Offset, bytes]] = []
        self.hold: asyncio.Event | None = None
        self.most_at_once = 0
        self.broken = False

    def apply(self, batches: Sequence[Batch]) -> Awaitable[None] | None:
        if self.broken:
            raise ZeroDivisionError("a bug in a state machine")
        self.offsets += [batch.base for batch in batches if batch.kind is BatchKind.DATA]
        self.most_at_once = max(self.most_at_once, sum(len(batch.data) for batch in batches))
        if self.hold is None:
            return None
        return self._wait(self.hold)

    async def _wait(self, hold: asyncio.Event) -> None:
        await hold.wait()

    def save(self) -> bytes:
        return ",".join(map(str, self.offsets)).encode()

    def load(self, offset: Offset, state: bytes) -> None:
        self.loaded.append((offset, state))
        self.offsets = [Offset(int(part)) for part in state.decode().split(",") if part]
