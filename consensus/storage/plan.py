"""Turns writes of the core into one set of changes for LevelDB, and the view that follows from them.

Pure but for look-ups in the log that is there. Raises ValueError for a write that does not fit; then nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from quorate.consensus.core import Batch, BatchKind, Configuration, LogStart, Millis, Offset, Persist, Snapshot, Term
from quorate.consensus.core.types import Buffer
from quorate.consensus.storage import keys, stored
from quorate.consensus.storage.api import NO_STAMP
from quorate.consensus.storage.keys import Beginning, Mark
from quorate.consensus.storage.reading import Total
from quorate.consensus.storage.view import View


class Lookup(NamedTuple):
    """What a plan has to ask of the log that is on the disk."""

    total_at: Callable[[View, Offset], Total]
    """Bytes and time up to a batch's end; ValueError if no batch ends there."""
    keys_from: Callable[[bytes], list[bytes]]
    """The log's keys from one on."""


class Plan:
    """Changes in the making. `view` is what they lead to; until `finish`, its mark lacks the new count and hard state."""

    def __init__(self, view: View, lookup: Lookup) -> None:
        self.view = view
        self.changes: dict[bytes, Buffer | None] = {}
        self.sync = False
        self.added_bytes = 0
        """What grows: batches and snapshots. A write without any may use the room that is kept in reserve."""
        self._lookup = lookup
        # The part of the disk's log that is still wanted ends here; what was added after it is in _added.
        self._old = view
        self._old_last = view.last
        self._reindex = False
        self._hard_state = view.mark.hard_state
        self._added: list[tuple[Offset, int, Millis]] = []

    def add(self, write: Persist) -> None:
        """One write, in the order that `Persist` states.

        A moved start is synced though nobody waits for it: trimming relies on it, and LevelDB may lose an unsynced write
        and keep a later one, when they lie in two journals.
        """
        self.sync = self.sync or write.sync or write.start is not None
        if write.snapshot is not None:
            self._install(write.snapshot)
        if write.truncate is not None:
            self._truncate(write.truncate)
        if write.batches:
            self._append(write.batches)
        if write.start is not None and write.start.offset > self.view.start:
            self._move_start(write.start)
        if write.hard_state is not None:
            self._hard_state = write.hard_state

    def save_state(self, offset: Offset, state: Buffer) -> None:
        """Keep the state machine's own state. Raises ValueError if it reaches beyond the log."""
        view = self.view
        if not view.start <= offset <= view.last:
            raise ValueError(f"a state up to {offset} does not fit the log, which reaches from {view.start} to {view.last}")
        if view.has_state:
            self.changes[keys.state_key(view.applied)] = None
        self.changes[keys.state_key(offset)] = keys.encode_state(offset, state)
        self.added_bytes += len(state)
        self.view = view._replace(applied=offset, has_state=True)
        self._reindex = True

    def begin(self) -> None:
        """The first write of a new log."""
        self._reindex = self.sync = True

    def finish(self) -> None:
        """Every write leaves its mark at the log's end. An older index is dead, and goes when the start passes it."""
        counter, _, last, last_term, size, stamp, index_at = self.view.mark
        if self._reindex:
            index_at = last + 1
        mark = Mark(counter + 1, self._hard_state, last, last_term, size, stamp, index_at)
        self.view = self.view.with_mark(mark)
        if self._reindex:
            self.changes[keys.index_key(mark.index_at)] = keys.encode_index(self.view.to_index())
        self.changes[keys.mark_key(mark.last)] = keys.encode_mark(mark)

    def _append(self, batches: Sequence[Batch]) -> None:
        # The hot path: locals, and one new view at the end.
        view, changes, added = self.view, self.changes, self._added
        mark = view.mark
        last, term, size, stamp = mark.last, mark.last_term, mark.size, mark.stamp
        for batch in batches:
            base, batch_last, batch_term, kind, _ = batch
            if base != last + 1 or batch_last < base or batch_term < term:
                raise ValueError(f"batch {base}-{batch_last}@{batch_term} does not follow {last}@{term}")
            value, time = stored.encode(batch)
            changes[keys.batch_key(base)] = value
            if batch_term != view.terms[-1]:
                view = self._begin_run(view, base, batch_term)
            if kind is BatchKind.CONFIG:
                view = self._configure(view, batch)
            last, term, size = batch_last, batch_term, size + len(value)
            if time != NO_STAMP:
                stamp = time
            added.append((last, size, stamp))
        self.added_bytes += size - mark.size
        self.view = view.with_mark(Mark(mark.counter, mark.hard_state, last, term, size, stamp, mark.index_at))

    def _begin_run(self, view: View, first: Offset, term: Term) -> View:
        self._reindex = True
        return view._replace(firsts=(*view.firsts, first), terms=(*view.terms, term))

    def _configure(self, view: View, batch: Batch) -> View:
        configuration = Configuration.decode(batch.data)
        self._reindex = True
        return view._replace(configurations=(*view.configurations, (batch.base, configuration)))

    def _truncate(self, last: Offset) -> None:
        view = self.view
        if last < view.start:
            raise ValueError(f"cannot truncate to {last}: the log starts after {view.start}")
        if last < view.applied:
            raise ValueError(f"cannot truncate to {last}: the state machine has applied {view.applied}")
        if last >= view.last:
            return
        total = self._total_at(last)
        self._drop_above(last)
        keep = sum(first <= last for first in view.firsts[1:]) + 1
        # What the index says of the tail is no longer so, or the index itself was in the tail.
        self._reindex = True
        term = view.beginning.start.term if last == view.start else view.term_at(last)
        self.view = view._replace(
            mark=view.mark._replace(last=last, last_term=term, **total._asdict()),
            firsts=view.firsts[:keep],
            terms=view.terms[:keep],
            configurations=tuple(pair for pair in view.configurations if pair[0] <= last),
        )

    def _drop_above(self, last: Offset) -> None:
        """Take every batch above `last`, and every mark of a longer log, out of the changes and off the disk."""
        floor = keys.batch_key(last + 1)
        for key in [key for key in self.changes if floor <= key < keys.LOG_END]:
            del self.changes[key]
        for key in self._lookup.keys_from(floor):
            self.changes[key] = None
        while self._added and self._added[-1][0] > last:
            self._added.pop()
        self._old_last = min(self._old_last, last)

    def _total_at(self, offset: Offset) -> Total:
        view = self.view
        if offset == view.start:
            return Total(view.beginning.size, view.beginning.stamp)
        if offset <= self._old_last:
            return self._lookup.total_at(self._old, offset)
        for last, size, stamp in self._added:
            if last == offset:
                return Total(size, stamp)
        raise ValueError(f"no batch ends at {offset}")

    def _move_start(self, start: LogStart) -> None:
        view = self.view
        if start.offset > view.last:
            raise ValueError(f"cannot start after {start.offset}: the log ends at {view.last}")
        beginning = Beginning(start, *self._total_at(start.offset))
        # The run that the start lies in stays, however little of it: its term is the start's.
        drop = max(0, sum(first <= start.offset for first in view.firsts) - 1)
        self._reindex = True
        self.view = view._replace(
            beginning=beginning,
            firsts=view.firsts[drop:],
            terms=view.terms[drop:],
            configurations=tuple(pair for pair in view.configurations if pair[0] > start.offset),
        )

    def _install(self, snapshot: Snapshot) -> None:
        view, start = self.view, snapshot.start
        # What lies below the new start is dead, and trimmed in time. A mark just there would count in the old log's bytes.
        self.changes.clear()
        if view.has_state:
            self.changes[keys.state_key(self._old.applied)] = None
        self._drop_above(start.offset)
        self.changes[keys.mark_key(start.offset)] = None
        self._added.clear()
        self._old_last = start.offset
        beginning = Beginning(start, 0, view.mark.stamp)
        self._reindex = True
        self.view = view._replace(
            beginning=beginning,
            mark=view.mark._replace(last=start.offset, last_term=start.term, size=0),
            has_state=False,
            firsts=(Offset(start.offset + 1),),
            terms=(start.term,),
            configurations=(),
        )
        self.save_state(start.offset, snapshot.data)


def make_plan(view: View, lookup: Lookup, writes: Sequence[Persist]) -> Plan:
    """The plan of one atomic write."""
    plan = Plan(view, lookup)
    for write in writes:
        plan.add(write)
    plan.finish()
    return plan
