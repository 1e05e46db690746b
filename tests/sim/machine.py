"""A node's process and its disks: the driver that carries effects out, and everything that can go wrong around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.consensus.core import (
    Batch,
    Effects,
    GroupId,
    LogRead,
    Millis,
    Node,
    NodeId,
    NodeMessage,
    Offset,
    Raft,
    Refused,
    ReplicaId,
    Restored,
    Role,
    node_of,
    show_replica,
)
from quorate.consensus.core.messages import Message, VoteRequest
from quorate.consensus.core.types import NO_OFFSET, NO_REPLICA
from tests.sim.oracle import Oracle, Violation, decode_state, encode_state, state_after
from tests.support.disk import Disk

if TYPE_CHECKING:
    from tests.sim.world import World


class Host:
    """One replica on one machine. Its disk outlives every crash; the rest does not."""

    def __init__(self, oracle: Oracle, replica: ReplicaId, restored: Restored) -> None:
        self.oracle = oracle
        self.replica = replica
        self.disk = Disk(restored)
        self.raft: Raft | None = None
        self.life = 0
        """Rises with every crash: what was begun in an earlier life never completes."""
        self.slow_until = 0
        self.fails_next = False
        self._forget()

    def __str__(self) -> str:
        return f"group {self.oracle.group} replica {show_replica(self.replica)}"

    def _forget(self) -> None:
        self.unsent: list[list[Message]] = []
        """For each pending write, what leaves once it is durable."""
        self.proposals: dict[Offset, Batch] = {}
        self.floors: dict[int, Offset] = {}
        """For each read in progress, what was committed when it was asked for."""
        self.commit: Offset = NO_OFFSET
        self.state_offset, self.state = decode_state(self.disk.durable.state)
        self.states: dict[Offset, int] = {self.state_offset: self.state}
        self.believed = (0, NO_REPLICA)

    def start(self, raft: Raft) -> None:
        """The process is up again, with what the disk kept."""
        self.life += 1
        self._forget()
        self.raft = raft
        self.commit = raft.log.commit

    def crash(self, keep: int) -> None:
        """The process is gone, and with it all but `keep` of the writes that were not synced."""
        self.life += 1
        self.raft = None
        self.fails_next = False
        self.disk.crash(min(keep, len(self.disk.pending)))

    def leads(self) -> bool:
        """Whether this replica believes that it leads."""
        return self.raft is not None and self.raft.role is Role.LEADER


class Machine:
    """One node: a process that is up or down, running or paused, with a clock of its own."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = NodeId(number)
        self.hosts: dict[GroupId, Host] = {}
        self.node: Node | None = None
        self.boot = 0
        self.paused_until = 0
        self.clock_ahead = 0
        self.failed_writes = 0
        self._timer_at = -1
        self._turn_due = False

    def __str__(self) -> str:
        return f"node {self.number}"

    # The process.

    def start(self) -> None:
        """Start the process on whatever the disks hold."""
        self.boot += 1
        self.paused_until = 0
        self._timer_at = -1
        settings = self.world.plan.settings
        self.node = Node(self.number, boot=self.boot, beat_ms=settings.heartbeat_ms, now=self.local_time())
        for group, host in self.hosts.items():
            self._start_host(self.node, group, host)
        self._turn_due = False
        self.turn()

    def _start_host(self, node: Node, group: GroupId, host: Host) -> None:
        world = self.world
        raft = world.raft_class(
            group, host.replica, host.disk.restored(), world.plan.settings, world.random, clock=node.clock
        )
        host.start(node.add(raft))

    def crash(self) -> None:
        """Kill the process. Of the writes that were not synced, each disk keeps some, in order."""
        self.node = None
        for host in self.hosts.values():
            host.crash(self.world.random.randrange(len(host.disk.pending) + 1))

    def host(self, oracle: Oracle, replica: ReplicaId, restored: Restored) -> Host:
        """Put a new, empty replica here, in place of the one of its group that was here before."""
        old = self.hosts.get(oracle.group)
        if old is not None:
            oracle.hosts.pop(old.replica, None)
            old.life += 1
            if self.node is not None:
                self.node.remove(oracle.group)
        host = self.hosts[oracle.group] = oracle.hosts[replica] = Host(oracle, replica, restored)
        if self.node is not None:
            self._start_host(self.node, oracle.group, host)
            self.soon()
        return host

    def local_time(self) -> Millis:
        return Millis(self.world.now + self.clock_ahead)

    def running(self) -> bool:
        return self.node is not None and self.world.now >= self.paused_until

    # Inputs.

    def receive(self, message: NodeMessage) -> None:
        """A message arrives; at a dead machine nothing happens, at a paused one it waits."""
        node = self.node
        if node is None:
            return
        if self.world.now < self.paused_until:
            self.world.at(self.paused_until, self.receive, message)
            return
        if self.world.plan.tick_first:
            node.tick(self.local_time())
        if type(message) is VoteRequest and message.pre:
            self._hear_pre_vote(node, message)
        else:
            node.step(message)
        self.soon()

    def _hear_pre_vote(self, node: Node, message: VoteRequest) -> None:
        """Being asked whether one would vote binds nobody."""

        def bound(raft: Raft | None) -> tuple[object, ...]:
            return () if raft is None else (raft.term, raft.vote, raft.role, raft.timer_from, raft.timeout_ms)

        raft = node.groups.get(message.group)
        before = bound(raft)
        node.step(message)
        if bound(raft) != before:
            raise Violation(f"node {self.number}: answering a pre-vote changed {before} to {bound(raft)}")

    def lose(self, peer: NodeId) -> None:
        """The connection with another machine broke; a machine that is back by now may be told so all the same."""
        if self.node is not None and self.running():
            self.world.count("lost connection")
            self.node.lost(peer)
            self.soon()

    def wake(self) -> None:
        """A deadline may have come."""
        node = self.node
        if node is None or self._timer_at != self.world.now:
            return
        if self.world.now < self.paused_until:
            self._timer_at = self.paused_until
            self.world.at(self.paused_until, self.wake)
            return
        self._timer_at = -1
        node.tick(self.local_time())
        self.soon()

    def soon(self) -> None:
        """Take a turn: now, or together with what else arrives in a moment."""
        lazy = self.world.plan.lazy_ms
        if not lazy:
            self.turn()
        elif not self._turn_due:
            self._turn_due = True
            self.world.at(self.world.now + self.world.random.randrange(lazy + 1), self._lazy_turn, self.boot)

    def _lazy_turn(self, boot: int) -> None:
        if self.node is None or boot != self.boot:
            return
        if self.world.now < self.paused_until:
            self.world.at(self.paused_until, self._lazy_turn, boot)
            return
        self._turn_due = False
        self.turn()

    # The driver's loop, in the order that `Effects` asks for.

    def turn(self) -> None:
        """Take what follows from the inputs and carry it out."""
        node = self.node
        if node is None:
            return
        effects, beats = node.take()
        for beat in beats:
            self.world.network.send(self.number, beat.to, beat)
        for raft, effect in effects:
            self._carry_out(self.hosts[raft.group], raft, effect)
        for raft, _ in effects:
            self._check(self.hosts[raft.group], raft)
        self._set_timer(node)

    def _set_timer(self, node: Node) -> None:
        at = max(self.world.now + 1, node.next_deadline() - self.clock_ahead)
        if self._timer_at < self.world.now or at < self._timer_at:
            self._timer_at = at
            self.world.at(at, self.wake)

    def _carry_out(self, host: Host, raft: Raft, effects: Effects) -> None:
        write, oracle, world = effects.persist, host.oracle, self.world
        if write is not None:
            oracle.writing(host, write)
            host.disk.write(write)
            host.unsent.append([])
            world.at(world.now + self._sync_ms(host), self._synced, host, host.life)
            world.count("truncation", write.truncate is not None)
            if write.snapshot is not None:
                world.count("snapshot")
                host.state_offset, host.state = decode_state(write.snapshot.data)
                host.states = {host.state_offset: host.state}
        for message in effects.send:
            self._send(host, message)
        if effects.send_after_sync:
            if host.unsent:
                host.unsent[-1].extend(effects.send_after_sync)
            else:
                for message in effects.send_after_sync:
                    self._send(host, message)
        if effects.role is not None and effects.role.role is Role.LEADER:
            oracle.leads(host, raft)
            world.count("election")
            world.nemesis.elected(host)
        self._decide(host, raft, effects)
        for read in effects.log_reads:
            world.at(world.now + world.random.randrange(10), self._supply, host, host.life, read)
        for to in effects.snapshots:
            world.at(world.now + world.random.randrange(20), self._send_snapshot, host, host.life, to)

    def _decide(self, host: Host, raft: Raft, effects: Effects) -> None:
        oracle, world = host.oracle, self.world
        if effects.commit is not None:
            oracle.commits(host, raft, host.commit, effects.commit)
            host.commit = effects.commit
            self._acknowledge(host, raft)
            world.nemesis.committed(host)
        if effects.apply is not None:
            self._apply(host, *effects.apply)
        for read, offset in effects.reads:
            oracle.reads(host, host.floors.pop(read), offset)
            world.count("read")
        for read in effects.failed_reads:
            del host.floors[read]

    def _acknowledge(self, host: Host, raft: Raft) -> None:
        """Tell the clients whose batches are decided; the batch stands if its offset still has its term."""
        for base in [base for base in host.proposals if base <= host.commit]:
            batch = host.proposals.pop(base)
            if raft.log.terms.matches(batch.last, batch.term):
                host.oracle.acknowledges(host, batch)
                self.world.count("acknowledgement")

    def _apply(self, host: Host, first: Offset, last: Offset) -> None:
        for batch in host.disk.written.read(first, last):
            if batch.last > host.state_offset:
                host.state = state_after(host.state, batch)
                host.state_offset = batch.last
                host.states[batch.last] = host.state
                host.oracle.applies(host, batch, host.state)

    def _send(self, host: Host, message: Message) -> None:
        host.oracle.sending(host, message)
        self.world.network.send(self.number, node_of(message.to), message)

    # Disks.

    def _sync_ms(self, host: Host) -> int:
        if self.world.healed:
            return 1
        longest = self.world.plan.sync_ms
        if self.world.now < host.slow_until:
            longest = max(longest, 10) * 20
        return self.world.random.randrange(longest + 1)

    def _synced(self, host: Host, life: int) -> None:
        """One sync is over: the oldest write is durable, or has failed."""
        if host.life != life or host.raft is None:
            return
        if self.world.now < self.paused_until:
            self.world.at(self.paused_until, self._synced, host, life)
            return
        if host.fails_next:
            self._fail(host)
        else:
            write, messages = host.disk.sync(), host.unsent.pop(0)
            for message in messages:
                self._send(host, message)
            host.raft.persisted(write.token)
        self.soon()

    def _fail(self, host: Host) -> None:
        """The disk said no. Nothing that waited for it may leave, and the replica stops until the process starts again."""
        assert host.raft is not None
        self.world.count("failed sync")
        self.failed_writes += 1
        host.life += 1
        host.raft.stop("fsync failed")
        self.world.at(self.world.now + self.world.random.randrange(50, 500), self._restart_failed, self.boot)

    def _restart_failed(self, boot: int) -> None:
        if self.node is not None and boot == self.boot:
            self.crash()
            self.start()

    def _supply(self, host: Host, life: int, read: LogRead) -> None:
        if host.life != life or host.raft is None:
            return
        batches: list[Batch] = []
        size = 0
        for batch in host.disk.written.read(read.first, host.disk.written.last):
            size += batch.size
            if batches and size > read.max_bytes:
                break
            batches.append(batch)
        if not batches or batches[0].base != read.first or self.world.random.random() < 0.05:
            batches = []
        self.world.count("log read")
        host.raft.supply(read.to, tuple(batches))
        self.soon()

    def _send_snapshot(self, host: Host, life: int, to: ReplicaId) -> None:
        if host.life == life and host.raft is not None and self.world.random.random() < 0.9:
            # The state is kept at the log's start, or after it if the move of the start was lost in a crash.
            host.raft.send_snapshot(to, host.disk.durable.state)
            self.soon()

    def compact(self, host: Host) -> None:
        """Keep the state at some applied offset, then let go of the log up to there."""
        raft, image = host.raft, host.disk.durable
        if raft is None or raft.role is Role.STOPPED or any(write.snapshot for write in host.disk.pending):
            return
        floor = max(raft.log.start, image.state_offset)
        ends = [offset for offset in host.states if floor < offset <= min(raft.log.applied, raft.log.stable)]
        if ends:
            offset = self.world.random.choice((ends[-1], self.world.random.choice(ends)))
            host.disk.save_state(offset, encode_state(offset, host.states[offset]))
            host.states = {end: state for end, state in host.states.items() if end >= offset}
            raft.compact(offset)
            self.world.count("compaction")
            self.soon()

    # What clients ask.

    def propose(self, host: Host, data: bytes, count: int) -> None:
        raft = host.raft
        if raft is None or not self.running():
            return
        try:
            batch = raft.propose(data, count)
        except Refused:
            self.world.count("refusal")
            return
        host.proposals[batch.base] = batch
        self.soon()

    def read(self, host: Host) -> None:
        raft = host.raft
        if raft is None or not self.running():
            return
        try:
            read = raft.read_index()
        except Refused:
            return
        host.floors[read] = host.oracle.last
        self.soon()

    # Invariants of one replica.

    def _check(self, host: Host, raft: Raft) -> None:
        try:
            raft.check_invariants()
        except AssertionError as wrong:
            raise Violation(f"{host}: {wrong}") from wrong
        if raft.role is Role.STOPPED:
            if raft.stop_reason not in ("fsync failed", "the replica was removed from its node"):
                raise Violation(f"{host} stopped itself: {raft.stop_reason}")
            return
        if host.disk.written.last != raft.log.last:
            raise Violation(f"{host} believes in {raft.log.last}, its disk was given {host.disk.written.last}")
        term, vote = host.believed
        if raft.term < term or (raft.term == term and vote not in (NO_REPLICA, raft.vote)):
            now = f"{show_replica(raft.vote)} in {raft.term}"
            raise Violation(f"{host} had voted {show_replica(vote)} in term {term}, now {now}")
        host.believed = (raft.term, raft.vote)
        if raft.role is not Role.LEADER:
            host.proposals.clear()
