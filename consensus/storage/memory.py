"""The log store without a disk, for tests and for trying things out. It honours the same contract as `LevelLog`."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Sequence

from quorate.consensus.batch.header import max_timestamp
from quorate.consensus.core import Batch, BatchKind, Configuration, LogStart, Millis, Offset, Persist, Restored
from quorate.consensus.storage import stored
from quorate.consensus.storage.api import NO_STAMP, StorageFailed


class MemoryLog:
    """A replica's log, hard state and state, in lists."""

    # bases and values are parallel to batches, which follow start.offset without a gap.
    def __init__(self, fresh: Restored) -> None:
        if fresh.runs:
            raise ValueError("a log begins empty")
        self._lock = threading.Lock()
        self._hard_state = fresh.hard_state
        self._start = fresh.start
        self._batches: list[Batch] = []
        self._bases: list[Offset] = []
        self._values: list[bytes] = []
        self._start_stamp = NO_STAMP  # the last time at or below the start
        self._state: tuple[Offset, bytes] = (fresh.start.offset, b"")
        self._closed = False

    def restore(self) -> Restored:
        with self._lock:
            self._check_open()
            batches = self._batches
            configurations = tuple((b.last, Configuration.decode(b.data)) for b in batches if b.kind is BatchKind.CONFIG)
            runs = tuple((b.base, b.last, b.term) for b in batches)
            applied = Offset(max(self._state[0], self._start.offset))
            return Restored(self._hard_state, self._start, runs, configurations, applied)

    def write(self, writes: Sequence[Persist]) -> None:
        with self._lock:
            self._check_open()
            before = self._hard_state, self._start, self._start_stamp, self._state
            lists = list(self._batches), list(self._bases), list(self._values)
            try:
                for write in writes:
                    self._apply(write)
            except ValueError:
                self._hard_state, self._start, self._start_stamp, self._state = before
                self._batches, self._bases, self._values = lists
                raise

    def _apply(self, write: Persist) -> None:
        if write.snapshot is not None:
            self._start_stamp = _last_stamp(self._values, self._start_stamp)
            self._start = write.snapshot.start
            self._state = (self._start.offset, bytes(write.snapshot.data))
            self._batches, self._bases, self._values = [], [], []
        if write.truncate is not None:
            if write.truncate < self._start.offset:
                raise ValueError(f"cannot truncate to {write.truncate}: the log starts after {self._start.offset}")
            if write.truncate < min(self._state[0], self.last):
                raise ValueError(f"cannot truncate to {write.truncate}: the state machine has applied {self._state[0]}")
            keep = bisect_right(self._bases, write.truncate)
            if keep and self._batches[keep - 1].last > write.truncate:
                raise ValueError(f"cannot truncate to {write.truncate}: it is inside a batch")
            del self._batches[keep:], self._bases[keep:], self._values[keep:]
        for batch in write.batches:
            self._append(batch)
        if write.start is not None and write.start.offset > self._start.offset:
            self._move_start(write.start)
        if write.hard_state is not None:
            self._hard_state = write.hard_state

    def _append(self, batch: Batch) -> None:
        last, term = (self._batches[-1].last, self._batches[-1].term) if self._batches else self._start[:2]
        if batch.base != last + 1 or batch.last < batch.base or batch.term < term:
            raise ValueError(f"batch {batch.base}-{batch.last}@{batch.term} does not follow {last}@{term}")
        # Copies: the proposer may use its buffer again.
        value = bytes(stored.encode(batch)[0])
        self._batches.append(batch._replace(data=value if batch.kind is BatchKind.DATA else bytes(batch.data)))
        self._bases.append(batch.base)
        self._values.append(value)

    def _move_start(self, start: LogStart) -> None:
        drop = bisect_right(self._bases, start.offset)
        if drop == 0 or self._batches[drop - 1].last != start.offset:
            raise ValueError(f"cannot start after {start.offset}: no batch ends there")
        self._start = start
        self._start_stamp = _last_stamp(self._values[:drop], self._start_stamp)
        del self._batches[:drop], self._bases[:drop], self._values[:drop]

    def read(self, first: Offset, max_bytes: int, last: Offset | None = None) -> tuple[Batch, ...]:
        with self._lock:
            begin, end = self._range(first, max_bytes, last)
            return tuple(self._batches[begin:end])

    def fetch(self, first: Offset, max_bytes: int, last: Offset) -> list[bytes]:
        with self._lock:
            begin, end = self._range(first, max_bytes, last)
            return self._values[begin:end]

    def _range(self, first: Offset, max_bytes: int, last: Offset | None) -> tuple[int, int]:
        """Which batches to hand out: from the one that covers `first`, at least one, and then as many as fit."""
        self._check_open()
        begin = bisect_right(self._bases, first) - 1
        if begin < 0 or self._batches[begin].last < first or (last is not None and self._bases[begin] > last):
            return 0, 0
        end, size = begin + 1, len(self._values[begin])
        while end < len(self._values) and (last is None or self._bases[end] <= last):
            size += len(self._values[end])
            if size > max_bytes:
                break
            end += 1
        return begin, end

    def find_time(self, stamp: Millis) -> tuple[Offset, Millis] | None:
        with self._lock:
            self._check_open()
            for base, value in zip(self._bases, self._values, strict=True):
                time = Millis(max_timestamp(value))
                if time != NO_STAMP and time >= stamp:
                    return base, time
            return None

    def find_size(self, keep_bytes: int) -> Offset:
        with self._lock:
            self._check_open()
            size = 0
            for batch, value in zip(reversed(self._batches), reversed(self._values), strict=True):
                if size >= keep_bytes:
                    return batch.last
                size += len(value)
            return self._start.offset

    def last_stamp(self) -> Millis:
        with self._lock:
            self._check_open()
            return _last_stamp(self._values, self._start_stamp)

    def save_state(self, offset: Offset, state: bytes) -> None:
        with self._lock:
            self._check_open()
            if not self._start.offset <= offset <= self.last:
                raise ValueError(f"a state up to {offset} does not fit the log")
            self._state = (offset, bytes(state))

    def load_state(self) -> tuple[Offset, bytes]:
        with self._lock:
            self._check_open()
            return self._state

    @property
    def start(self) -> Offset:
        return self._start.offset

    @property
    def last(self) -> Offset:
        return self._batches[-1].last if self._batches else self._start.offset

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self._values))

    def trim(self) -> bool:
        return False

    def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StorageFailed("the log is closed")


def _last_stamp(values: list[bytes], otherwise: Millis) -> Millis:
    stamps = (Millis(max_timestamp(value)) for value in reversed(values))
    return next((time for time in stamps if time != NO_STAMP), otherwise)
