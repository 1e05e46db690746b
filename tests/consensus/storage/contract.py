"""What every log store must do, written once and run for each of them. A subclass says how to open one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import pytest

from quorate.consensus.core import (
    Configuration,
    HardState,
    LogStart,
    Millis,
    Offset,
    Persist,
    Snapshot,
    Term,
    Token,
    replica_id,
)
from quorate.consensus.core.terms import TermRuns
from quorate.consensus.storage.api import LogStore, StorageFailed
from tests.support.batches import THREE, append, config_batch, data_batch, noop, run_of

TOKEN = Token(1, Term(1), Offset(0), Term(1))
ALL = 1 << 40


def moved_start(offset: int, term: int = 1, configuration: Configuration = THREE) -> Persist:
    return Persist(TOKEN, sync=False, start=LogStart(Offset(offset), Term(term), configuration))


def installed(offset: int, term: int, state: bytes = b"state") -> Persist:
    return Persist(TOKEN, sync=True, snapshot=Snapshot(LogStart(Offset(offset), Term(term), THREE), state))


class LogStoreContract(ABC):
    """Tests of one kind of store; `store` is a new one for a group of three."""

    @pytest.fixture
    @abstractmethod
    def store(self) -> LogStore: ...

    def reopened(self, store: LogStore) -> LogStore:
        """The same store after a restart; one that has no disk stays as it is."""
        return store

    def and_after_a_restart(self, store: LogStore) -> Iterator[LogStore]:
        """The store, and then the same one opened again."""
        yield store
        yield self.reopened(store)

    def test_a_new_log_is_empty(self, store: LogStore) -> None:
        for log in self.and_after_a_restart(store):
            restored = log.restore()
            assert restored.start == LogStart(Offset(-1), Term(0), THREE)
            assert restored.runs == ()
            assert (log.start, log.last, log.size_bytes, log.last_stamp()) == (-1, -1, 0, -1)
            assert log.read(Offset(0), ALL) == ()
            assert log.find_time(Millis(0)) is None
            assert log.load_state() == (-1, b"")

    def test_batches_come_back_as_they_were(self, store: LogStore) -> None:
        batches = (noop(0), data_batch(1, count=10), config_batch(11), data_batch(12, count=3, size=100_000))
        store.write([append(*batches)])
        for log in self.and_after_a_restart(store):
            assert log.read(Offset(0), ALL) == batches
            assert log.last == 14
            assert log.restore().configurations == ((11, THREE),)
            assert log.size_bytes == sum(map(len, log.fetch(Offset(0), ALL, Offset(14))))

    def test_a_batch_in_any_buffer_is_copied(self, store: LogStore) -> None:
        batch = data_batch(0)
        buffer = bytearray(batch.data)
        store.write([append(batch._replace(data=memoryview(buffer)))])
        buffer[:] = bytes(len(buffer))
        assert store.read(Offset(0), ALL) == (batch,)

    def test_fetch_gives_stored_bytes(self, store: LogStore) -> None:
        store.write([append(noop(0), data_batch(1, count=2), data_batch(3))])
        values = store.fetch(Offset(2), ALL, Offset(3))
        assert values == [data_batch(1, count=2).data, data_batch(3).data]

    @pytest.mark.parametrize(
        ("first", "max_bytes", "last", "bases"),
        [
            (0, ALL, None, [0, 1, 5, 6]),
            (0, 0, None, [0]),
            (3, 0, None, [1]),
            (4, 101 + 101, None, [1, 5]),
            (4, 101 + 101 - 1, None, [1]),
            (0, ALL, 5, [0, 1, 5]),
            (0, ALL, 4, [0, 1]),
            (2, ALL, 0, []),
            (7, ALL, None, [6]),
            (8, ALL, None, []),
            (100, ALL, None, []),
            (-1, ALL, None, []),
        ],
    )
    def test_reads_are_bounded(
        self, store: LogStore, first: int, max_bytes: int, last: int | None, bases: list[int]
    ) -> None:
        store.write([append(data_batch(0), data_batch(1, count=4)), append(data_batch(5), data_batch(6, count=2))])
        for log in self.and_after_a_restart(store):
            batches = log.read(Offset(first), max_bytes, None if last is None else Offset(last))
            assert [batch.base for batch in batches] == bases

    def test_hard_state_is_kept(self, store: LogStore) -> None:
        state = HardState(Term(7), replica_id(2), Offset(-1))
        store.write([Persist(TOKEN, sync=True, hard_state=state)])
        assert store.restore().hard_state == state
        assert self.reopened(store).restore().hard_state == state

    def test_truncation_replaces_the_tail(self, store: LogStore) -> None:
        store.write([append(*run_of(0, 10, term=1))])
        store.write([append(data_batch(6, count=2, term=3), truncate=5)])
        for log in self.and_after_a_restart(store):
            assert [(b.base, b.term) for b in log.read(Offset(0), ALL)] == [*((n, 1) for n in range(6)), (6, 3)]
            assert (log.last, log.last_stamp()) == (7, 1_000)
            runs = TermRuns.rebuild(Offset(-1), Term(0), log.restore().runs)
            assert runs.runs() == [(0, 1), (6, 3)]
        log.write([append(truncate=-1)])
        for empty in self.and_after_a_restart(log):
            assert (empty.last, empty.restore().runs, empty.size_bytes) == (-1, (), 0)

    def test_truncation_rolls_configurations_back(self, store: LogStore) -> None:
        store.write([append(noop(0), config_batch(1), config_batch(2, THREE.change(THREE.voters, [replica_id(4, 2)])))])
        store.write([append(truncate=1)])
        for log in self.and_after_a_restart(store):
            assert log.restore().configurations == ((1, THREE),)

    def test_several_writes_are_one(self, store: LogStore) -> None:
        store.write(
            [
                append(*run_of(0, 4, term=1)),
                append(*run_of(4, 4, term=2)),
                append(data_batch(2, term=3, stamp=1_500), truncate=1),
                append(data_batch(3, count=5, term=3, stamp=1_600), commit=2),
                moved_start(1),
            ]
        )
        for log in self.and_after_a_restart(store):
            assert [(b.base, b.last, b.term) for b in log.read(Offset(2), ALL)] == [(2, 2, 3), (3, 7, 3)]
            assert (log.start, log.last, log.last_stamp()) == (1, 7, 1_600)
            assert log.restore().hard_state.commit == 2
            assert log.read(Offset(1), ALL) == ()

    def test_a_moved_start_hides_what_is_below(self, store: LogStore) -> None:
        store.write([append(*run_of(0, 5, term=1), *run_of(5, 5, term=2))])
        size = store.size_bytes
        store.write([moved_start(5, term=2)])
        for log in self.and_after_a_restart(store):
            restored = log.restore()
            assert restored.start == LogStart(Offset(5), Term(2), THREE)
            assert restored.runs == ((6, 9, 2),) or [run[0] for run in restored.runs] == [6, 7, 8, 9]
            assert restored.applied == 5
            assert (log.start, log.last, log.size_bytes) == (5, 9, size * 4 // 10)
            assert log.read(Offset(5), ALL) == ()
            assert len(log.read(Offset(6), ALL)) == 4
            assert log.find_time(Millis(0)) == (6, 1_001)
        log.write([moved_start(9, term=2)])
        for empty in self.and_after_a_restart(log):
            assert (empty.start, empty.last, empty.size_bytes) == (9, 9, 0)
        empty.write([append(data_batch(10, term=2))])
        assert self.reopened(empty).read(Offset(10), ALL) == (data_batch(10, term=2),)

    def test_an_older_start_changes_nothing(self, store: LogStore) -> None:
        store.write([append(*run_of(0, 5)), moved_start(3)])
        store.write([moved_start(1)])
        assert store.start == 3

    def test_trimming_goes_on_until_nothing_is_left_to_remove(self, store: LogStore) -> None:
        store.write([append(*run_of(0, 60, size=5_000))])
        store.write([moved_start(50)])
        while store.trim():
            pass
        for log in self.and_after_a_restart(store):
            assert [batch.base for batch in log.read(Offset(51), ALL)] == list(range(51, 60))
            assert not log.trim()

    @pytest.mark.parametrize("offset", [2, 7, 20])
    def test_a_snapshot_replaces_everything(self, store: LogStore, offset: int) -> None:
        store.write([append(*run_of(0, 4, term=1), config_batch(4), *run_of(5, 5, term=2))])
        store.write([installed(offset, term=5)])
        for log in self.and_after_a_restart(store):
            restored = log.restore()
            assert restored.start == LogStart(Offset(offset), Term(5), THREE)
            assert (restored.runs, restored.configurations, restored.applied) == ((), (), offset)
            assert (log.start, log.last, log.size_bytes) == (offset, offset, 0)
            assert log.load_state() == (offset, b"state")
        log.write([append(*run_of(offset + 1, 3, term=6))])
        while log.trim():
            pass
        for filled in self.and_after_a_restart(log):
            log = filled
            assert [b.base for b in log.read(Offset(offset + 1), ALL)] == [offset + 1, offset + 2, offset + 3]
            assert log.find_size(0) == offset + 3
            assert log.find_size(1) == offset + 2

    def test_a_snapshot_and_what_follows_it_in_one_write(self, store: LogStore) -> None:
        """A write of the old log ended just there: nothing of its bytes may count in the new one."""
        for first in range(6):
            store.write([append(data_batch(first, size=39))])
        store.write([installed(3, term=5), append(*run_of(4, 3, term=6, size=39))])
        for log in self.and_after_a_restart(store):
            assert log.size_bytes == 300
            assert [log.find_size(n) for n in (0, 1, 101, 201, 301)] == [6, 5, 4, 3, 3]
        log.write([append(data_batch(5, term=7, size=39), truncate=4)])
        for again in self.and_after_a_restart(log):
            assert (again.size_bytes, again.find_size(100), again.find_size(200)) == (200, 4, 3)

    def test_state_is_kept(self, store: LogStore) -> None:
        store.write([append(*run_of(0, 5))])
        store.save_state(Offset(3), b"one")
        store.save_state(Offset(4), b"two")
        for log in self.and_after_a_restart(store):
            assert log.load_state() == (4, b"two")
            assert log.restore().applied == 4

    def test_find_by_time(self, store: LogStore) -> None:
        batches = [noop(0)]
        for n in range(1, 40):
            batches.append(noop(n) if n % 4 == 0 else data_batch(n, stamp=1_000 + n // 3 * 10))
        store.write([append(*batches[:17])])
        store.write([append(*batches[17:], noop(40), noop(41))])
        for stamp in range(990, 1_140):
            stamped = [(n, 1_000 + n // 3 * 10) for n in range(1, 40) if n % 4]
            expected = next((pair for pair in stamped if pair[1] >= stamp), None)
            assert store.find_time(Millis(stamp)) == expected
        assert store.last_stamp() == 1_130
        assert self.reopened(store).last_stamp() == 1_130

    def test_find_by_size(self, store: LogStore) -> None:
        store.write([append(*run_of(0, 4, size=39))])
        store.write([append(*run_of(4, 1, size=39))])
        store.write([append(*run_of(5, 5, size=39))])
        store.write([moved_start(1)])
        for log in self.and_after_a_restart(store):
            expected = [9, 8, 8, 7, 5, 4, 1, 1, 1]
            assert [log.find_size(n) for n in (0, 1, 100, 101, 400, 401, 800, 801, 5_000)] == expected

    def test_the_last_time_outlives_its_batch(self, store: LogStore) -> None:
        store.write([append(*run_of(0, 5))])
        store.write([moved_start(4)])
        for log in self.and_after_a_restart(store):
            assert log.last_stamp() == 1_004
        log.write([append(noop(5))])
        log.write([append(truncate=4)])
        assert self.reopened(log).last_stamp() == 1_004

    @pytest.mark.parametrize(
        "bad",
        [
            append(data_batch(11)),
            append(data_batch(9)),
            append(data_batch(10, term=1)),
            append(data_batch(10, term=2)._replace(data=b"short")),
            append(data_batch(10, term=2)._replace(last=Offset(11))),
            append(data_batch(10, term=2)._replace(term=Term(3))),
            append(data_batch(10, term=2)._replace(data=data_batch(10, term=2).data[:-1])),
            append(truncate=1),
            append(truncate=5),
            moved_start(11, term=2),
            moved_start(5, term=2),
        ],
    )
    def test_a_write_that_does_not_fit_changes_nothing(self, store: LogStore, bad: Persist) -> None:
        store.write([append(*run_of(0, 4, term=1), *run_of(4, 1, term=2), data_batch(5, count=5, term=2)), moved_start(2)])
        before = store.restore(), store.read(Offset(3), ALL), store.size_bytes
        with pytest.raises(ValueError, match=r"batch|truncate|start"):
            store.write([append(data_batch(10, term=2)), bad] if bad.truncate is None and bad.batches == () else [bad])
        for log in self.and_after_a_restart(store):
            after = log.restore()
            assert after._replace(runs=()) == before[0]._replace(runs=())
            assert (log.read(Offset(3), ALL), log.size_bytes) == before[1:]

    def test_nothing_to_write_is_fine(self, store: LogStore) -> None:
        store.write([])
        store.write([Persist(TOKEN, sync=False)])
        assert store.last == -1

    def test_a_closed_store_says_so(self, store: LogStore) -> None:
        store.write([append(data_batch(0))])
        store.close()
        store.close()
        with pytest.raises(StorageFailed):
            store.read(Offset(0), ALL)
        with pytest.raises(StorageFailed):
            store.write([append(data_batch(1))])
