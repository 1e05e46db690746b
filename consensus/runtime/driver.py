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
from functools import partial

from quorate.consensus.batch.header import HEADER_BYTES, max_timestamp
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
    ReplicaId,
    Role,
    RoleChange,
)
from quorate.consensus.core.types import NO_REPLICA, node_of
from quorate.consensus.runtime.applying import Applier, pack_state
from quorate.consensus.runtime.counters import Counters
from quorate.consensus.runtime.errors import (
    NotLeading,
    OperationFailed,
    ReplicaStopped,
    Uncertain,
)
from quorate.consensus.runtime.feeding import Feeder
from quorate.consensus.runtime.group import Group, Write
from quorate.consensus.runtime.pacing import Allowance
from quorate.consensus.runtime.proposals import Proposal
from quorate.consensus.runtime.settings import RuntimeSettings
from quorate.consensus.runtime.writing import Writes
from quorate.consensus.storage.api import StorageError
from quorate.consensus.storage.writer import WriterPool
from quorate.consensus.transport import Network

_log = logging.getLogger(__name__)
_LATE_MS = 20
_GRAIN_MS = 20
_CALM_S = 0.0002
_WHOLE_TAIL = 1 << 62

OnStopped = Callable[[GroupId, str], None]


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
        self._feeder = Feeder(settings, self.counters)
        self._learners = Allowance(settings.learner_bytes_per_s)
        self._writes = Writes(pool, settings, self.counters, self._durable, self._fail, self._have_turn)
        self._turn_at = 0.0
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._armed: Millis = Millis(0)
        # Nodes on one machine share its clock: they should not all wake, and campaign, at the same moment.
        self._phase_ms = _GRAIN_MS + node.node * 5 % _GRAIN_MS
        self._closed = False

    # Life.

    def now(self) -> Millis:
        """Raft's time: monotonic, in milliseconds."""
        return Millis(int(self._loop.time() * 1000))

    def add(self, group: Group) -> None:
        """Run a replica from now on."""
        group.written = partial(self._writes.finished, group)
        self.groups[group.raft.group] = group
        self.node.add(group.raft)
        self._applier.pump(group)
        self.wake()

    def remove(self, group: Group) -> None:
        """Let a replica go. What waits for it is told; its store is the caller's to close."""
        self.node.remove(group.raft.group)
        del self.groups[group.raft.group]
        self._lay_off(group, ReplicaStopped("the replica was removed from its node"))
        self._tell_watcher(group, RoleChange(Role.STOPPED, group.raft.term, NO_REPLICA))
        group.writes.clear()

    def close(self) -> None:
        """No more turns."""
        self._closed = True
        self._writes.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for group in self.groups.values():
            self._lay_off(group, ReplicaStopped("the node is shutting down"))
            self._tell_watcher(group, RoleChange(Role.STOPPED, group.raft.term, NO_REPLICA))

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
        if self._scheduled and time.perf_counter() - self._turn_at > _CALM_S:
            self._have_turn()

    def wake(self) -> None:
        """Have a turn soon, after everything that is ready to be read was read."""
        if not self._scheduled and not self._closed:
            self._scheduled = True
            self._loop.call_soon(self._have_turn)

    def submit(self, group: Group, proposal: Proposal) -> None:
        """Propose a batch, or queue it. Raises OperationFailed; then nothing happened and `done` is never called."""
        self._feeder.submit(group, proposal)
        if not self._scheduled:
            self.wake()

    # A turn.

    def _have_turn(self) -> None:
        if self._closed or not self._scheduled:
            return
        self._scheduled = False
        self._turn_at = time.perf_counter()
        self._feeder.turn += 1
        self.counters.turns += 1
        self.node.tick(self.now())
        self._feeder.feed()
        groups, beats = self.node.take()
        # Beats first: nobody should be thought dead because its beats stood behind large batches.
        for beat in beats:
            self._outbox.setdefault(beat.to, []).insert(0, beat)
        for raft, effects in groups:
            group = self.groups.get(raft.group)
            if group is not None:
                self._carry_out(group, effects)
        sent = bool(self._outbox)
        if sent:
            self._flush()
        self._writes.end_turn(sent=sent)
        self._arm()
        if self._feeder.eager():
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
            self._scheduled = True
            self._have_turn()

    def _carry_out(self, group: Group, effects: Effects) -> None:
        if effects.send:
            self._send(effects.send)
        if effects.persist is not None:
            if effects.persist.snapshot is not None:
                self._applier.install(group, effects.persist.snapshot)
            self._writes.begin(group, effects.persist, effects.send_after_sync)
        elif effects.send_after_sync:
            # They promise nothing new, but may not overtake what was promised before.
            if group.writes:
                group.writes[-1].after.extend(effects.send_after_sync)
            else:
                self._send(effects.send_after_sync)
        if effects.commit is not None and group.proposals.placed:
            self._decide(group, effects.commit)
        if effects.commit is not None and group.watcher is not None:
            group.watcher.committed(effects.commit)
        if effects.reads:
            for read, offset in effects.reads:
                self._applier.read(group, offset, group.reads.pop(read))
        for read in effects.failed_reads:
            group.reads.pop(read)(NotLeading(group.raft.leader))
        if effects.role is not None:
            self._role_changed(group, effects.role)
        if effects.apply is not None:
            group.apply_to = effects.apply[1]
            self._applier.pump(group)
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

    # Outcomes of writes.

    def _durable(self, group: Group, write: Write) -> None:
        if write.after:
            self._send(write.after)
            if self._writes.here:
                # Somebody waits for this answer, and nothing can join it: it leaves before the core thinks on.
                self._flush()
        group.raft.persisted(write.persist.token)
        if group.proposals.local and group.leads:
            for proposal in group.proposals.stored(group.raft, group.raft.log.stable):
                if proposal.on_local is not None:
                    proposal.on_local(proposal.proposed())
        if not self._scheduled:
            self.wake()

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
        self._tell_watcher(group, change)
        watchers, group.watchers = group.watchers, []
        for watcher in watchers:
            if not watcher.done():
                watcher.set_result(None)

    def _tell_watcher(self, group: Group, change: RoleChange) -> None:
        if group.watcher is not None:
            group.watcher.role_changed(change, group.raft.term_start)

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
        self._feeder.forget(group)
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
            return self._hand_over(group, to, ())
        batches = reading.result()
        if to in group.raft.configuration.learners:
            wait_s = self._learners.wait_s(sum([batch.size for batch in batches]), self._loop.time())
            if wait_s > 0:
                self._loop.call_later(wait_s, self._hand_over, group, to, batches)
                return None
        return self._hand_over(group, to, batches)

    def _hand_over(self, group: Group, to: ReplicaId, batches: tuple[Batch, ...]) -> None:
        group.raft.supply(to, batches)
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
