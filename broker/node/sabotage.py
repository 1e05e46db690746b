"""Bugs on purpose: nodes that break one promise each, to prove that `quorate chaos` notices.

Each is a subclass that is put in place of the real part (`Parts`), so that the real code has no switch for it. Only
`under_test` imports this module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from quorate.broker.groups.effects import Append
from quorate.broker.groups.records import build_batch, decode_change
from quorate.broker.groups.values import OffsetCommitted
from quorate.broker.node.coordination import Coordination
from quorate.broker.node.parts import Parts
from quorate.broker.partition.partition import ALL, LEADER, AppendDone, Partition
from quorate.broker.partition.producers import InFlight, Producers
from quorate.broker.partition.settings import PartitionSettings
from quorate.broker.partition.state import Kept
from quorate.broker.partition.values import ListedOffset
from quorate.consensus.batch.header import Header
from quorate.consensus.clock.kernel import TimeSource
from quorate.consensus.core import Batch, BatchKind, GroupId, Offset, RoleChange, Term
from quorate.consensus.runtime import MultiRaft
from quorate.consensus.storage.api import LogStore
from quorate.consensus.storage.level import LevelLog
from quorate.consensus.storage.plan import Plan

_EVERYTHING = 1 << 62
_SYNC_EVERY_S = 1.0


class SyncsLater(LevelLog):
    """Acknowledges what the operating system has, and syncs now and then. Loses the newest when the power goes.

    Without any sync whole databases would be gone, which no node takes for an empty log: it would not start.
    """

    _synced_s = 0.0

    def _carry_out(self, plan: Plan) -> None:
        plan.sync = time.monotonic() >= self._synced_s + _SYNC_EVERY_S
        super()._carry_out(plan)
        if plan.sync:
            self._synced_s = time.monotonic()


class AcksEarly(Partition):
    """Says `committed` when this leader's own disk has it. Loses it when another leads."""

    def _submit(self, data: memoryview | bytearray, header: Header, acks: int, done: AppendDone) -> None:
        super()._submit(data, header, LEADER if acks == ALL else acks, done)


class ReadsAhead(MultiRaft):
    """Takes the end of this replica's log for what is committed. Readers see what may never have happened."""

    def read_committed(self, group: GroupId, offset: Offset, max_bytes: int) -> tuple[Offset, tuple[Batch, ...] | None]:
        log = self._group(group).raft.log
        if offset > log.last:
            return log.last, ()
        batches = log.slice(offset, max_bytes)
        if batches is None and offset > log.stable:
            unstable = log.slice(Offset(log.stable + 1), _EVERYTHING) or ()
            batches = tuple(batch for batch in unstable if batch.last >= offset)
        return log.last, batches


class WakesReadersEarly(Partition):
    """Beside `ReadsAhead`: readers that wait are woken by an append, not by its commit."""

    def _submit(self, data: memoryview | bytearray, header: Header, acks: int, done: AppendDone) -> None:
        super()._submit(data, header, acks, done)
        self._pollers.reached(self._runtime.status(self._group).last)


class ForgetsOffsets(Coordination):
    """Keeps what consumers commit in this coordinator's memory. The next one has never heard of it."""

    def _append(self, append: Append) -> None:
        now, at = self.now, self._state.applied
        changes = [decode_change(record.key, record.value, now) for record in append.records]
        if not all(isinstance(change, OffsetCommitted) for change in changes):
            return super()._append(append)
        self._state.apply([Batch(at, at, Term(0), BatchKind.DATA, build_batch(append.records, now))])
        return append.done(at, now)


class Trusting(Producers):
    """Takes every batch for a new one."""

    __slots__ = ()

    def judge(self, header: Header) -> InFlight | Kept | None:
        return None


class AppendsTwice(Partition):
    """Idempotent producers are not: a retry whose first try arrived is appended again."""

    def __init__(
        self, runtime: MultiRaft, group: GroupId, store: LogStore, settings: PartitionSettings, time: TimeSource
    ) -> None:
        super().__init__(runtime, group, store, settings, time)
        self._producers = Trusting(self.state)


class OnceALeader(Partition):
    """Whoever has led goes on serving reads as if it did, from what it knows, however old that is."""

    _has_led = False

    def role_changed(self, change: RoleChange, term_start: Offset) -> None:
        super().role_changed(change, term_start)
        self._has_led = self._has_led or self.leads

    def _require_current(self, epoch: int) -> None:
        if not self._has_led:
            super()._require_current(epoch)

    async def _latest(self, epoch: int) -> ListedOffset:
        """Nobody is asked."""
        return ListedOffset(self.high_watermark, -1, self.term)

    def wait(self, offset: int, wake: Callable[[], None]) -> Callable[[], None]:
        if self.leads or not self._has_led:
            return super().wait(offset, wake)
        return self._pollers.add(offset, wake)


MODES: Mapping[str, Parts] = {
    "no-fsync": Parts(open_log=SyncsLater.open),
    "ack-before-commit": Parts(partition=AcksEarly),
    "reads-beyond-commit": Parts(runtime=ReadsAhead, partition=WakesReadersEarly),
    "offsets-in-memory": Parts(coordination=ForgetsOffsets),
    "dedup-off": Parts(partition=AppendsTwice),
    "stale-reads": Parts(partition=OnceALeader),
}
"""By the promise that each breaks."""
