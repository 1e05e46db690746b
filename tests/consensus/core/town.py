"""Three nodes with several groups each: whole nodes on the bench, where `lab` has single replicas.

Disks are fast here. What passes between the nodes is kept in a list that tests may look at, lose, double and hold back.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from quorate.consensus.core import (
    Configuration,
    GroupId,
    Millis,
    Node,
    NodeId,
    NodeMessage,
    Offset,
    Raft,
    RaftSettings,
    new_group,
    node_of,
    replica_id,
)
from quorate.consensus.core.messages import Beat, BeatAnswer
from tests.consensus.core.lab import ids
from tests.support.disk import Disk


def ends(message: NodeMessage) -> tuple[int, int]:
    """The nodes that a message comes from and goes to."""
    if isinstance(message, Beat | BeatAnswer):
        return message.sender, message.to
    return node_of(message.sender), node_of(message.to)


class Town:
    """Nodes 1 to 3; every group has a replica on each."""

    def __init__(self, groups: int = 1, *, settings: RaftSettings | None = None, beat_ms: int = 50) -> None:
        self.settings = settings if settings is not None else RaftSettings()
        self.beat_ms = beat_ms
        self.now = 0
        self.boot = 1
        self.net: list[NodeMessage] = []
        self.log: list[NodeMessage] = []
        """Everything that was ever sent."""
        self.cut: set[tuple[int, int]] = set()
        self.groups = [GroupId(number) for number in range(1, groups + 1)]
        first = new_group(Configuration(voters=ids(1, 2, 3)))
        self.disks = {(node, group): Disk(first) for node in (1, 2, 3) for group in self.groups}
        self.nodes: dict[int, Node] = {}
        for node in (1, 2, 3):
            self._start(node)

    @property
    def rafts(self) -> dict[int, Raft]:
        """The replicas of the first group."""
        return {number: node.groups[self.groups[0]] for number, node in self.nodes.items()}

    def _start(self, number: int) -> None:
        node = Node(NodeId(number), boot=self.boot, beat_ms=self.beat_ms, now=Millis(self.now))
        for group in self.groups:
            restored = self.disks[number, group].restored()
            random = Random(number * 1000 + group)
            node.add(Raft(group, replica_id(number), restored, self.settings, random, node.clock))
        self.nodes[number] = node

    def restart(self, number: int) -> None:
        """Everything that was not durable is lost; the node comes back with a higher boot number."""
        self.boot += 1
        for group in self.groups:
            self.disks[number, group].crash()
        self._start(number)

    def collect(self) -> list[NodeMessage]:
        """Let every node take its turns; everything that is on the way."""
        for number, node in self.nodes.items():
            while True:
                turn = node.take()
                sent: list[NodeMessage] = [*turn.beats]
                for raft, effects in turn.groups:
                    raft.check_invariants()
                    sent.extend(effects.send)
                    disk = self.disks[number, raft.group]
                    if effects.persist is not None:
                        disk.write(effects.persist)
                        disk.sync()
                        raft.persisted(effects.persist.token)
                    sent.extend(effects.send_after_sync)
                    for wanted in effects.log_reads:
                        raft.supply(wanted.to, tuple(disk.written.read(wanted.first, Offset(raft.log.last))))
                self.net.extend(sent)
                self.log.extend(sent)
                if not turn.groups and not turn.beats:
                    break
        return self.net

    def deliver(self, which: Callable[[NodeMessage], bool] = lambda _: True) -> list[NodeMessage]:
        """Deliver what is on the way now and chosen; the rest stays."""
        self.collect()
        chosen = [message for message in self.net if which(message)]
        self.net = [message for message in self.net if not which(message)]
        for message in chosen:
            sender, to = ends(message)
            if (sender, to) not in self.cut:
                self.nodes[to].step(message)
        self.collect()
        return chosen

    def settle(self) -> None:
        for _ in range(1000):
            if not self.collect():
                return
            self.deliver()
        raise AssertionError("the nodes never stop talking")

    def advance(self, milliseconds: int, step: int = 10) -> list[NodeMessage]:
        """Let time pass and deliver everything that follows; what was sent meanwhile."""
        before, end = len(self.log), self.now + milliseconds
        while self.now < end:
            self.now = min(end, self.now + step)
            for node in self.nodes.values():
                node.tick(Millis(self.now))
            self.settle()
        return self.log[before:]

    def isolate(self, number: int) -> None:
        for other in self.nodes.keys() - {number}:
            self.cut |= {(number, other), (other, number)}

    def heal(self) -> None:
        self.cut.clear()

    def lead(self, number: int) -> None:
        """Make one node the leader of every group."""
        for raft in self.nodes[number].groups.values():
            raft.campaign()
        self.settle()
