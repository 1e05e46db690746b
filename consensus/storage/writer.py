"""The threads that write: per store one write at a time, made of everything that arrived during the one before it.

LevelDB's own grouping stops at 1 MiB and costs a thread per waiter; this one has neither limit.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from quorate.consensus.core import Persist
from quorate.consensus.storage.api import LogStore, StorageError, StorageFailed

Done = Callable[[StorageError | None], None]
Post = Callable[[Callable[[], None]], object]
"""Runs a function soon, on the thread that wants to hear of completions: `loop.call_soon_threadsafe`."""

_log = logging.getLogger(__name__)


class _Queue:
    """What one store has been given and has not begun to write. `busy` while a thread writes for it, or is about to."""

    __slots__ = ("busy", "error", "store", "waiting")

    def __init__(self, store: LogStore) -> None:
        self.store = store
        self.waiting: list[tuple[Persist, Done]] = []
        self.busy = False
        self.error: StorageError | None = None


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
        self._ready: deque[_Queue] = deque()
        self._trims: deque[LogStore] = deque()
        self._trimming = False
        self._closing = False
        # Guards everything above. Nothing slow happens under it.
        self._changed = threading.Condition()
        self._threads = [threading.Thread(target=self._work, name=f"log-writer-{n}", daemon=True) for n in range(threads)]
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
            if not queue.busy:
                queue.busy = True
                self._ready.append(queue)
                self._changed.notify()

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
            while queue is not None and queue.busy:
                self._changed.wait()
            self._queues.pop(id(store), None)
            self._trims = deque(other for other in self._trims if other is not store)

    def close(self) -> None:
        """Finish what was submitted, then end the threads. Blocks; completions are posted before it returns."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._ready and not self._closing and (self._trimming or not self._trims):
                    self._changed.wait()
                queue = self._ready.popleft() if self._ready else None
                if queue is not None:
                    group, queue.waiting = queue.waiting, []
                elif self._closing:
                    return
                else:
                    self._trimming, trim = True, self._trims.popleft()
            if queue is not None:
                self._finish(queue, group, _write(queue, group))
            else:
                self._finish_trim(trim, _trim(trim))

    def _finish(self, queue: _Queue, group: list[tuple[Persist, Done]], error: StorageError | None) -> None:
        def tell() -> None:
            for _, done in group:
                done(error)

        # Posted before the queue may be taken up again: completions keep the order of the writes.
        self._post(tell)
        with self._changed:
            if error is not None and queue.error is None:
                queue.error = error
            if queue.waiting:
                self._ready.append(queue)
            else:
                queue.busy = False
                if error is None and queue.store not in self._trims:
                    self._trims.append(queue.store)
            self._changed.notify_all()

    def _finish_trim(self, store: LogStore, more: bool) -> None:
        with self._changed:
            self._trimming = False
            if more and id(store) in self._queues:
                self._trims.append(store)
            self._changed.notify_all()


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
