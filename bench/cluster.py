"""Three nodes in one process: messages are handed over as objects, and a write is durable as soon as it is asked for.

What is left to measure is the core itself. Nothing here encodes, stores or waits.
"""

from __future__ import annotations

from collections import deque
from random import Random
from time import process_time

from quorate.consensus.core import (
    Configuration,
    GroupId,
    Message,
    Millis,
    Node,
    NodeId,
    NodeMessage,
    Raft,
    RaftSettings,
    Role,
    new_group,
    replica_id,
)

NODES = 3
SPREAD_MS = 250
"""Groups are elected over this time, or their deadlines would march in step as they never do in life. It is shorter than an
election timeout, so that nobody else campaigns first."""
SETTLING_MS = 5_000


class BenchmarkFailed(Exception):
    """The cluster did something that a healthy one does not, so its figures would mean nothing."""


class Mailbox:
    """Messages on their way to one node. They arrive `delay` turns later than they could."""

    __slots__ = ("_travelling", "posted")

    def __init__(self, delay: int) -> None:
        self.posted: list[NodeMessage] = []
        """What was sent since the last turn: senders append here."""
        self._travelling: deque[list[NodeMessage]] = deque([] for _ in range(delay))

    def collect(self) -> list[NodeMessage]:
        """What arrives now; everything else comes one turn closer."""
        self._travelling.append(self.posted)
        self.posted = []
        return self._travelling.popleft()

    def __bool__(self) -> bool:
        return bool(self.posted) or any(self._travelling)


class Cluster:
    """Three nodes that hold the same groups, every node one replica of each; leaders are spread evenly."""

    def __init__(self, groups: int, *, settings: RaftSettings | None = None, delay: int = 0, seed: int = 0) -> None:
        settings = settings or RaftSettings()
        self.now = Millis(0)
        self.messages = 0
        self.wakeups = 0
        self.nodes = [Node(NodeId(id), boot=1, beat_ms=settings.heartbeat_ms) for id in range(1, NODES + 1)]
        self.cpu_s = {node.node: 0.0 for node in self.nodes}
        """CPU seconds that each node has used in `elect` and `pass_time`."""
        self._mail = {node.node: Mailbox(delay) for node in self.nodes}
        self._mail_of = {replica_id(node): mailbox for node, mailbox in self._mail.items()}
        members = Configuration(voters=frozenset(replica_id(node.node) for node in self.nodes))
        for node in self.nodes:
            random = Random(f"{seed}/{node.node}")
            for group in range(groups):
                replica = replica_id(node.node)
                node.add(Raft(GroupId(group), replica, new_group(members), settings, random, node.clock))

    def elect(self) -> None:
        """Make each node the leader of every third group, and let time pass until all is quiet."""
        groups = list(self.nodes[0].groups)
        for moment in range(SPREAD_MS):
            self.pass_time(Millis(moment))
            for group in groups[moment::SPREAD_MS]:
                self.leader(group).campaign()
            self._wake_all(self.nodes)
        self.pass_time(Millis(self.now + SETTLING_MS))
        self.check_leaders()

    def leader(self, group: GroupId) -> Raft:
        """The replica that `elect` makes the leader of a group."""
        return self.nodes[group % NODES].groups[group]

    def check_leaders(self) -> None:
        """Raise BenchmarkFailed if a group is led by another replica than the one that `elect` chose."""
        lost = sum(1 for group in self.nodes[0].groups if self.leader(group).role is not Role.LEADER)
        if lost:
            raise BenchmarkFailed(f"{lost} of {len(self.nodes[0].groups)} groups lost their leader while they were measured")

    def turn(self, node: Node) -> bool:
        """One turn of a node's loop: hear what arrived, take what follows, carry it out. Whether a write came back."""
        for message in self._mail[node.node].collect():
            node.step(message)
        groups, beats = node.take()
        wrote = False
        for raft, effects in groups:
            # The order that `Effects` states, with a disk that takes no time.
            if effects.send:
                self._send(effects.send)
            if effects.send_after_sync:
                self._send(effects.send_after_sync)
            if effects.persist is not None:
                raft.persisted(effects.persist.token)
                wrote = True
            if effects.log_reads or effects.snapshots:
                raise BenchmarkFailed("a follower fell behind what its leader has in memory: ask for less in flight")
        for beat in beats:
            self._mail[beat.to].posted.append(beat)
        self.messages += len(beats)
        return wrote

    def _send(self, messages: list[Message]) -> None:
        for message in messages:
            self._mail_of[message.to].posted.append(message)
        self.messages += len(messages)

    def tick(self, now: Millis) -> None:
        """Tell every node the time."""
        self.now = now
        for node in self.nodes:
            node.tick(now)

    def pass_time(self, until: Millis) -> None:
        """Let virtual time pass, from deadline to deadline. A node is woken only if it has something to do."""
        while (due := min(node.next_deadline() for node in self.nodes)) <= until:
            self.now = due
            self._wake_all([node for node in self.nodes if node.next_deadline() <= due])
        self.tick(until)

    def _wake_all(self, ready: list[Node]) -> None:
        """Wake these nodes, then whomever they have written to, until nobody has anything to do at this moment."""
        while ready:
            wrote = [node for node in ready if self._wake(node)]
            ready = [node for node in self.nodes if self._mail[node.node] or node in wrote]

    def _wake(self, node: Node) -> bool:
        started = process_time()
        node.tick(self.now)
        wrote = self.turn(node)
        self.cpu_s[node.node] += process_time() - started
        self.wakeups += 1
        return wrote
