"""A whole log of which the disk has changed some values, and made their checksums right again.

That is worse than a disk can do: what a checksum would catch is looked at beyond it. Opening and reading the log says
Corrupt, or tells of a log without a gap.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, cast

from quorate.consensus.batch.header import HEADER_BYTES, seal
from quorate.consensus.core import (
    Configuration,
    GroupId,
    LogStart,
    Offset,
    Persist,
    Raft,
    RaftSettings,
    Term,
    Token,
    new_group,
)
from quorate.consensus.core.types import Millis, replica_id
from quorate.consensus.storage import opening
from quorate.consensus.storage.api import NO_STAMP, Corrupt
from quorate.consensus.storage.database import Database
from quorate.consensus.storage.keys import BATCH, parse_key
from quorate.consensus.storage.level import LevelLog
from quorate.consensus.storage.plan import Lookup, Plan
from quorate.consensus.storage.promise import Promise
from quorate.consensus.storage.settings import StorageSettings
from quorate.consensus.storage.view import View
from tests.fuzz.targets.expect import expect, sealed
from tests.support.batches import THREE, append, config_batch, noop, run_of

_STEP = struct.Struct(">BBHB")
"""How, which value, where in it, and the new byte."""
_MOST_STEPS = 8


class MemoryDatabase:
    """Keys and values as `storage.database.Database` shows them."""

    def __init__(self, content: dict[bytes, bytes]) -> None:
        self.path = Path("memory")
        self.content = content

    def get(self, key: bytes) -> bytes | None:
        return self.content.get(key)

    @contextmanager
    def cursor(self) -> Iterator[MemoryCursor]:
        yield MemoryCursor(sorted(self.content), self.content)

    def write(self, changes: dict[bytes, Any], sync: bool) -> None:
        for key, value in changes.items():
            if value is None:
                self.content.pop(key, None)
            else:
                self.content[key] = bytes(value)


class MemoryCursor:
    """As LevelDB's: beyond either end it is nowhere."""

    def __init__(self, keys: list[bytes], content: dict[bytes, bytes]) -> None:
        self._keys = keys
        self._content = content
        self._at = -1

    def valid(self) -> bool:
        return 0 <= self._at < len(self._keys)

    def key(self) -> bytes:
        return self._keys[self._at]

    def value(self) -> bytes:
        return self._content[self.key()]

    def seek(self, key: bytes) -> None:
        self._at = bisect_left(self._keys, key)

    def last(self) -> None:
        self._at = len(self._keys) - 1

    def next(self) -> None:
        self._at += 1

    def prev(self) -> None:
        self._at -= 1


def _nothing(view: View, offset: Offset) -> Any:
    raise ValueError(f"{offset} is not there")


def _log(*writes: Persist, state_at: int | None = None) -> dict[bytes, bytes]:
    """What a new log holds after these writes."""
    database = MemoryDatabase({})
    view = opening.first_view(new_group(THREE))

    def open_() -> LevelLog:
        return LevelLog(database.path, StorageSettings(), cast(Database, database), cast(Promise, None), view)

    def put(plan: Plan) -> View:
        plan.finish()
        database.write(plan.changes, True)
        return plan.view

    plan = Plan(view, Lookup(_nothing, lambda _: []))
    plan.begin()
    view = put(plan)
    for write in writes:
        plan = Plan(view, open_()._lookup)
        plan.add(write)
        view = put(plan)
    if state_at is not None:
        plan = Plan(view, open_()._lookup)
        plan.save_state(Offset(state_at), b"state")
        view = put(plan)
    return database.content


_TWO = Configuration(voters=frozenset({replica_id(1), replica_id(2)}))
LOGS = (
    _log(),
    _log(append(noop(0)), append(*run_of(1, 4), commit=2)),
    _log(
        append(noop(0), *run_of(1, 3)), append(noop(4, 3), config_batch(5, _TWO, 3), *run_of(6, 3, 3), commit=5), state_at=5
    ),
    _log(
        append(noop(0), *run_of(1, 5)),
        Persist(Token(2, Term(1), Offset(5), Term(1)), True, start=LogStart(Offset(3), Term(1), THREE)),
        append(*run_of(5, 2, 2, stamp=2_000), truncate=4),
        state_at=5,
    ),
)


def log(data: bytes) -> None:
    """The first byte chooses the log; every five bytes more change one value of it (`_STEP`)."""
    if not data:
        return
    content = dict(LOGS[data[0] % len(LOGS)])
    for how, which, where, byte in list(_STEP.iter_unpack(data[1 : 1 + (len(data) - 1) // 5 * 5]))[:_MOST_STEPS]:
        keys = sorted(content)
        if keys:
            _change(content, keys[which % len(keys)], keys[where % len(keys)], how, where, byte)
    database = MemoryDatabase(content)
    try:
        view = opening.load(cast(Database, database))
    except Corrupt:
        return
    expect(view is not None or not content, "a log that is not empty has an end")
    if view is not None:
        _look(LevelLog(database.path, StorageSettings(), cast(Database, database), cast(Promise, None), view), view)


def _change(content: dict[bytes, bytes], key: bytes, other: bytes, how: int, where: int, byte: int) -> None:
    value = content[key]
    if how % 8 == 0:
        del content[key]
    elif how % 8 == 1:
        content[key] = content[other]
    elif how % 8 == 2:
        content[key[:-2] + bytes([byte]) + key[-1:]] = value
    else:
        place = parse_key(key)
        batch = place is not None and place[1] == BATCH
        body = bytearray(value if batch else value[:-4])
        if how % 8 == 3:
            del body[where % (len(body) + 1) :]
        elif how % 8 == 4:
            body += bytes([byte])
        elif body:
            body[where % len(body)] = byte
        if batch and len(body) >= HEADER_BYTES and how < 128:
            if how % 8 < 5:
                struct.pack_into(">i", body, 8, len(body) - 12)
            seal(body)
        content[key] = bytes(body) if batch else sealed(bytes(body))


def _look(found: LevelLog, view: View) -> None:
    """What was opened can be used: by the core, and by readers, who meet Corrupt or batches that follow each other."""
    expect(view.start <= view.last, "a log ends after its start")
    Raft(GroupId(1), replica_id(1), found.restore(), RaftSettings(), Random(1))
    with suppress(Corrupt):
        read(found, view)
    for stamp in (0, 1_001, 5_000):
        with suppress(Corrupt):
            where = found.find_time(Millis(stamp))
            expect(where is None or (view.start < where[0] <= view.last and where[1] >= stamp), "a batch of that time")
    for keep in (0, 150, 1 << 40):
        with suppress(Corrupt):
            expect(view.start <= found.find_size(keep) <= view.last, "an offset of the log")
    with suppress(Corrupt):
        found.load_state()
    expect(found.last_stamp() >= NO_STAMP, "a time or none")


def read(found: LevelLog, view: View) -> None:
    """Read all of it."""
    at = view.start
    while at < view.last:
        batches = found.read(Offset(at + 1), 300)
        expect(bool(batches), "there is a batch for every offset")
        for batch in batches:
            expect(batch.base == at + 1 and batch.last >= batch.base, "batches follow each other")
            expect(batch.term == view.term_at(batch.base), "terms are those of the index")
            at = batch.last
