"""Opening a LevelDB log: read what it says of itself, and compare that with what it promised.

Either the view that comes out can be relied on, or Corrupt says what is wrong. The whole log is not read: batches in the
middle are checked when they are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from quorate.consensus.batch.control import decode_batch
from quorate.consensus.core import Configuration, Offset, Restored
from quorate.consensus.core.types import BatchKind
from quorate.consensus.storage import keys
from quorate.consensus.storage.api import NO_STAMP, Corrupt
from quorate.consensus.storage.database import Cursor, Database
from quorate.consensus.storage.keys import Beginning, Index, Mark
from quorate.consensus.storage.reading import batch_at, mark_at, missing, seek_covering
from quorate.consensus.storage.view import View


def first_view(fresh: Restored) -> View:
    """The view of a new log, before its first write."""
    if fresh.runs:
        raise ValueError("a log begins empty")
    start = fresh.start
    mark = Mark(0, fresh.hard_state, start.offset, start.term, 0, NO_STAMP, 0)
    beginning = Beginning(start, 0, NO_STAMP)
    return View(mark, beginning, start.offset, False, (Offset(start.offset + 1),), (start.term,), ())


def load(database: Database) -> View | None:
    """The view that a database holds; None if nothing was ever written. Raises Corrupt."""
    try:
        with database.cursor() as cursor:
            cursor.last()
            if not cursor.valid():
                return None
            mark = _last_mark(cursor)
            view = View(mark, *_index(database, mark))
            _check_bounds(view)
            _check_batches(cursor, view)
            return view
    except keys.BadValue as error:
        raise Corrupt(str(database.path), str(error)) from error


def _last_mark(cursor: Cursor) -> Mark:
    place = keys.parse_key(cursor.key())
    if place is None or place[1] != keys.MARK:
        raise missing(place[0] if place is not None else Offset(0), "the log's last write has no mark")
    return mark_at(cursor, Offset(place[0] - 1))


def _index(database: Database, mark: Mark) -> Index:
    value = database.get(keys.index_key(mark.index_at))
    if value is None:
        raise missing(mark.last, f"the index at position {mark.index_at} is gone")
    index = keys.decode_index(value)
    if index.has_state and database.get(keys.state_key(index.applied)) is None:
        raise missing(mark.last, f"the state machine's state up to {index.applied} is gone")
    return index


def _check_bounds(view: View) -> None:
    """Whether what was stored at different times fits together."""
    start, last = view.beginning.start, view.last
    if last < start.offset:
        raise missing(last, f"the log ends before its start, {start.offset}")
    if view.hard_state.commit > last:
        raise missing(last, f"the log ends here, but {view.hard_state.commit} was committed")
    if len(view.firsts) != len(view.terms) or not view.terms or view.terms[0] != start.term:
        raise missing(start.offset, "the terms in the index do not begin with the start's")
    if view.terms[-1] != view.last_term or view.firsts[-1] > last + 1:
        raise missing(last, f"the last write was of term {view.last_term}, the last known run is of {view.terms[-1]}")
    # The start's own run may be empty; no other.
    first, *others = view.firsts
    if first > min([start.offset + 1, *others]) or not _rise(others) or not _rise(view.terms):
        raise missing(start.offset, "the runs of terms in the index do not follow each other")
    configured = [offset for offset, _ in view.configurations]
    if any(not start.offset < offset <= last for offset in configured) or not _rise(configured):
        raise missing(last, "the index has a configuration for an offset outside of the log")
    if view.applied > last or view.size < 0:
        raise missing(last, f"the state machine's state reaches up to {view.applied}, the log holds {view.size} bytes")


def _rise(numbers: Sequence[int]) -> bool:
    return all(one < other for one, other in pairwise(numbers))


def _check_batches(cursor: Cursor, view: View) -> None:
    """Look at the batches that the small records speak of: the first, the last, where terms change, configurations."""
    if view.last == view.start:
        return
    places = {Offset(view.start + 1), view.last}
    for first, last, _ in view.runs():
        places |= {first, last}
    configurations = dict(view.configurations)
    firsts = {first for first, _, _ in view.runs()}
    for offset in sorted(places | configurations.keys()):
        seek_covering(cursor, offset)
        entry, value = batch_at(cursor, view, offset)
        if offset in firsts and entry.base != offset:
            raise missing(offset, f"a run of one term begins inside of batch {entry.base}-{entry.last}")
        if offset == view.last and entry.last != offset:
            raise missing(offset, f"the log ends inside of batch {entry.base}-{entry.last}")
        if offset in configurations and _configuration(value) != configurations[offset]:
            raise missing(offset, "the configuration in the log is not the one that is stored beside it")


def _configuration(value: bytes) -> Configuration | None:
    """What a stored batch says about members, if it is one that does."""
    try:
        batch = decode_batch(value)
        return Configuration.decode(batch.data) if batch.kind is BatchKind.CONFIG else None
    except ValueError:
        return None
