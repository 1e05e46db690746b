"""A replica's disk in memory: what was written, what of it is durable, and what a crash leaves of the rest.

Writes are atomic and ordered, as LevelDB's are: a crash keeps the durable part and some prefix of the writes after it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque

from quorate.consensus.core import (
    Batch,
    BatchKind,
    Configuration,
    HardState,
    LogStart,
    Offset,
    Persist,
    Restored,
)
from quorate.consensus.core.types import Buffer


class Image:
    """What one disk holds: the log from its start on, the hard state, and the state machine's own state."""

    __slots__ = ("bases", "batches", "hard_state", "start", "state", "state_offset")

    # start.offset <= state_offset; batches follow start.offset without a gap; bases is parallel to batches.
    def __init__(self, restored: Restored) -> None:
        if restored.runs:
            raise ValueError("a disk begins empty, or from its own copy")
        self.hard_state: HardState = restored.hard_state
        self.start: LogStart = restored.start
        self.batches: list[Batch] = []
        self.bases: list[Offset] = []
        self.state_offset: Offset = restored.start.offset
        self.state: Buffer = b""

    @property
    def last(self) -> Offset:
        return self.batches[-1].last if self.batches else self.start.offset

    def apply(self, write: Persist) -> None:
        """Carry one write out, in the order that `Persist` states."""
        if write.snapshot is not None:
            self.start = write.snapshot.start
            self.state_offset, self.state = self.start.offset, write.snapshot.data
            self.batches, self.bases = [], []
        if write.truncate is not None:
            keep = bisect_left(self.bases, write.truncate + 1)
            del self.batches[keep:], self.bases[keep:]
        for batch in write.batches:
            if batch.base != self.last + 1:
                raise AssertionError(f"batch {batch.base} was written after {self.last}")
            self.batches.append(batch)
            self.bases.append(batch.base)
        if write.start is not None and write.start.offset > self.start.offset:
            self.start = write.start
            drop = bisect_right(self.bases, write.start.offset)
            del self.batches[:drop], self.bases[:drop]
        if write.hard_state is not None:
            self.hard_state = write.hard_state

    def find(self, offset: Offset) -> Batch | None:
        """The batch that covers `offset`, if it is here."""
        index = bisect_right(self.bases, offset) - 1
        if index < 0 or self.batches[index].last < offset:
            return None
        return self.batches[index]

    def read(self, first: Offset, last: Offset) -> list[Batch]:
        """The batches from the one with base `first` up to the one that ends at or before `last`."""
        begin = bisect_left(self.bases, first)
        return self.batches[begin : bisect_right(self.bases, last)]

    def copy(self) -> Image:
        """An independent image; batches are values and are shared."""
        other = Image(Restored(self.hard_state, self.start))
        other.batches, other.bases = list(self.batches), list(self.bases)
        other.state_offset, other.state = self.state_offset, self.state
        return other


class Disk:
    """One replica's disk. Invariant: `written` is `durable` with every pending write applied."""

    __slots__ = ("durable", "pending", "written")

    def __init__(self, restored: Restored) -> None:
        self.durable = Image(restored)
        self.written = Image(restored)
        self.pending: deque[Persist] = deque()

    def write(self, write: Persist) -> None:
        """Begin a write. It is durable once `sync` has come to it."""
        self.pending.append(write)
        self.written.apply(write)

    def sync(self) -> Persist:
        """The oldest pending write becomes durable."""
        write = self.pending.popleft()
        self.durable.apply(write)
        return write

    def save_state(self, offset: Offset, state: Buffer) -> None:
        """The state machine keeps its own state, durably, before the log behind it is let go."""
        for image in (self.durable, self.written):
            image.state_offset, image.state = offset, state

    def crash(self, keep: int = 0) -> None:
        """Lose every pending write but the first `keep`."""
        for _ in range(keep):
            self.sync()
        self.pending.clear()
        self.written = self.durable.copy()

    def restored(self) -> Restored:
        """What a replica that starts on this disk is told."""
        image = self.durable
        configurations = tuple(
            (batch.last, Configuration.decode(batch.data)) for batch in image.batches if batch.kind is BatchKind.CONFIG
        )
        runs = tuple((batch.base, batch.last, batch.term) for batch in image.batches)
        return Restored(image.hard_state, image.start, runs, configurations, image.state_offset)
