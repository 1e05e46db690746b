"""The threads that write: per store one write at a time, made of everything that arrived during the one before it.

LevelDB's own grouping stops at 1 MiB and costs a thread per waiter; this one has neither limit.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from quorate.consensus.core import Persist
from quorate.consensus.storage.api import LogStore, StorageError, StorageFailed

Done = Callable[[StorageError | None], None]
Post = Callable[[Callable[[], None]], object]
"""Runs a function soon, on the thread that wants to hear of completions: `loop.call_soon_threadsafe`."""

_log = logging.getLogger(__name__)
_TRIM_EVERY = 256
"""Writes after which a store is looked at for dead keys, if none of them said that there are some."""


class _Queue:
    """What one store has been given and has not begun to write. `busy` while a thread writes for it, or is about to."""

    __slots__ = ("busy", "error", "store", "untrimmed", "waiting")

    def __init__(self, store: LogStore) -> None:
        self.store = store
        self.waiting: list[tuple[Persist, Done]] = []
        self.busy = False
        self.error: StorageError | None = None
        self.untrimmed = _TRIM_EVERY
        """How many writes ago the store was looked at for what can be removed. A new one is looked at once."""


class WriterPool:
    """A few threads that carry out writes for many stores.

    Per store the order of `submit` is the order on disk and the order of completions. After an error every later write of
    that store fails with the same error, because it would follow a hole, until `resume` is called for it.
    """

    def __init__(self, post: Post, threads: int = 4) -> None:
        if threads < 1:
            raise ValueError(f"a writer pool needs at least one thread, not {threads}")
        self._post = post
        self._queues: dict[int, _Queue] = {}
        # Work for the threads: a queue to write, a store to trim, or None to end. One item wakes one thread; waking
        # all of them for each write would cost more than the write.
        self._work: SimpleQueue[_Queue | LogStore | None] = SimpleQueue()
        self._trims: deque[LogStore] = deque()
        self._trimming = False
        self._closing = False
        # Guards everything above but the work, and is notified when a store falls idle while somebody waits for that.
        self._changed = threading.Condition()
        self._waiters = 0
        self._threads = [threading.Thread(target=self._run, name=f"log-writer-{n}", daemon=True) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    def submit(self, store: LogStore, persist: Persist, done: Done) -> None:
        """Write `persist` soon, and then have `done` called with None, or with what went wrong. Never blocks."""
        with self._changed:
            if self._closing:
                raise RuntimeError("the writer pool is closed")
            queue = self._queues.get(id(store))
            if queue is None:
                queue = self._queues[id(store)] = _Queue(store)
            queue.waiting.append((persist, done))
            if queue.busy:
                return
            queue.busy = True
        self._work.put(queue)

    def write_here(self, store: LogStore, persist: Persist, done: Done) -> bool:
        """Carry `persist` out on this thread, now, if nothing else is under way for the store; whether it was.

        For a small write that nothing else would overlap with: two changes of thread cost as much as its sync.
        """
        with self._changed:
            queue = self._queues.get(id(store))
            if queue is None:
                queue = self._queues[id(store)] = _Queue(store)
            if queue.busy or self._closing:
                return False
            queue.busy = True
        group = [(persist, done)]
        error = _write(queue, group)
        self._settle(queue, group, error)
        done(error)
        return True

    def resume(self, store: LogStore) -> None:
        """Try again to write for a store that failed: the caller submits again what came back with an error, in order."""
        with self._changed:
            queue = self._queues.get(id(store))
            if queue is not None:
                queue.error = None

    def forget(self, store: LogStore) -> None:
        """The store is about to be closed: wait for what it was given, and keep nothing of it."""
        with self._changed:
            queue = self._queues.get(id(store))
            self._waiters += 1
            while queue is not None and queue.busy:
                self._changed.wait()
            self._waiters -= 1
            self._queues.pop(id(store), None)
            self._trims = deque(other for other in self._trims if other is not store)

    def close(self) -> None:
        """Finish what was submitted, then end the threads. Blocks; completions are posted before it returns."""
        with self._changed:
            self._closing = True
            self._waiters += 1
            while any(queue.busy for queue in self._queues.values()):
                self._changed.wait()
            self._waiters -= 1
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            if isinstance(item, _Queue):
                with self._changed:
                    group, item.waiting = item.waiting, []
                self._finish(item, group, _write(item, group))
            else:
                self._finish_trim(item, _trim(item))

    def _finish(self, queue: _Queue, group: list[tuple[Persist, Done]], error: StorageError | None) -> None:
        def tell() -> None:
            for _, done in group:
                done(error)

        # Posted before the queue may be taken up again: completions keep the order of the writes.
        self._post(tell)
        self._settle(queue, group, error)

    def _settle(self, queue: _Queue, group: list[tuple[Persist, Done]], error: StorageError | None) -> None:
        """A write is over: go on with what has arrived for its store since, or let it rest."""
        with self._changed:
            if error is not None and queue.error is None:
                queue.error = error
            queue.untrimmed += _TRIM_EVERY if any(map(_frees, group)) else 1
            again = bool(queue.waiting)
            if not again:
                queue.busy = False
                if error is None and queue.untrimmed >= _TRIM_EVERY:
                    queue.untrimmed = 0
                    self._want_trim(queue.store)
                if self._waiters:
                    self._changed.notify_all()
        if again:
            self._work.put(queue)

    # Trimming: one store at a time, so that writes always find a thread.

    def _want_trim(self, store: LogStore) -> None:
        if self._trimming:
            if store not in self._trims:
                self._trims.append(store)
        elif not self._closing:
            self._trimming = True
            self._work.put(store)

    def _finish_trim(self, store: LogStore, more: bool) -> None:
        with self._changed:
            self._trimming = False
            if more and id(store) in self._queues:
                self._trims.append(store)
            if self._trims:
                self._want_trim(self._trims.popleft())


def _frees(item: tuple[Persist, Done]) -> bool:
    """Whether a write leaves something behind that can be removed."""
    return item[0].start is not None or item[0].snapshot is not None


def _write(queue: _Queue, group: list[tuple[Persist, Done]]) -> StorageError | None:
    """Carry a group out; what went wrong, if anything did."""
    if queue.error is not None:
        return queue.error
    try:
        queue.store.write([persist for persist, _ in group])
    except StorageError as error:
        return error
    except Exception as error:  # noqa: BLE001 - the outermost loop of this thread: a store must not wait for ever
        _log.exception("a write broke off")
        return StorageFailed(f"a write broke off: {error!r}")
    return None


def _trim(store: LogStore) -> bool:
    try:
        return store.trim()
    except StorageError as error:
        # Nobody waits for it; the next write meets the same trouble and says so.
        _log.warning("cannot trim: %s", error)
        return False
