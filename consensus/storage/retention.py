"""Where a log should begin, by age and by size. It only reads; the core's `compact` moves the start, the store trims."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.consensus.core import Millis, Offset
from quorate.consensus.storage.api import LogStore


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How much of a log is kept. None means no limit of that kind."""

    max_age_ms: int | None = None
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("max_age_ms", self.max_age_ms), ("max_bytes", self.max_bytes)):
            if value is not None and value < 0:
                raise ValueError(f"{name} must not be negative, not {value}")


def new_start(store: LogStore, retention: Retention, now: Millis, applied: Offset) -> Offset:
    """The offset up to which the log may be forgotten: a batch's end, never above `applied`; the start to leave it.

    A batch is kept while any record of it is young enough, and while fewer than `max_bytes` follow with it.
    """
    start = store.start
    if retention.max_age_ms is not None:
        start = max(start, _older_than(store, Millis(now - retention.max_age_ms)))
    if retention.max_bytes is not None and store.size_bytes > retention.max_bytes:
        start = max(start, _beyond(store, retention.max_bytes))
    if start <= applied:
        return start
    # `applied` is a batch's end: it was applied whole.
    return max(store.start, min(start, applied))


def _older_than(store: LogStore, stamp: Millis) -> Offset:
    found = store.find_time(stamp)
    if found is not None:
        return Offset(found[0] - 1)
    # Nothing is young enough. Without any time in the log there is nothing to judge by.
    return store.last if 0 <= store.last_stamp() < stamp else store.start


def _beyond(store: LogStore, max_bytes: int) -> Offset:
    """The lowest batch's end after which no more than `max_bytes` follow."""
    keep = store.find_size(max_bytes)
    following = store.read(Offset(keep + 1), 0)
    exact = store.find_size(max_bytes + 1) != keep
    return keep if exact or not following else following[0].last
