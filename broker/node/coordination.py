"""Runs the coordinator of one `@groups` partition on its replica: feeds it the log, the time and its role, and carries its
effects out. The decisions are all in `broker.groups`."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from quorate.broker.groups.coordinator import Coordinator, Standing
from quorate.broker.groups.effects import Append, Confirm, Done, Report
from quorate.broker.groups.errors import Failure
from quorate.broker.groups.logs import Logs
from quorate.broker.groups.records import build_batch
from quorate.broker.groups.requests import Identity, JoinRequest, Leaver, OffsetToCommit, SyncRequest
from quorate.broker.groups.settings import GroupSettings
from quorate.broker.groups.state import GroupsState
from quorate.consensus.batch.header import record_count
from quorate.consensus.core import Batch, GroupId, Millis, Offset, Role, RoleChange
from quorate.consensus.runtime import BadInput, MultiRaft, NotLeading, OperationFailed, Outcome

_TOO_LARGE_BYTES = 64 << 20


class Coordination:
    """One replica of a `@groups` partition. Fits `StateMachine` and `Watcher` of the runtime.

    The coordinator serves from the moment at which this leader's state has applied its term's no-op: by then it holds
    everything that an earlier leader may have acknowledged.
    """

    def __init__(
        self, runtime: MultiRaft, group: GroupId, logs: Logs | None = None, settings: GroupSettings | None = None
    ) -> None:
        self._runtime = runtime
        self._group = group
        self._loop = asyncio.get_running_loop()
        self._state = GroupsState()
        self.coordinator = Coordinator(self._state, lambda: uuid.uuid4().hex, settings or GroupSettings(), logs)
        self._timer: asyncio.TimerHandle | None = None
        self._serves_from: Offset | None = None
        """This replica leads, and serves once the state has come to this offset."""
        self._confirming: set[asyncio.Task[None]] = set()

    @property
    def now(self) -> Millis:
        """The coordinator's time: monotonic, in milliseconds."""
        return Millis(int(self._loop.time() * 1000))

    @property
    def serves(self) -> bool:
        """Whether this replica coordinates its groups now."""
        return self.coordinator.standing is Standing.SERVING

    # Requests: the coordinator's own, with their time and their effects seen to. Fits `Groups` of the Kafka listener.

    def join(self, request: JoinRequest, done: Done) -> None:
        self.coordinator.join(self.now, request, done)
        self.settle()

    def sync(self, request: SyncRequest, done: Done) -> None:
        self.coordinator.sync(self.now, request, done)
        self.settle()

    def heartbeat(self, group_id: str, member: Identity, done: Done) -> None:
        self.coordinator.heartbeat(self.now, group_id, member, done)
        self.settle()

    def leave(self, group_id: str, leavers: Sequence[Leaver], done: Done, *, batched: bool) -> None:
        self.coordinator.leave(self.now, group_id, leavers, done, batched=batched)
        self.settle()

    def commit_offsets(
        self, group_id: str, member: Identity, queues: Mapping[str, Sequence[OffsetToCommit]], done: Done
    ) -> None:
        self.coordinator.commit_offsets(self.now, group_id, member, queues, done)
        self.settle()

    def fetch_offsets(self, group_id: str, queues: Mapping[str, Sequence[int]] | None, done: Done) -> None:
        self.coordinator.fetch_offsets(self.now, group_id, queues, done)
        self.settle()

    def delete_offsets(self, group_id: str, queues: Mapping[str, Sequence[int]], done: Done) -> None:
        self.coordinator.delete_offsets(self.now, group_id, queues, done)
        self.settle()

    def list_groups(self, states: Collection[str], done: Done) -> None:
        self.coordinator.list_groups(self.now, states, done)
        self.settle()

    def describe_group(self, group_id: str, done: Done) -> None:
        self.coordinator.describe_group(self.now, group_id, done)
        self.settle()

    def delete_group(self, group_id: str, done: Done) -> None:
        self.coordinator.delete_group(self.now, group_id, done)
        self.settle()

    def forget_queue(self, queue: str) -> None:
        self.coordinator.forget_queue(self.now, queue)
        self.settle()

    def expire_offsets(self, wall_ms: int) -> None:
        self.coordinator.expire_offsets(self.now, wall_ms)
        self.settle()

    # The state machine.

    def apply(self, batches: Sequence[Batch]) -> None:
        self._state.apply(batches)
        self.coordinator.applied(self.now)
        self._maybe_serve()
        self.settle()

    def save(self) -> bytes:
        return self._state.save()

    def load(self, offset: Offset, state: bytes) -> None:
        self._state.load(offset, state)

    # The watcher.

    def committed(self, commit: Offset) -> None:
        """What is committed counts here when it is applied."""

    def role_changed(self, change: RoleChange, term_start: Offset) -> None:
        if change.role is Role.LEADER:
            self._serves_from = term_start
            self.coordinator.loading()
            self._maybe_serve()
        else:
            self._serves_from = None
            self.coordinator.deposed()
        self.settle()

    def _maybe_serve(self) -> None:
        if self._serves_from is not None and self._state.applied >= self._serves_from:
            self._serves_from = None
            self.coordinator.elected(self.now)

    # Effects.

    def settle(self) -> None:
        """Carry out what the coordinator wants, and be there at its next deadline. Call it after every request."""
        while effects := self.coordinator.take():
            for append in effects.appends:
                self._append(append)
            for confirm in effects.confirms:
                self._confirm(confirm)
            for done, response in effects.answers:
                done(response)
        self._arm()

    def _append(self, append: Append) -> None:
        # The log's own time replaces this one when the batch is appended.
        data = build_batch(append.records, int(time.time() * 1000))
        if len(data) > _TOO_LARGE_BYTES:
            return append.done(Failure.TOO_LARGE, self.now)
        count = record_count(data)
        try:
            self._runtime.submit(self._group, data, count, partial(self._appended, append.done, count))
        except OperationFailed as error:
            append.done(_failure(error), self.now)
        return None

    def _appended(self, done: Report, count: int, outcome: Outcome) -> None:
        if isinstance(outcome, OperationFailed):
            done(_failure(outcome), self.now)
        else:
            done(Offset(outcome.offset + count - 1), self.now)
        # Not from here: this may be in the middle of a call of the coordinator's.
        self._loop.call_soon(self.settle)

    def _confirm(self, confirm: Confirm) -> None:
        task = self._loop.create_task(self._read_index(confirm))
        self._confirming.add(task)
        task.add_done_callback(self._confirming.discard)

    async def _read_index(self, confirm: Confirm) -> None:
        try:
            outcome: Offset | Failure = await self._runtime.read_index(self._group)
        except OperationFailed as error:
            outcome = _failure(error)
        confirm.done(outcome, self.now)
        self.settle()

    # Time.

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        deadline = self.coordinator.next_deadline()
        # "Never" is a very large number, and a timer so far away is none.
        self._timer = self._loop.call_at(deadline / 1000, self._due) if deadline - self.now < 1 << 40 else None

    def _due(self) -> None:
        self._timer = None
        self.coordinator.tick(self.now)
        self.settle()

    def close(self) -> None:
        """Let go. Whoever still waits is told that the coordinator has moved."""
        self._serves_from = None
        self.coordinator.deposed()
        self.settle()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _failure(error: OperationFailed) -> Failure:
    if not error.definite:
        return Failure.UNCERTAIN
    if isinstance(error, NotLeading):
        return Failure.NOT_LEADER
    return Failure.TOO_LARGE if isinstance(error, BadInput) else Failure.REFUSED
