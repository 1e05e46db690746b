"""Opening a LevelDB log: read what it says of itself, and compare that with what it promised.

Either the view that comes out can be relied on, or Corrupt says what is wrong. The whole log is not read: batches in the
middle are checked when they are read.
"""

from __future__ import annotations

from quorate.consensus.batch.control import decode_batch
from quorate.consensus.core import Configuration, Offset, Restored, Term
from quorate.consensus.core.types import BatchKind
from quorate.consensus.storage import keys
from quorate.consensus.storage.api import NO_STAMP, Corrupt
from quorate.consensus.storage.database import Cursor, Database
from quorate.consensus.storage.keys import BadValue, Beginning, Mark
from quorate.consensus.storage.reading import batch_at, mark_at, missing, seek_covering
from quorate.consensus.storage.view import View


def first_view(fresh: Restored) -> View:
    """The view of a new log, before its first write."""
    if fresh.runs:
        raise ValueError("a log begins empty")
    start = fresh.start
    mark = Mark(0, fresh.hard_state, start.offset, start.term, 0, NO_STAMP)
    return View(Beginning(start, 0, NO_STAMP), mark, (Offset(start.offset + 1),), (start.term,), (), start.offset)


def load(database: Database) -> View | None:
    """The view that a database holds; None if nothing was ever written. Raises Corrupt."""
    try:
        return _load(database)
    except BadValue as error:
        raise Corrupt(str(database.path), str(error)) from error


def _load(database: Database) -> View | None:
    value = database.get(keys.START_KEY)
    if value is None:
        with database.cursor() as cursor:
            cursor.seek(b"")
            if cursor.valid():
                raise Corrupt(str(database.path), "the record of the log's start is gone")
        return None
    beginning = keys.decode_beginning(value)
    state = database.get(keys.STATE_KEY)
    applied = beginning.start.offset if state is None else keys.decode_state(state)[0]
    with database.cursor() as cursor:
        mark = _last_mark(cursor, beginning.start.offset)
        firsts, terms = _runs(database, beginning, mark)
        view = View(beginning, mark, firsts, terms, _configurations(database, beginning, mark), applied)
        _check(cursor, view)
    return view


def _last_mark(cursor: Cursor, start: Offset) -> Mark:
    cursor.seek(keys.LOG_END)  # the log's start is stored right there
    cursor.prev()
    place = keys.parse_log_key(cursor.key()) if cursor.valid() else None
    if place is None:
        raise missing(start, "the log has no end")
    if place[1]:
        raise missing(place[0], "the log's last write has no mark")
    mark = mark_at(cursor, Offset(place[0] - 1))
    if mark.last < start:
        raise missing(mark.last, f"the log ends before its start, {start}")
    if mark.hard_state.commit > mark.last:
        raise missing(mark.last, f"the log ends here, but {mark.hard_state.commit} was committed")
    return mark


def _runs(database: Database, beginning: Beginning, mark: Mark) -> tuple[tuple[Offset, ...], tuple[Term, ...]]:
    start = beginning.start
    firsts, terms = [Offset(start.offset + 1)], [start.term]
    for key, value in database.scan(*keys.TERMS):
        first, term = keys.parse_offset(key), keys.decode_term(value)
        if first <= start.offset or first > mark.last or first < firsts[-1] or term <= terms[-1]:
            raise missing(first, f"a run of term {term} cannot begin here, after one of {terms[-1]}")
        firsts.append(first)
        terms.append(term)
    if terms[-1] != mark.last_term:
        raise missing(mark.last, f"the last write was of term {mark.last_term}, the last known run is of {terms[-1]}")
    return tuple(firsts), tuple(terms)


def _configurations(database: Database, beginning: Beginning, mark: Mark) -> tuple[tuple[Offset, Configuration], ...]:
    found = []
    for key, value in database.scan(*keys.CONFIGURATIONS):
        offset = keys.parse_offset(key)
        if not beginning.start.offset < offset <= mark.last:
            raise missing(offset, "a configuration is stored for an offset outside of the log")
        found.append((offset, keys.decode_configuration(value)))
    return tuple(found)


def _check(cursor: Cursor, view: View) -> None:
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
        if offset in configurations:
            batch = decode_batch(value)
            if batch.kind is not BatchKind.CONFIG or Configuration.decode(batch.data) != configurations[offset]:
                raise missing(offset, "the configuration in the log is not the one that is stored beside it")
