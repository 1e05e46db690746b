"""Random sequences of writes: LevelLog and MemoryLog do what a plain list of batches does, across restarts too."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from quorate.consensus.core import (
    Batch,
    Configuration,
    HardState,
    LogStart,
    Offset,
    Persist,
    Snapshot,
    Term,
    Token,
    new_group,
    replica_id,
)
from quorate.consensus.core.terms import TermRuns
from quorate.consensus.storage.api import LogStore
from quorate.consensus.storage.level import LevelLog
from quorate.consensus.storage.memory import MemoryLog
from tests.consensus.storage.conftest import SMALL
from tests.support.batches import THREE, config_batch, data_batch, noop
from tests.support.disk import Disk

ALL = 1 << 40
FOUR = THREE.change(THREE.voters, [replica_id(4, 2)])


class Stores(RuleBasedStateMachine):
    """`Disk` is the model. It only ever sees whole writes, so its durable image is what every store must hold."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="log-model-"))
        self.model = Disk(new_group(THREE))
        self.level = LevelLog.open(self.folder / "log", new_group(THREE), SMALL)
        self.memory = MemoryLog(new_group(THREE))
        self.term = 1
        self.time = 1_000
        self.group: list[Persist] = []
        """Writes that are given to the stores together."""

    @initialize()
    def begin(self) -> None:
        self.add(batches=(noop(0),))
        self.flush()

    # Making writes. The model sees each of them at once, so that the next one fits.

    def add(self, **fields: object) -> None:
        image = self.model.written
        sync = bool(fields.pop("sync", True))
        token = Token(1, Term(self.term), image.last, Term(self.term))
        write = Persist(token, sync, **fields)  # type: ignore[arg-type]
        self.group.append(write)
        self.model.write(write)
        self.model.sync()

    def new_batch(self, base: int, kind: int, count: int, size: int) -> Batch:
        self.time += kind % 3
        if kind == 0:
            return noop(base, self.term)
        if kind == 1:
            return config_batch(base, FOUR if count % 2 else THREE, self.term)
        return data_batch(base, count, self.term, size, self.time)

    def ends(self) -> list[Offset]:
        image = self.model.written
        ends = [image.start.offset, *(batch.last for batch in image.batches)]
        # What the state machine has applied was committed, and is never truncated.
        return [end for end in ends if end >= image.state_offset] or ends[-1:]

    @rule(
        kinds=st.lists(st.tuples(st.integers(0, 6), st.integers(1, 5), st.integers(1, 3_000)), min_size=1, max_size=6),
        drop=st.integers(0, 4),
        raise_term=st.booleans(),
    )
    def append(self, kinds: list[tuple[int, int, int]], drop: int, raise_term: bool) -> None:
        image = self.model.written
        ends = self.ends()
        self.term += raise_term
        last = ends[max(0, len(ends) - 1 - drop)]
        made: list[Batch] = []
        for kind in kinds:
            made.append(self.new_batch((made[-1].last if made else last) + 1, *kind))
        commit = HardState(Term(self.term), replica_id(1), last) if raise_term else None
        self.add(batches=tuple(made), truncate=None if last == image.last else last, hard_state=commit)

    @rule(drop=st.integers(0, 9))
    def truncate(self, drop: int) -> None:
        ends = self.ends()
        self.add(truncate=ends[max(0, len(ends) - 1 - drop)])

    @rule(sync=st.booleans())
    def vote(self, sync: bool) -> None:
        self.term += 1
        self.add(sync=sync, hard_state=HardState(Term(self.term), replica_id(2), Offset(-1)))

    @rule(share=st.floats(0, 1))
    def move_start(self, share: float) -> None:
        image = self.model.written
        ends = self.ends()
        offset = ends[int(share * (len(ends) - 1))]
        if offset == image.start.offset:
            return
        batch = image.find(offset)
        assert batch is not None
        self.add(sync=False, start=LogStart(offset, batch.term, self.configuration_at(offset)))

    def configuration_at(self, offset: Offset) -> Configuration:
        image = self.model.written
        found = image.start.configuration
        for at, configuration in self.model.restored().configurations:
            found = configuration if at <= offset else found
        return found

    @rule(beyond=st.integers(-3, 20), state=st.binary(max_size=50))
    def install(self, beyond: int, state: bytes) -> None:
        offset = Offset(max(0, self.model.written.last + beyond))
        self.term += 1
        self.add(snapshot=Snapshot(LogStart(offset, Term(self.term), FOUR), state))

    # Carrying them out.

    @rule()
    def flush(self) -> None:
        for store in (self.level, self.memory):
            store.write(self.group)
        self.group = []

    @rule(state=st.binary(max_size=50))
    def save_state(self, state: bytes) -> None:
        self.flush()
        offset = self.model.written.last
        self.model.save_state(offset, state)
        for store in (self.level, self.memory):
            store.save_state(offset, state)

    @precondition(lambda self: not self.group)
    @rule()
    def reopen(self) -> None:
        self.level.close()
        self.level = LevelLog.open(self.folder / "log", new_group(THREE), SMALL)
        assert self.level.notes == ()

    @rule()
    def trim(self) -> None:
        self.level.trim()

    @precondition(lambda self: not self.group)
    @rule(first=st.integers(-2, 60), max_bytes=st.sampled_from([0, 100, 5_000, ALL]), width=st.integers(0, 30))
    def read_alike(self, first: int, max_bytes: int, width: int) -> None:
        begin = Offset(self.model.written.start.offset + first)
        end = Offset(begin + width)
        assert self.level.fetch(begin, max_bytes, end) == self.memory.fetch(begin, max_bytes, end)

    @precondition(lambda self: not self.group)
    @rule(back=st.integers(-2, 30), keep=st.integers(-10, 20_000))
    def find_alike(self, back: int, keep: int) -> None:
        stamp = type(self.level.last_stamp())(self.time - back)
        assert self.level.find_time(stamp) == self.memory.find_time(stamp)
        assert self.level.find_size(keep) == self.memory.find_size(keep)

    @precondition(lambda self: not self.group)
    @invariant()
    def agree(self) -> None:
        image = self.model.durable
        for store in (self.level, self.memory):
            self.same(store, image.batches)
            assert store.load_state() == (image.state_offset, bytes(image.state))
        assert self.level.size_bytes == self.memory.size_bytes
        assert self.level.last_stamp() == self.memory.last_stamp()

    def same(self, store: LogStore, batches: list[Batch]) -> None:
        restored = store.restore()
        model = self.model.restored()
        assert restored._replace(runs=(), applied=model.applied) == model._replace(runs=())
        start = restored.start
        terms = TermRuns.rebuild(start.offset, start.term, restored.runs)
        assert terms.runs() == TermRuns.rebuild(start.offset, start.term, model.runs).runs()
        assert (store.start, store.last) == (start.offset, terms.last)
        assert store.read(Offset(store.start + 1), ALL) == tuple(batches)

    def teardown(self) -> None:
        self.level.close()
        shutil.rmtree(self.folder)


TestStores = Stores.TestCase
TestStores.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
