"""`LevelLog`: one replica's log in one LevelDB. What is stored how is in `keys`, what a write changes in `plan`.

A write is one LevelDB write. What was acknowledged is found again, or its absence is noticed (`opening`, `promise`).
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from quorate.consensus.batch.control import decode_batch
from quorate.consensus.batch.errors import BadBatch
from quorate.consensus.core import Batch, Millis, Offset, Persist, Restored
from quorate.consensus.storage import folder, keys, opening, reading
from quorate.consensus.storage.api import Corrupt, StorageError, StorageFailed, StorageFull
from quorate.consensus.storage.database import Cursor, Database
from quorate.consensus.storage.plan import Lookup, Plan, make_plan
from quorate.consensus.storage.promise import Promise
from quorate.consensus.storage.reading import Total
from quorate.consensus.storage.settings import StorageSettings
from quorate.consensus.storage.trimming import Trimmer
from quorate.consensus.storage.view import View

_log = logging.getLogger(__name__)
T = TypeVar("T")

_ROOM_CHECKS = 16
"""The free room is looked up again after a share of the reserve has been written."""


class LevelLog:
    """A `LogStore` on LevelDB. Make one with `open`."""

    def __init__(self, path: Path, settings: StorageSettings, database: Database, promise: Promise, view: View) -> None:
        self.path = path
        self.notes: tuple[str, ...] = ()
        """What was found on opening that is worth saying, and cost nothing that was acknowledged."""
        self.damage: Corrupt | None = None
        """The lowest damage that a read has met. Nothing from there on is served any more."""
        self._settings = settings
        self._database = database
        self._promise = promise
        self._view = view
        self._lookup = Lookup(self._total_at, self._keys_from)
        self._trimmer = Trimmer(database, settings)
        self._failed: StorageError | None = None
        self._suspect = False  # a write failed for lack of room: the journal may end in half a record
        self._unchecked = settings.reserve_bytes  # bytes written since the free room was looked up
        # Held by whoever changes the database. A reader that doubts takes it too, so that nothing moves under it.
        self._writing = threading.Lock()
        self._lock = -1
        self._closed = False

    @classmethod
    def open(cls, path: Path, fresh: Restored, settings: StorageSettings | None = None) -> LevelLog:
        """Open the log in this folder, or begin one there with `fresh`.

        Raises Corrupt if something that was acknowledged is not there, or cannot be read; nothing is deleted then.
        """
        settings = settings if settings is not None else StorageSettings()
        try:
            return cls._open(path, fresh, settings)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise StorageFull(f"{path}: no room to open the log: {error}") from error
            raise StorageFailed(f"{path}: {error}") from error

    @classmethod
    def _open(cls, path: Path, fresh: Restored, settings: StorageSettings) -> LevelLog:
        folder.make(path)
        with ExitStack() as undo:
            lock = folder.lock(path)
            undo.callback(os.close, lock)
            log = cls._open_locked(path, fresh, settings, undo)
            log._lock = lock
            undo.pop_all()
        return log

    @classmethod
    def _open_locked(cls, path: Path, fresh: Restored, settings: StorageSettings, undo: ExitStack) -> LevelLog:
        there = folder.holds_data(path)
        promise = Promise(path / folder.PROMISE)
        undo.callback(promise.close)
        database = Database(path / folder.DATABASE, settings)
        undo.callback(database.close)
        if promise.counter != 0 and not there:
            raise Corrupt(str(path), f"{promise.counter or 'some'} writes were acknowledged, and there is no database")
        notes = []
        if there:
            folder.keep_aside(path)
            notes = folder.check_journals(path)
            folder.move_strangers(path)
        database.open(create=not there)
        view = opening.load(database)
        notes += _compare(path, promise, view)
        log = cls(path, settings, database, promise, view or opening.first_view(fresh))
        log.notes = tuple(notes)
        if view is None:
            log._begin()
        promise.raise_to(log._view.mark.counter)
        promise.sync()
        if there:
            folder.let_go(path)
        for note in notes:
            _log.warning("%s: %s", path, note)
        return log

    def _begin(self) -> None:
        plan = Plan(self._view, self._lookup)
        plan.begin()
        plan.finish()
        self._carry_out(plan)

    # Writing.

    def write(self, writes: Sequence[Persist]) -> None:
        if writes:
            with self._writing:
                self._prepare()
                self._carry_out(make_plan(self._view, self._lookup, writes))

    def save_state(self, offset: Offset, state: bytes) -> None:
        with self._writing:
            self._prepare()
            plan = Plan(self._view, self._lookup)
            plan.save_state(offset, state)
            plan.sync = True
            plan.finish()
            self._carry_out(plan)

    def _prepare(self) -> None:
        """Refuse at once what cannot succeed, and put the journal in order after a write that found no room."""
        if self._failed is not None:
            raise StorageFailed(f"{self.path}: an earlier write failed: {self._failed}")
        if self._suspect:
            self._reopen()

    def _carry_out(self, plan: Plan) -> None:
        self._check_room(plan.added_bytes)
        try:
            self._put(plan)
        except StorageFull:
            # Perhaps there is room again: LevelDB also repeats what it met earlier, when it wrote a table.
            self._reopen()
            self._put(plan)
        view = plan.view
        if self.damage is not None and self.damage.offset is not None and not view.start < self.damage.offset <= view.last:
            self.damage = None  # truncated or compacted away
        self._view = view
        if plan.sync:
            self._promise.raise_to(view.mark.counter)

    def _put(self, plan: Plan) -> None:
        try:
            self._database.write(plan.changes, plan.sync)
        except StorageFull:
            self._suspect = True
            raise
        except StorageError as error:
            self._failed = error
            raise

    def _check_room(self, added: int) -> None:
        reserve = self._settings.reserve_bytes
        self._unchecked += added
        if not added or self._unchecked * _ROOM_CHECKS < reserve:
            return
        free = folder.free_bytes(self.path)
        if free < reserve + added:
            self._unchecked = reserve  # look again next time
            raise StorageFull(f"{self.path}: {free} bytes are free, of which {reserve} are kept in reserve")
        self._unchecked = 0

    def _reopen(self) -> None:
        """LevelDB cannot go on after a failed write: what follows half a record in its journal would be lost. Open it anew.

        Until there is room for that, the old one goes on serving reads.
        """
        needed = 2 * folder.journal_bytes(self.path) + self._settings.write_buffer_bytes
        try:
            folder.check_room(self.path, needed)
        except OSError as error:
            raise StorageFull(f"{self.path}: {needed} bytes are needed to go on: {error}") from error
        self._database.reopen()
        view = opening.load(self._database)
        counter = 0 if view is None else view.mark.counter
        if counter != self._view.mark.counter:
            self._failed = StorageFailed(
                f"{self.path}: write {self._view.mark.counter} was the last, and {counter} is there"
            )
            raise self._failed
        self._suspect = False
        self._unchecked = self._settings.reserve_bytes

    # Reading.

    def restore(self) -> Restored:
        return self._view.restored()

    def read(self, first: Offset, max_bytes: int, last: Offset | None = None) -> tuple[Batch, ...]:
        try:
            return tuple(map(decode_batch, self._range(first, max_bytes, last)))
        except BadBatch as error:
            # Its checksum is right: it was written so.
            raise Corrupt(str(self.path), f"a batch from {first} on cannot be read: {error}") from error

    def fetch(self, first: Offset, max_bytes: int, last: Offset) -> list[bytes]:
        return self._range(first, max_bytes, last)

    def _range(self, first: Offset, max_bytes: int, last: Offset | None) -> list[bytes]:
        damage = self.damage
        if damage is not None and damage.offset is not None:
            if first >= damage.offset:
                raise damage
            last = Offset(damage.offset - 1) if last is None else Offset(min(last, damage.offset - 1))
        return self._look(lambda cursor, view: reading.read_range(cursor, view, first, max_bytes, last))

    def find_time(self, stamp: Millis) -> tuple[Offset, Millis] | None:
        return self._look(lambda cursor, view: reading.find_time(cursor, view, stamp))

    def find_size(self, keep_bytes: int) -> Offset:
        return self._look(lambda cursor, view: reading.find_size(cursor, view, keep_bytes))

    def _look(self, look: Callable[[Cursor, View], T]) -> T:
        """Read, and if something does not fit, read again while nothing can change: only then is it damage."""
        try:
            return self._look_once(look)
        except Corrupt:
            with self._writing:
                try:
                    return self._look_once(look)
                except Corrupt as error:
                    self._damaged(error)
                    raise

    def _look_once(self, look: Callable[[Cursor, View], T]) -> T:
        view = self._view
        with self._database.cursor() as cursor:
            return look(cursor, view)

    def _damaged(self, error: Corrupt) -> None:
        known = self.damage
        if error.offset is not None and (known is None or known.offset is None or error.offset < known.offset):
            self.damage = error
            _log.error("%s: %s; nothing from there on is served", self.path, error)

    def last_stamp(self) -> Millis:
        return self._view.stamp

    def load_state(self) -> tuple[Offset, bytes]:
        with self._writing:  # or it might be replaced meanwhile
            view = self._view
            value = self._database.get(keys.state_key(view.applied))
        if not view.has_state:
            return view.applied, b""
        if value is None:
            raise Corrupt(str(self.path), f"the state machine's state up to {view.applied} is gone")
        try:
            return keys.decode_state(value)
        except keys.BadValue as error:
            raise Corrupt(str(self.path), str(error)) from error

    @property
    def start(self) -> Offset:
        return self._view.start

    @property
    def last(self) -> Offset:
        return self._view.last

    @property
    def size_bytes(self) -> int:
        return self._view.size

    # What plans ask.

    def _total_at(self, view: View, offset: Offset) -> Total:
        with self._database.cursor() as cursor:
            return reading.total_at(cursor, view, offset)

    def _keys_from(self, floor: bytes) -> list[bytes]:
        found = []
        with self._database.cursor() as cursor:
            cursor.seek(floor)
            while cursor.valid() and cursor.key() < keys.LOG_END:
                found.append(cursor.key())
                cursor.next()
        return found

    # Housekeeping.

    def trim(self) -> bool:
        with self._writing:
            if self._failed is not None or self._suspect or self._database.closed:
                return False
            try:
                more = self._trimmer.step(self._view.start, keys.state_key(self._view.applied))
            except StorageFull:
                self._suspect = True
                raise
            except StorageFailed as error:
                self._failed = error
                raise
        # Beside writes and reads: it may take long.
        self._trimmer.compact_if_due(more)
        return more

    def close(self) -> None:
        with self._writing:
            if self._closed:
                return
            self._closed = True
            self._database.close()
            self._promise.sync()
            self._promise.close()
            os.close(self._lock)
            self._failed = StorageFailed(f"{self.path}: the log is closed")


def _compare(path: Path, promise: Promise, view: View | None) -> list[str]:
    """What the database holds against what was promised. Raises Corrupt; returns what is worth saying."""
    counter = 0 if view is None else view.mark.counter
    if promise.counter is None or (view is not None and promise.counter == 0):
        return ["the record of acknowledged writes was lost: whether the last of them are there is not known"]
    if counter < promise.counter:
        raise Corrupt(
            str(path),
            f"{promise.counter} writes were acknowledged, and only {counter} are there",
            None if view is None else Offset(view.last + 1),
        )
    return []
