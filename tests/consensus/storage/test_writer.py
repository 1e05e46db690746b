"""The writer threads: order, grouping, stores in parallel, errors, and the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from quorate.consensus.core import Offset, Persist, new_group
from quorate.consensus.storage.api import LogStore, StorageError, StorageFailed, StorageFull
from quorate.consensus.storage.memory import MemoryLog
from quorate.consensus.storage.writer import WriterPool
from tests.support.batches import THREE, append, data_batch

DEADLINE_S = 20


class SlowLog(MemoryLog):
    """A log whose writes wait to be let through, and may be told to fail."""

    def __init__(self) -> None:
        super().__init__(new_group(THREE))
        self.groups: list[int] = []
        self.begun = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)
        self.fail: Exception | None = None
        self.trims = 0
        self.trimmed = threading.Semaphore(0)

    def write(self, writes: Sequence[Persist]) -> None:
        self.begun.release()
        assert self.gate.acquire(timeout=DEADLINE_S)
        if self.fail is not None:
            raise self.fail
        super().write(writes)
        self.groups.append(len(writes))

    def trim(self) -> bool:
        self.trims += 1
        self.trimmed.release()
        return self.trims < 3


class Loop:
    """Stands in for the event loop: collects what is posted, and runs it in the test's thread."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.posted = threading.Semaphore(0)
        self.results: list[tuple[str, StorageError | None]] = []

    def post(self, call: Callable[[], None]) -> None:
        self.calls.append(call)
        self.posted.release()

    def run(self, count: int) -> None:
        """Wait for so many calls, and run them."""
        for _ in range(count):
            assert self.posted.acquire(timeout=DEADLINE_S)
            self.calls.pop(0)()

    def note(self, name: str) -> Callable[[StorageError | None], None]:
        return lambda error: self.results.append((name, error))

    def last_error(self) -> StorageError | None:
        return self.results[-1][1]

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.results]


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def pool(loop: Loop) -> Iterator[WriterPool]:
    pool = WriterPool(loop.post, threads=2)
    yield pool
    pool.close()


def submit(pool: WriterPool, loop: Loop, store: LogStore, first: int, count: int) -> None:
    for n in range(first, first + count):
        pool.submit(store, append(data_batch(n)), loop.note(f"{n}"))


def test_what_arrives_during_a_write_becomes_the_next(pool: WriterPool, loop: Loop) -> None:
    log = SlowLog()
    submit(pool, loop, log, 0, 1)
    assert log.begun.acquire(timeout=DEADLINE_S)
    submit(pool, loop, log, 1, 50)
    log.gate.release(2)
    loop.run(2)
    assert log.groups == [1, 50]
    assert loop.names == [f"{n}" for n in range(51)]
    assert all(error is None for _, error in loop.results)
    assert log.last == 50


def test_one_call_per_write_not_per_persist(pool: WriterPool, loop: Loop) -> None:
    log = SlowLog()
    submit(pool, loop, log, 0, 1)
    assert log.begun.acquire(timeout=DEADLINE_S)
    submit(pool, loop, log, 1, 10)
    log.gate.release(2)
    pool.close()
    assert len(loop.calls) == 2


def test_stores_are_written_in_parallel(pool: WriterPool, loop: Loop) -> None:
    logs = [SlowLog(), SlowLog()]
    for log in logs:
        submit(pool, loop, log, 0, 1)
    for log in logs:
        assert log.begun.acquire(timeout=DEADLINE_S)  # both are inside a write at the same time
    for log in logs:
        log.gate.release()
    loop.run(2)


def test_more_stores_than_threads(pool: WriterPool, loop: Loop) -> None:
    logs = [MemoryLog(new_group(THREE)) for _ in range(20)]
    for n in range(10):
        for log in logs:
            pool.submit(log, append(data_batch(n)), loop.note("done"))
    pool.close()
    loop.run(len(loop.calls))
    assert len(loop.results) == 200
    assert {log.last for log in logs} == {9}


@pytest.mark.parametrize("error", [StorageFull("no room"), StorageFailed("broken")])
def test_after_an_error_nothing_is_written_until_resumed(pool: WriterPool, loop: Loop, error: StorageError) -> None:
    log = SlowLog()
    log.fail = error
    submit(pool, loop, log, 0, 1)
    assert log.begun.acquire(timeout=DEADLINE_S)
    submit(pool, loop, log, 1, 2)
    log.gate.release()
    loop.run(2)
    assert loop.results == [("0", error), ("1", error), ("2", error)]
    log.fail = None
    log.gate.release()
    submit(pool, loop, log, 3, 1)
    loop.run(1)
    assert loop.last_error() is error
    assert log.last == -1
    pool.resume(log)
    submit(pool, loop, log, 0, 1)
    loop.run(1)
    assert loop.last_error() is None
    assert log.last == 0


def test_an_error_of_one_store_does_not_touch_another(pool: WriterPool, loop: Loop) -> None:
    bad, good = SlowLog(), MemoryLog(new_group(THREE))
    bad.fail = StorageFailed("broken")
    bad.gate.release()
    submit(pool, loop, bad, 0, 1)
    loop.run(1)
    submit(pool, loop, good, 0, 1)
    loop.run(1)
    assert loop.results[-1] == ("0", None)


def test_a_bug_in_a_store_stops_that_store_only(pool: WriterPool, loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    log, good = SlowLog(), MemoryLog(new_group(THREE))
    log.fail = ZeroDivisionError("a bug")
    log.gate.release()
    submit(pool, loop, log, 0, 1)
    loop.run(1)
    assert isinstance(loop.results[0][1], StorageFailed)
    assert "a bug" in caplog.text
    submit(pool, loop, good, 0, 1)
    loop.run(1)
    assert good.last == 0


def test_close_finishes_what_was_submitted(pool: WriterPool, loop: Loop) -> None:
    log = SlowLog()
    submit(pool, loop, log, 0, 5)
    log.gate.release(5)
    pool.close()
    loop.run(len(loop.calls))
    assert loop.names == ["0", "1", "2", "3", "4"]
    with pytest.raises(RuntimeError, match="closed"):
        submit(pool, loop, log, 5, 1)


def test_an_idle_store_is_trimmed(pool: WriterPool, loop: Loop) -> None:
    log = SlowLog()
    log.gate.release()
    submit(pool, loop, log, 0, 1)
    loop.run(1)
    for _ in range(3):
        assert log.trimmed.acquire(timeout=DEADLINE_S)
    pool.close()
    assert log.trims == 3


def test_a_forgotten_store_was_written_to_the_end(pool: WriterPool, loop: Loop) -> None:
    log = SlowLog()
    submit(pool, loop, log, 0, 3)
    log.gate.release(3)
    pool.forget(log)
    assert log.last == 2
    assert log.read(Offset(0), 1 << 20)


def test_a_pool_needs_a_thread(loop: Loop) -> None:
    with pytest.raises(ValueError, match="at least one"):
        WriterPool(loop.post, threads=0)
