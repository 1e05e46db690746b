"""What every log store promises, and the errors it may raise. The stores themselves are in `level` and `memory`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from quorate.consensus.core import Batch, Millis, Offset, Persist, Restored

NO_STAMP = Millis(-1)
"""The time of a batch that has none: control batches, and the end of an empty log."""


class StorageError(Exception):
    """Something went wrong with a replica's disk. Every store raises this and nothing else, whatever lies below."""

    definite = True
    """Whether a write that raised this has certainly not happened."""
    retriable = False
    """Whether the same call may succeed later."""


class StorageFull(StorageError):
    """There is no room. Nothing was written; the same write can be tried again when there is. Reads go on."""

    retriable = True


class StorageFailed(StorageError):
    """A write or a sync failed. What it meant to write may be there after a restart or not: the replica must stop."""

    definite = False


class Corrupt(StorageError):
    """A stored thing cannot be trusted, and is not served. The text says which, and where."""

    def __init__(self, where: str, what: str, offset: Offset | None = None) -> None:
        super().__init__(f"{where}: {what}")
        self.where = where
        self.what = what
        self.offset = offset
        """The first offset that is lost, where that is known. Everything below it can still be read."""


class LogStore(Protocol):
    """One replica's log, hard state and state-machine state on one disk.

    `write` and `save_state` block; at most one of them runs at a time (the writer pool sees to it). Reads may come from
    any thread at any time. `trim` may run beside everything else, one at a time.
    """

    def restore(self) -> Restored:
        """What a replica that starts on this store is told."""

    def write(self, writes: Sequence[Persist]) -> None:
        """Carry these writes out, in order, as one atomic write, synced if any of them asks for it.

        Raises StorageFull (nothing was written), StorageFailed, or ValueError for a write that does not fit the log.
        """

    def read(self, first: Offset, max_bytes: int, last: Offset | None = None) -> tuple[Batch, ...]:
        """Batches from the one that covers `first` on (at least one if there is one, else ()), none that begins after
        `last`. Raises Corrupt rather than to return a batch that is not what was written."""

    def fetch(self, first: Offset, max_bytes: int, last: Offset) -> list[bytes]:
        """The same, as stored: whole RecordBatches, for consumers. No decoding."""

    def find_time(self, stamp: Millis) -> tuple[Offset, Millis] | None:
        """The first data batch whose maxTimestamp is at or above `stamp`: its base and that time."""

    def find_size(self, keep_bytes: int) -> Offset:
        """The highest batch's end after which at least `keep_bytes` of the log follow; the start if there is none."""

    def last_stamp(self) -> Millis:
        """The maxTimestamp of the last batch that has one, even if it was compacted since; or -1."""

    def save_state(self, offset: Offset, state: bytes) -> None:
        """Keep the state machine's own state, which reaches up to `offset`, synced."""

    def load_state(self) -> tuple[Offset, bytes]:
        """What `save_state` or an installed snapshot left; the log's first start and b"" if there was none."""

    @property
    def start(self) -> Offset:
        """The last compacted offset: the first batch begins right after it."""

    @property
    def last(self) -> Offset:
        """The last offset of the last batch, or `start` if there is none."""

    @property
    def size_bytes(self) -> int:
        """How many bytes of batches the log holds."""

    def trim(self) -> bool:
        """Remove a bounded piece of what no longer belongs to the log from the disk; whether there is more to remove."""

    def close(self) -> None:
        """Let go of the disk. Closing twice is fine; any other call afterwards raises StorageFailed."""
