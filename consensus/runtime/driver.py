"""The loop: messages and proposals in, one `take` per turn, and everything that the core wants done carried out.

This is the only place that gives effects to the disk and the network, in the order that `Effects` states. Callers use
`multiraft`; state machines are fed by `applying`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from itertools import islice

from quorate.consensus.batch.header import HEADER_BYTES, max_timestamp
from quorate.consensus.clock.hybrid import ClockUncertain
from quorate.consensus.core import (
    Batch,
    BatchKind,
    Effects,
    GroupId,
    LogRead,
    Message,
    Millis,
    Node,
    NodeId,
    NodeMessage,
    Offset,
    Persist,
    Refused,
    ReplicaId,
    Role,
    RoleChange,
)
from quorate.consensus.core.types import node_of
from quorate.consensus.runtime.applying import Applier, pack_state
from quorate.consensus.runtime.errors import (
    Busy,
    NoRoom,
    NotLeading,
    OperationFailed,
    ReplicaStopped,
    Uncertain,
    UncertainClock,
    translate,
)
from quorate.consensus.runtime.group import Group, Write
from quorate.consensus.runtime.patience import Patience
from quorate.consensus.runtime.proposals import Proposal
from quorate.consensus.runtime.settings import RuntimeSettings
from quorate.consensus.runtime.stamping import stamp_place, stamp_time
from quorate.consensus.storage.api import StorageError, StorageFull
from quorate.consensus.storage.writer import WriterPool
from quorate.consensus.transport import Network

_log = logging.getLogger(__name__)
_LATE_MS = 20
_GRAIN_MS = 8
_CALM_S = 0.0005
_WHOLE_TAIL = 1 << 62

OnStopped = Callable[[GroupId, str], None]


@dataclass(slots=True)
class Counters:
    """What happened since the start, for metrics."""

    turns: int = 0
    messages_in: int = 0
    messages_out: int = 0
    proposals: int = 0
    committed: int = 0
    failed: int = 0
    writes: int = 0
    disk_full: int = 0
    replicas_stopped: int = 0


class Driver:
    """Runs the groups of one node on one event loop. Everything here happens on that loop's thread."""

    def __init__(
        self,
        node: Node,
        network: Network,
        pool: WriterPool,
        readers: Executor,
        settings: RuntimeSettings,
        on_stopped: OnStopped,
    ) -> None:
        self.node = node
        self.network = network
        self.pool = pool
        self.groups: dict[GroupId, Group] = {}
        self.counters = Counters()
        self._readers = readers
        self._settings = settings
        self._on_stopped = on_stopped
        self._applier = Applier(readers, settings.apply_bytes, self._fail)
        self._loop = asyncio.get_running_loop()
        self._outbox: dict[NodeId, list[NodeMessage]] = {}
        self._hungry: dict[GroupId, Group] = {}
        """Groups whose queue is not empty, in the order in which they are served."""
        self._turn = 0
        self._turn_at = 0.0
        self._scheduled = False
        self._writing = 0
        """How many writes the writer pool has."""
        self._lone: tuple[Group, Persist] | None = None
        """The only write of this turn, while the pool has none: it may be carried out here."""
        self._patience = Patience(self._loop)
        self._timer: asyncio.TimerHandle | None = None
        self._armed: Millis = Millis(0)
        # Nodes on one machine share its clock: they should not all wake, and campaign, at the same moment.
        self._phase_ms = _GRAIN_MS + node.node * 3 % _GRAIN_MS
        self._closed = False

    # Life.

    def now(self) -> Millis:
        """Raft's time: monotonic, in milliseconds."""
        return Millis(int(self._loop.time() * 1000))

    def add(self, group: Group) -> None:
        """Run a replica from now on."""
        group.written = partial(self._written, group)
        self.groups[group.raft.group] = group
        self.node.add(group.raft)
        self._applier.pump(group)
        self.wake()

    def remove(self, group: Group) -> None:
        """Let a replica go. What waits for it is told; its store is the caller's to close."""
        self.node.remove(group.raft.group)
        del self.groups[group.raft.group]
        self._lay_off(group, ReplicaStopped("the replica was removed from its node"))
        group.writes.clear()

    def close(self) -> None:
        """No more turns."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for group in self.groups.values():
            self._lay_off(group, ReplicaStopped("the node is shutting down"))

    # Inputs.

    def heard(self, message: NodeMessage) -> None:
        """A message arrived: hear it now, act on it in the next turn."""
        self.counters.messages_in += 1
        self.node.advance(self.now())
        self.node.step(message)
        if not self._scheduled:
            self.wake()

    def peer_changed(self, node: NodeId, up: bool) -> None:
        """The connection with a node was made, or broke."""
        if not up and not self._closed:
            self.node.advance(self.now())
            self.node.lost(node)
            self._arm()

    def drained(self) -> None:
        """What one connection had for us was heard. When little goes on, act on it now instead of in the next turn."""
        if self._scheduled and self._loop.time() - self._turn_at > _CALM_S:
            self._have_turn()

    def wake(self) -> None:
        """Have a turn soon, after everything that is ready to be read was read."""
        if not self._scheduled and not self._closed:
            self._scheduled = True
            self._loop.call_soon(self._have_turn)

    def submit(self, group: Group, proposal: Proposal) -> None:
        """Propose a batch, or queue it. Raises OperationFailed; then nothing happened and `done` is never called."""
        if group.full:
            raise NoRoom("the disk is full")
        proposals = group.proposals
        if not proposals.queue and self._may_place(group, len(proposal.data)):
            self._place(group, proposal)
        else:
            self._enqueue(group, proposal)
        if not self._scheduled:
            self.wake()

    def _enqueue(self, group: Group, proposal: Proposal) -> None:
        raft, proposals, settings = group.raft, group.proposals, self._settings
        if raft.role is not Role.LEADER:
            raise NotLeading(raft.leader)
        size = len(proposal.data)
        if len(proposals.queue) >= settings.queue_batches or (
            proposals.queue and proposals.queued_bytes + size > settings.queue_bytes
        ):
            raise Busy(f"{len(proposals.queue)} proposals of {proposals.queued_bytes} bytes are waiting already")
        proposals.enqueue(proposal)
        self._hungry[raft.group] = group

    def _may_place(self, group: Group, size: int) -> bool:
        """Whether the group may add `size` bytes in this turn: its share of the turn, and its window."""
        settings = self._settings
        if group.turn != self._turn:
            group.turn, group.turn_batches, group.turn_bytes = self._turn, 0, 0
        if group.turn_batches >= settings.turn_batches:
            return False
        if group.turn_bytes and group.turn_bytes + size > settings.turn_bytes:
            return False
        uncommitted = group.raft.uncommitted_bytes
        return not uncommitted or uncommitted + size <= settings.window_bytes

    def _place(self, group: Group, proposal: Proposal) -> None:
        """Give a batch its time and its place in the log. Raises OperationFailed."""
        data, raft = proposal.data, group.raft
        if raft.role is not Role.LEADER:
            raise NotLeading(raft.leader)
        try:
            stamp = group.clock.stamp()
            checksum = stamp_time(data, proposal.count, stamp)
            batch = raft.propose(data, proposal.count)
        except Refused as error:
            raise translate(error) from error
        except ClockUncertain as error:
            raise UncertainClock(str(error)) from error
        stamp_place(data, batch, checksum)
        proposal.stamp = stamp
        proposal.base, proposal.last, proposal.term = batch.base, batch.last, batch.term
        group.proposals.place(proposal)
        group.turn_batches += 1
        group.turn_bytes += len(data)
        self.counters.proposals += 1

    def _feed(self) -> None:
        """Serve the queues: each group its share of this turn, the one that was served first goes last next time."""
        for key, group in list(self._hungry.items()):
            del self._hungry[key]
            proposals = group.proposals
            while proposals.queue and self._may_place(group, len(proposals.queue[0].data)):
                proposal = proposals.dequeue()
                try:
                    self._place(group, proposal)
                except OperationFailed as error:
                    self.counters.failed += 1
                    proposal.done(error)
            if proposals.queue:
                self._hungry[key] = group

    # A turn.

    def _have_turn(self) -> None:
        if self._closed or not self._scheduled:
            return
        self._scheduled = False
        self._turn_at = self._loop.time()
        self._turn += 1
        self.counters.turns += 1
        self.node.tick(self.now())
        if self._hungry:
            self._feed()
        groups, beats = self.node.take()
        for raft, effects in groups:
            group = self.groups.get(raft.group)
            if group is not None:
                self._carry_out(group, effects)
        outbox = self._outbox
        for beat in beats:
            outbox.setdefault(beat.to, []).append(beat)
        if outbox:
            self._flush()
        if self._lone is not None:
            # In the next round of the loop: what was sent in this one leaves before the disk is waited for.
            self._loop.call_soon(self._write_lone)
        self._arm()
        if any(self._may_place(group, len(group.proposals.queue[0].data)) for group in self._hungry.values()):
            self.wake()

    def _flush(self) -> None:
        """All messages of a turn to one node leave in one write."""
        network = self.network
        outbox, self._outbox = self._outbox, {}
        for node, messages in outbox.items():
            self.counters.messages_out += len(messages)
            network.send(node, messages)
        network.end_turn()

    def _arm(self) -> None:
        """Be woken at the next deadline. An earlier alarm that is set already does no harm."""
        # With many groups there is a deadline in every millisecond. They are met together, a little late.
        deadline = Millis(self.node.next_deadline() // _GRAIN_MS * _GRAIN_MS + self._phase_ms)
        if self._timer is not None:
            if self._armed <= deadline:
                return
            self._timer.cancel()
        self._armed = deadline
        self._timer = self._loop.call_at(deadline / 1000, self._alarm)

    def _alarm(self) -> None:
        self._timer = None
        if self.now() - self._armed > _LATE_MS:
            # The process stood still. Let what waits in the sockets be read before anybody concludes that there is silence.
            self._loop.call_soon(self.wake)
        else:
            self.wake()

    def _carry_out(self, group: Group, effects: Effects) -> None:
        if effects.send:
            self._send(effects.send)
        if effects.persist is not None:
            self._persist(group, effects.persist, effects.send_after_sync)
        elif effects.send_after_sync:
            # They promise nothing new, but may not overtake what was promised before.
            if group.writes:
                group.writes[-1].after.extend(effects.send_after_sync)
            else:
                self._send(effects.send_after_sync)
        if effects.commit is not None and group.proposals.placed:
            self._decide(group, effects.commit)
        if effects.role is not None:
            self._role_changed(group, effects.role)
        if effects.apply is not None:
            group.apply_to = effects.apply[1]
            if group.machine is not None:
                self._applier.pump(group)
        if effects.reads:
            for read, offset in effects.reads:
                self._applier.read(group, offset, group.reads.pop(read))
        for read in effects.failed_reads:
            group.reads.pop(read)(NotLeading(group.raft.leader))
        for wanted in effects.log_reads:
            self._read_log(group, wanted)
        for follower in effects.snapshots:
            self._read_state(group, follower)

    def _send(self, messages: list[Message]) -> None:
        outbox = self._outbox
        for message in messages:
            node = node_of(message.to)
            waiting = outbox.get(node)
            if waiting is None:
                outbox[node] = [message]
            else:
                waiting.append(message)

    def _decide(self, group: Group, commit: Offset) -> None:
        """Tell the proposers of everything up to `commit` what became of it."""
        counters = self.counters
        for proposal, outcome in group.proposals.committed(group.raft, commit):
            if isinstance(outcome, OperationFailed):
                counters.failed += 1
            else:
                counters.committed += 1
            proposal.done(outcome)

    # Writes.

    def _persist(self, group: Group, persist: Persist, after: list[Message]) -> None:
        if persist.snapshot is not None and group.machine is not None:
            group.install = persist.snapshot
            self._applier.pump(group)
        group.writes.append(Write(persist, after))
        self.counters.writes += 1
        if not group.full:
            self._submit(group, persist)

    def _submit(self, group: Group, persist: Persist) -> None:
        group.submitted += 1
        self._writing += 1
        if self._writing == 1 and self._may_write_here(persist):
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
        assert group.written is not None
        self.pool.submit(group.store, persist, group.written)

    def _write_lone(self) -> None:
        if self._lone is None:
            return
        group, persist = self._lone
        self._lone = None
        assert group.written is not None
        begin = time.perf_counter()
        if not self.pool.write_here(group.store, persist, group.written):
            self._hand_to_pool(group, persist)
        self._patience.spent(time.perf_counter() - begin)

    def _written(self, group: Group, error: StorageError | None) -> None:
        """A write of this group came back; they come in order."""
        group.submitted -= 1
        self._writing -= 1
        if group.raft.role is Role.STOPPED or self._closed or not group.writes:
            return None
        if isinstance(error, StorageFull):
            return self._no_room(group, error)
        if error is not None:
            return self._fail(group, f"a write failed: {error}")
        persist, after = group.writes.popleft()
        if after:
            self._send(after)
        group.raft.persisted(persist.token)
        if group.full:
            group.full = False
            _log.warning("group %s: there is room on the disk again", group.raft.group)
            for waiting in islice(group.writes, group.submitted, None):
                self._submit(group, waiting.persist)
        if not self._scheduled:
            self.wake()
        return None

    def _no_room(self, group: Group, error: StorageFull) -> None:
        """The disk is full. The log in memory is ahead of it, so the writes are tried again until they succeed."""
        if not group.full:
            group.full = True
            self.counters.disk_full += 1
            _log.error("group %s: %s; proposals are refused until there is room", group.raft.group, error)
            for proposal in group.proposals.drop_queue():
                proposal.done(NoRoom(str(error)))
        if group.submitted == 0:
            self._loop.call_later(self._settings.full_retry_ms / 1000, self._write_again, group)

    def _write_again(self, group: Group) -> None:
        if self._closed or self.groups.get(group.raft.group) is not group or group.raft.role is Role.STOPPED:
            return
        self.pool.resume(group.store)
        for write in list(group.writes):
            self._submit(group, write.persist)

    def _fail(self, group: Group, reason: str) -> None:
        """The replica must take no further part."""
        group.raft.stop(reason)
        group.writes.clear()
        self.wake()

    # Roles.

    def _role_changed(self, group: Group, change: RoleChange) -> None:
        _log.info(
            "group %s: %s in term %s, led by %s", group.raft.group, change.role.value, change.term, change.leader >> 32
        )
        if change.role is Role.LEADER:
            self._take_up(group)
        elif change.role is Role.STOPPED:
            reason = group.raft.stop_reason or "stopped"
            _log.error("group %s: this replica has stopped: %s", group.raft.group, reason)
            self.counters.replicas_stopped += 1
            self._lay_off(group, ReplicaStopped(reason))
            self._on_stopped(group.raft.group, reason)
        else:
            for proposal in group.proposals.drop_queue():
                proposal.done(NotLeading(change.leader))
            if group.proposals.placed and group.uncertain is None:
                patience = self._settings.uncertain_ms / 1000
                group.uncertain = self._loop.call_later(patience, self._give_up, group)
        watchers, group.watchers = group.watchers, []
        for watcher in watchers:
            if not watcher.done():
                watcher.set_result(None)

    def _take_up(self, group: Group) -> None:
        """Lead: log time goes on from the latest stamp in the log, which may not all be on disk yet."""
        if group.uncertain is not None:
            group.uncertain.cancel()
            group.uncertain = None
        for proposal in group.proposals.displaced(group.raft):
            proposal.done(Uncertain("leadership was lost and won again, and the batch was replaced here"))
        log = group.raft.log
        unwritten = log.slice(Offset(log.stable + 1), _WHOLE_TAIL) or ()
        try:
            stored = group.store.last_stamp()
        except StorageError as error:
            return self._fail(group, f"the log's last time cannot be read: {error}")
        group.clock.lead(Millis(max([stored, *map(_stamp_of, unwritten)])))
        return None

    def _give_up(self, group: Group) -> None:
        group.uncertain = None
        if not group.leads:
            for proposal in group.proposals.drop_placed():
                self.counters.failed += 1
                proposal.done(Uncertain("leadership was lost before a majority confirmed it"))

    def _lay_off(self, group: Group, reason: OperationFailed) -> None:
        """Whatever waits for this replica will not be answered by it."""
        if group.uncertain is not None:
            group.uncertain.cancel()
            group.uncertain = None
        self._hungry.pop(group.raft.group, None)
        for proposal in group.proposals.drop_queue():
            proposal.done(reason)
        for proposal in group.proposals.drop_placed():
            proposal.done(Uncertain(str(reason)))
        reads = [*group.reads.values(), *(done for _, done in group.waiting_reads)]
        group.reads.clear()
        group.waiting_reads.clear()
        for done in reads:
            done(reason)

    # Reads for followers that are far behind.

    def _read_log(self, group: Group, wanted: LogRead) -> None:
        reading = self._loop.run_in_executor(self._readers, group.store.read, wanted.first, wanted.max_bytes)
        reading.add_done_callback(partial(self._supply, group, wanted.to))

    def _supply(self, group: Group, to: ReplicaId, reading: asyncio.Future[tuple[Batch, ...]]) -> None:
        if reading.cancelled():
            return
        error = reading.exception()
        if error is not None:
            _log.error("group %s: cannot read the log for %s: %s", group.raft.group, to, error)
        group.raft.supply(to, () if error is not None else reading.result())
        self.wake()

    def _read_state(self, group: Group, to: ReplicaId) -> None:
        reading = self._loop.run_in_executor(self._readers, group.store.load_state)
        reading.add_done_callback(partial(self._send_state, group, to))

    def _send_state(self, group: Group, to: ReplicaId, reading: asyncio.Future[tuple[Offset, bytes]]) -> None:
        if reading.cancelled():
            return
        error = reading.exception()
        if error is not None:
            _log.error("group %s: cannot read the state for %s: %s", group.raft.group, to, error)
            return
        offset, state = reading.result()
        group.raft.send_snapshot(to, state or pack_state(offset, b""))
        self.wake()


def _stamp_of(batch: Batch) -> int:
    return max_timestamp(batch.data) if batch.kind is BatchKind.DATA and len(batch.data) >= HEADER_BYTES else -1
