"""`Partition`: one replica of a queue's partition, as the listeners use it. It is its group's state machine and watcher.

Appends, roles and housekeeping are here; reading is in `reading`, producers in `producers`, staging in `staging`, replicated
state in `state`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Self

from quorate.broker.partition.producers import InFlight, Producers
from quorate.broker.partition.settings import PartitionSettings
from quorate.broker.partition.staging import Staging
from quorate.broker.partition.state import Kept, PartitionState, log_start_batch
from quorate.broker.partition.values import Appended, KafkaFailure, failure_of, refusal_of
from quorate.broker.protocol.kafka.errors import Error
from quorate.consensus.batch.errors import BadBatch
from quorate.consensus.batch.header import NO_PRODUCER, TRANSACTIONAL, Header, base_offset
from quorate.consensus.batch.validate import validate
from quorate.consensus.clock.kernel import SystemTime, TimeSource
from quorate.consensus.core import Batch, GroupId, Millis, Offset, ReplicaId, Role, RoleChange
from quorate.consensus.runtime import MultiRaft, OperationFailed, Outcome, Proposed
from quorate.consensus.storage.api import LogStore, StorageError
from quorate.consensus.storage.retention import Retention, new_start

_log = logging.getLogger(__name__)

AppendDone = Callable[[Appended | KafkaFailure], None]
ALL, LEADER, NONE = -1, 1, 0
"""What `acks` may be: a majority's disks, this leader's disk only, nobody's. The last two may lose what they confirm."""
_EARLY = 1_000
"""So many appends of idempotent producers may wait for a new leader to know its log; more are sent away."""


class Partition(Staging):
    """One replica. Everything happens on the event loop's thread. Make one with `open`.

    A leader that was cut off learns that it no longer leads within an election timeout (check-quorum). Until then it goes
    on serving what was committed before, as if that were all: reads may be stale for so long, never wrong.
    """

    def __init__(
        self,
        runtime: MultiRaft,
        group: GroupId,
        store: LogStore,
        settings: PartitionSettings | None = None,
        time: TimeSource | None = None,
    ) -> None:
        settings, time = settings or PartitionSettings(), time or SystemTime()
        super().__init__(runtime, group, store, settings, time)
        self._producers = Producers(self.state)
        self._early: list[tuple[memoryview | bytearray, Header, int, AppendDone]] = []
        self._unsaved = 0
        """Batches applied since the state was stored."""
        self._compacted_for = 0
        """The log start that the store was last compacted for."""
        self._housekeeping = False

    @classmethod
    async def open(
        cls,
        runtime: MultiRaft,
        group: GroupId,
        replica: ReplicaId,
        store: LogStore,
        settings: PartitionSettings | None = None,
        time: TimeSource | None = None,
    ) -> Self:
        """Run a replica on its store, which belongs to the runtime from now on. Raises StorageError, ValueError."""
        partition = cls(runtime, group, store, settings, time)
        await runtime.add_group(group, replica, store, partition, watcher=partition)
        return partition

    # Appending.

    def append(self, data: memoryview | bytearray, acks: int, done: AppendDone) -> None:
        """Append exactly one batch. `data` is patched in place, never copied, and belongs to the partition from now on
        (a read-only view is copied once). Raises KafkaFailure, and then `done` is not called; else it is called once.

        acks -1: when it is committed. 1: when this leader's disk has it; it may be lost with this leader. 0: at once.
        """
        if not self.leads:
            raise self._not_leading()
        if len(data) > self.settings.max_message_bytes:
            raise KafkaFailure(
                Error.MESSAGE_TOO_LARGE, f"{len(data)} bytes, and {self.settings.max_message_bytes} are the most"
            )
        try:
            header = validate(data)
        except BadBatch as error:
            raise refusal_of(error) from error
        if header.attributes & TRANSACTIONAL:
            raise KafkaFailure(Error.INVALID_TXN_STATE, "there are no transactions here")
        if type(data) is memoryview and data.readonly:
            data = bytearray(data)
        if header.producer_id == NO_PRODUCER:
            self._submit(data, header, acks, done)
        elif self._applied >= self._term_start:
            self._append_once(data, header, acks, done)
        elif len(self._early) < _EARLY:
            self._early.append((data, header, acks, done))
        else:
            failure = self._not_leading()
            self._producers.refused(header.producer_id, header.producer_epoch, header.base_sequence, failure.error)
            raise failure

    def _append_once(self, data: memoryview | bytearray, header: Header, acks: int, done: AppendDone) -> None:
        """Append a batch of an idempotent producer, unless it was appended before. Raises KafkaFailure."""
        if self.state.stages.open or self._staging:
            self._refuse_stager(header.producer_id)
        known = self._producers.judge(header)
        if known is None:
            self._submit(data, header, acks, done)
        elif isinstance(known, Kept):
            done(Appended(known.base, known.stamp, self.log_start, self.term))
        elif acks == NONE:
            done(self._unplaced())
        else:
            # A retry of what is on its way has the outcome of that.
            known.settled.append(partial(self._answer, done))

    def _submit(
        self,
        data: memoryview | bytearray,
        header: Header,
        acks: int,
        done: AppendDone,
    ) -> None:
        settled: Callable[[Outcome], None]
        on_local = None
        if acks == ALL:
            settled = partial(self._answer, done)
        elif acks == LEADER:
            settled = on_local = _once(partial(self._answer, done))
        else:
            settled = _ignore
        entry: InFlight | None = None
        if header.producer_id != NO_PRODUCER:
            entry = self._producers.appended(header, settled)
            settled = partial(self._producers.decided, entry)
        try:
            self._runtime.submit(self._group, data, header.records, settled, on_local)
        except OperationFailed as error:
            if entry is not None:
                self._producers.forget(entry)
                self._producers.failed(entry, error)
            raise failure_of(error) from error
        if acks == NONE:
            done(self._unplaced())

    def _answer(self, done: AppendDone, outcome: Outcome) -> None:
        if type(outcome) is Proposed:
            done(Appended(outcome.offset, outcome.timestamp, self.state.log_start, outcome.term))
        elif isinstance(outcome, OperationFailed):
            done(failure_of(outcome))

    def _unplaced(self) -> Appended:
        return Appended(-1, -1, self.log_start, self.term)

    def _serve_early(self) -> None:
        if self.leads and self._applied < self._term_start:
            return
        early, self._early = self._early, []
        for data, header, acks, done in early:
            try:
                if not self.leads:
                    raise self._not_leading()
                self._append_once(data, header, acks, done)
            except KafkaFailure as failure:
                done(failure)

    # What the runtime tells.

    def apply(self, batches: Sequence[Batch]) -> None:
        """Committed batches that are durable here."""
        appended = self.state.apply(batches, self.settings.producer_expiry_ms)
        self._applied = batches[-1].last
        self._unsaved += len(batches)
        if appended:
            self._producers.applied(appended)
        self._appliers.reached(self._applied)
        if self._staging:
            self._staged_applied()
        if self._early and self._applied >= self._term_start:
            self._serve_early()

    def save(self) -> bytes:
        """The replicated state."""
        self._unsaved = 0
        return self.state.save()

    def load(self, offset: Offset, state: bytes) -> None:
        """Start over from a state that reaches up to `offset`."""
        self.state = PartitionState.load(state)
        self._producers.replaced(self.state, offset)
        self._applied = offset
        self._staged_applied()
        self._appliers.reached(offset)

    def committed(self, commit: Offset) -> None:
        """Consumers see a batch as soon as it is committed, though this disk may not have it yet."""
        self._commit = commit
        if self._pollers:
            self._pollers.reached(commit)

    def role_changed(self, change: RoleChange, term_start: Offset) -> None:
        """Lead, or stop leading."""
        self.leads = change.role is Role.LEADER
        self.term = change.term
        self._term_start = term_start
        if not self.leads:
            self._pollers.all()
            self._producers.deposed()
            if change.role is Role.STOPPED:
                self._stopped = True
                self._appliers.all()
        if self._early and not self.leads:
            asyncio.get_running_loop().call_soon(self._serve_early)

    # Deleting.

    async def delete_before(self, offset: int) -> int:
        """Move the log's start to `offset`, -1: to the high watermark. Returns the new start. Raises KafkaFailure."""
        self._require_current(-1)
        end = self.high_watermark
        if offset == -1:
            offset = end
        if not 0 <= offset <= end:
            raise KafkaFailure(Error.OFFSET_OUT_OF_RANGE, f"{offset} is not in {self.log_start}..{end}")
        if offset > self.log_start:
            await self._move_start(offset)
        return self.log_start

    async def _move_start(self, offset: int) -> None:
        """Replicated, as a batch in the log: a start that only this replica knew would go back with the next leader."""
        try:
            proposed = await self._runtime.propose(self._group, log_start_batch(offset), 1)
        except OperationFailed as error:
            raise failure_of(error) from error
        await self._until_applied(proposed.offset)

    # Housekeeping.

    async def housekeep(self) -> None:
        """What has to be done now and then, by whoever runs the node's partitions: retention, compaction, a snapshot.

        The leader decides what is too old and replicates that, so that no client sees a log start go back after a change of
        leader. Each replica then frees its own disk, where batches end. Blocking parts run on the reader threads.
        """
        if self._housekeeping or self._stopped:
            return
        self._housekeeping = True
        try:
            if self.leads and self._commit >= self._term_start:
                await self._retain()
            if self.state.log_start > self._compacted_for:
                await self._compact()
            elif self._unsaved >= self.settings.snapshot_batches:
                await self._runtime.compact(self._group, Offset(-1))
        except (OperationFailed, KafkaFailure) as error:
            _log.info("group %s: housekeeping is put off: %s", self._group, error)
        except StorageError as error:
            _log.error("group %s: housekeeping failed: %s", self._group, error)
        finally:
            self._housekeeping = False

    async def _retain(self) -> None:
        settings, state = self.settings, self.state
        if state.log_start >= state.data_end or settings.retention_ms is settings.retention_bytes is None:
            # Without records above the start, control batches alone would be deleted by ever new ones.
            return
        retention = Retention(max_age_ms=settings.retention_ms, max_bytes=settings.retention_bytes)
        keep = await self._runtime.in_reader(_worth_deleting, self._store, retention, self._time.now(), self._applied)
        if keep + 1 > self.state.log_start:
            await self._move_start(keep + 1)

    async def _compact(self) -> None:
        """Free the disk up to the batch that holds the log's start; but not what is staged and may yet be published."""
        start, pin = self.state.log_start, self.state.stages.pin
        covering = await self._runtime.in_reader(self._store.fetch, Offset(start), 0, self._applied)
        if covering:
            end = base_offset(covering[0]) - 1
            if pin is not None and pin <= end:
                end, start = pin - 1, self._compacted_for  # the rest another time
            if end > self._store.start:
                await self._runtime.compact(self._group, Offset(end))
        self._compacted_for = start


def _worth_deleting(store: LogStore, retention: Retention, now: Millis, applied: Offset) -> Offset:
    """Up to where the log may be forgotten; its start, if no more than batches without a time would go: a batch that says
    so would take their place."""
    keep = new_start(store, retention, now, applied)
    first = store.find_time(Millis(0))
    return keep if first is not None and first[0] <= keep else store.start


def _once(answer: Callable[[Outcome], None]) -> Callable[[Outcome], None]:
    """The answer to acks=1: the leader's disk or the final outcome, whichever is known first."""
    answered = False

    def tell(outcome: Outcome) -> None:
        nonlocal answered
        if not answered:
            answered = True
            answer(outcome)

    return tell


def _ignore(outcome: Outcome) -> None:
    """Nobody waits."""
