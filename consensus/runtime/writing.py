"""From the core onto the disk: writes in order, retried while the disk is full, given up when it fails.

A write that is alone and small is carried out on the loop's own thread, where no change of thread delays it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from itertools import islice

from quorate.consensus.core import Message, Persist, Role
from quorate.consensus.runtime.counters import Counters
from quorate.consensus.runtime.errors import NoRoom
from quorate.consensus.runtime.group import Group, Write
from quorate.consensus.runtime.patience import Patience
from quorate.consensus.runtime.settings import RuntimeSettings
from quorate.consensus.storage.api import StorageError, StorageFull
from quorate.consensus.storage.writer import WriterPool

_log = logging.getLogger(__name__)


class Writes:
    """The writes of all groups of a node. `on_durable(group, write)` and `on_failed(group, reason)` are told the outcome,
    and `on_lone()` when a write was carried out here: what follows from it need not wait for another turn."""

    def __init__(
        self,
        pool: WriterPool,
        settings: RuntimeSettings,
        counters: Counters,
        on_durable: Callable[[Group, Write], None],
        on_failed: Callable[[Group, str], None],
        on_lone: Callable[[], None],
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._counters = counters
        self._on_durable = on_durable
        self._on_failed = on_failed
        self._on_lone = on_lone
        self._loop = asyncio.get_running_loop()
        self._patience = Patience(self._loop)
        self._under_way = 0
        """How many writes of all groups are not finished."""
        self._lone: tuple[Group, Persist] | None = None
        """The only write under way: it may be carried out here."""
        self.here = False
        """A write is being carried out on this thread, alone."""
        self._closed = False

    def close(self) -> None:
        """Begin no more writes; what the pool has, it finishes."""
        self._closed = True
        self._lone = None

    def begin(self, group: Group, persist: Persist, after: list[Message]) -> None:
        """Write `persist` after everything before it; `after` may be sent when it is durable."""
        group.writes.append(Write(persist, after))
        self._counters.writes += 1
        if not group.full:
            self._submit(group, persist)

    def end_turn(self, *, sent: bool) -> None:
        """Everything of this turn was begun. If something was also sent, it leaves before the disk is waited for."""
        if self._lone is None:
            return
        if sent:
            self._loop.call_soon(self._write_lone)
        else:
            self._write_lone()

    def finished(self, group: Group, error: StorageError | None) -> None:
        """A write of this group came back; they come in order."""
        group.submitted -= 1
        self._under_way -= 1
        if self._closed or group.raft.role is Role.STOPPED or not group.writes:
            return None
        if isinstance(error, StorageFull):
            return self._no_room(group, error)
        if error is not None:
            return self._on_failed(group, f"a write failed: {error}")
        write = group.writes.popleft()
        if group.full:
            group.full = False
            _log.warning("group %s: there is room on the disk again", group.raft.group)
            for waiting in list(islice(group.writes, group.submitted, None)):
                self._submit(group, waiting.persist)
        self._on_durable(group, write)
        return None

    def _submit(self, group: Group, persist: Persist) -> None:
        group.submitted += 1
        self._under_way += 1
        if self._under_way == 1 and self._may_write_here(persist):
            self._lone = (group, persist)
            return
        if self._lone is not None:
            # It is not alone any more. It was taken first, and it stays first.
            self._hand_to_pool(*self._lone)
            self._lone = None
        self._hand_to_pool(group, persist)

    def _may_write_here(self, persist: Persist) -> bool:
        if persist.snapshot is not None or not self._patience.left():
            return False
        return sum([len(batch.data) for batch in persist.batches]) <= self._settings.write_here_bytes

    def _hand_to_pool(self, group: Group, persist: Persist) -> None:
        self._pool.submit(group.store, persist, group.written)

    def _write_lone(self) -> None:
        if self._lone is None:
            return
        group, persist = self._lone
        self._lone = None
        begin = time.perf_counter()
        self.here = True
        carried_out = self._pool.write_here(group.store, persist, group.written)
        self.here = False
        if not carried_out:
            self._hand_to_pool(group, persist)
        self._patience.spent(time.perf_counter() - begin)
        self._on_lone()

    def _no_room(self, group: Group, error: StorageFull) -> None:
        """The disk is full. The log in memory is ahead of it, so the writes are tried again until they succeed."""
        if not group.full:
            group.full = True
            self._counters.disk_full += 1
            _log.error("group %s: %s; proposals are refused until there is room", group.raft.group, error)
            for proposal in group.proposals.drop_queue():
                proposal.done(NoRoom(str(error)))
        if group.submitted == 0:
            self._loop.call_later(self._settings.full_retry_ms / 1000, self._write_again, group)

    def _write_again(self, group: Group) -> None:
        if self._closed or group.raft.role is Role.STOPPED:
            return
        self._pool.resume(group.store)
        for write in list(group.writes):
            self._submit(group, write.persist)
