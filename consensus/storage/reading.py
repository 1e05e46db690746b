"""Reading a log from LevelDB: by offset, by time, by size. Every batch is checked before it is handed out.

The functions take a cursor and the view that it should fit; what does not fit is Corrupt. Nothing here writes.
"""

from __future__ import annotations

from typing import NamedTuple

from quorate.consensus.core import Millis, Offset
from quorate.consensus.storage import stored
from quorate.consensus.storage.api import NO_STAMP, Corrupt
from quorate.consensus.storage.database import Cursor
from quorate.consensus.storage.keys import BATCH, MARK, BadValue, Mark, batch_key, decode_mark, mark_key, parse_key
from quorate.consensus.storage.view import View

_WHERE = "the log"


class Total(NamedTuple):
    """Bytes and time of everything up to a batch's end."""

    size: int
    stamp: Millis


def missing(offset: Offset, what: str) -> Corrupt:
    """Something about the batch at `offset` cannot be trusted."""
    return Corrupt(f"{_WHERE} at offset {offset}", what, offset)


def _placed(error: Corrupt, offset: Offset) -> Corrupt:
    """LevelDB does not know which offset it could not read; we do."""
    return error if error.offset is not None else missing(offset, error.what)


def batch_at(cursor: Cursor, view: View, expected: Offset) -> tuple[stored.Entry, bytes]:
    """The batch under the cursor, which must be the one that begins at `expected` or, if need be, covers it."""
    key = parse_key(cursor.key())
    if key is None or key[1] != BATCH:
        raise missing(expected, "there is no batch, and there was one")
    value = cursor.value()
    try:
        entry = stored.check(value)
    except stored.BadBatch as error:
        raise missing(expected, f"the batch is damaged: {error}") from error
    if entry.base != key[0] or not entry.base <= expected <= entry.last:
        raise missing(expected, f"there is a batch {entry.base}-{entry.last}, stored as {key[0]}")
    if entry.base <= view.start or entry.last > view.last:
        raise missing(expected, f"batch {entry.base}-{entry.last} reaches over the log, {view.start + 1}-{view.last}")
    if entry.term != view.term_at(entry.base):
        raise missing(expected, f"the batch is of term {entry.term}, and should be of {view.term_at(entry.base)}")
    return entry, value


def seek_covering(cursor: Cursor, offset: Offset) -> None:
    """Go to the batch that covers `offset`, or to what is in its place."""
    key = batch_key(offset)
    cursor.seek(key)
    if cursor.valid() and cursor.key() == key:
        return
    if not cursor.valid():
        raise missing(offset, "there is nothing from here on")
    cursor.prev()
    _go_to_batch(cursor, offset, forward=False)


def _go_to_batch(cursor: Cursor, offset: Offset, *, forward: bool) -> None:
    while True:
        key = parse_key(cursor.key()) if cursor.valid() else None
        if key is None:
            raise missing(offset, "there is no batch, and there was one")
        if key[1] == BATCH:
            return
        if forward:
            cursor.next()
        else:
            cursor.prev()


def read_range(cursor: Cursor, view: View, first: Offset, max_bytes: int, last: Offset | None) -> list[bytes]:
    """The stored batches from the one that covers `first` on, at least one if there is one.

    Damage behind the first of them ends the reading; whoever goes on from there meets it.
    """
    end = view.last if last is None else min(last, view.last)
    if first <= view.start or first > view.last:
        return []
    values: list[bytes] = []
    size, at = 0, first
    try:
        seek_covering(cursor, first)
        while True:
            entry, value = batch_at(cursor, view, at)
            size += len(value)
            if entry.base > end or (values and size > max_bytes):
                return values
            values.append(value)
            at = Offset(entry.last + 1)
            if at > end or size >= max_bytes:
                return values
            cursor.next()
            _go_to_batch(cursor, at, forward=True)
    except Corrupt as error:
        if values:
            return values
        raise _placed(error, at) from error


def _next_stamped(cursor: Cursor, view: View, offset: Offset) -> tuple[stored.Entry, stored.Entry | None]:
    """The batch that covers `offset`, and the first one from there on that has a time."""
    seek_covering(cursor, offset)
    covering, _ = batch_at(cursor, view, offset)
    entry = covering
    while entry.stamp == NO_STAMP:
        if entry.last >= view.last:
            return covering, None
        following = Offset(entry.last + 1)
        cursor.next()
        _go_to_batch(cursor, following, forward=True)
        entry, _ = batch_at(cursor, view, following)
    return covering, entry


def find_time(cursor: Cursor, view: View, stamp: Millis) -> tuple[Offset, Millis] | None:
    """The first batch at or after a time. Times never fall along the log, so a search by halves finds it in a few seeks."""
    low, high = Offset(view.start + 1), view.last
    found: tuple[Offset, Millis] | None = None
    while low <= high:
        covering, entry = _next_stamped(cursor, view, Offset((low + high) // 2))
        if entry is None:
            high = Offset(covering.base - 1)
        elif entry.stamp >= stamp:
            found = entry.base, entry.stamp
            high = Offset(covering.base - 1)
        else:
            low = Offset(entry.last + 1)
    return found


def total_at(cursor: Cursor, view: View, offset: Offset) -> Total:
    """Bytes and time up to `offset`. Raises ValueError if no batch ends there (and it is not the start)."""
    if offset == view.last:
        return Total(view.mark.size, view.mark.stamp)
    at, total = _mark_before(cursor, view, offset)
    while at < offset:
        following = Offset(at + 1)
        _go_to_batch(cursor, following, forward=True)
        entry, value = batch_at(cursor, view, following)
        total = Total(total.size + len(value), total.stamp if entry.stamp == NO_STAMP else entry.stamp)
        at = entry.last
        cursor.next()
    if at != offset:
        raise ValueError(f"{offset} is inside of a batch that ends at {at}")
    return total


def _mark_before(cursor: Cursor, view: View, offset: Offset) -> tuple[Offset, Total]:
    """The last mark at or before `offset`, or the log's start; the cursor is there, or right after it."""
    key = mark_key(offset)
    cursor.seek(key)
    while cursor.valid():
        place = parse_key(cursor.key())
        if place is not None and place[0] <= view.start:
            break
        if place is not None and place[1] == MARK and place[0] <= offset + 1:
            mark = mark_at(cursor, Offset(place[0] - 1))
            return mark.last, Total(mark.size, mark.stamp)
        cursor.prev()
    cursor.seek(batch_key(view.start + 1))
    return view.start, Total(view.beginning.size, view.beginning.stamp)


def mark_at(cursor: Cursor, last: Offset) -> Mark:
    """The mark under the cursor, which says that a write ended at `last`."""
    try:
        mark = decode_mark(cursor.value())
    except BadValue as error:
        raise missing(last, str(error)) from error
    if mark.last != last:
        raise missing(last, f"a mark speaks of {mark.last}")
    return mark


def find_size(cursor: Cursor, view: View, keep_bytes: int) -> Offset:
    """The highest batch's end after which at least `keep_bytes` follow; the start if there is none."""
    limit = view.mark.size - keep_bytes
    if limit < view.beginning.size:
        return view.start
    if keep_bytes <= 0:
        return view.last
    low, high = view.start, view.last  # low: its total is at or below the limit
    best = low
    while low < high:
        middle = Offset((low + high + 1) // 2)
        at, total = _mark_before(cursor, view, middle)
        if total.size > limit:
            high = Offset(at - 1)
        else:
            best, low = max(best, at), middle
    return _walk_to(cursor, view, best, limit)


def _walk_to(cursor: Cursor, view: View, offset: Offset, limit: int) -> Offset:
    """From a mark on, batch by batch, as long as the total stays within the limit."""
    _, total = _mark_before(cursor, view, offset)
    size = total.size
    while offset < view.last:
        following = Offset(offset + 1)
        _go_to_batch(cursor, following, forward=True)
        entry, value = batch_at(cursor, view, following)
        size += len(value)
        if size > limit:
            break
        offset = entry.last
        cursor.next()
    return offset
