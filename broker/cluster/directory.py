"""What this node knows of the others just now and nobody replicates: who is alive, who leads which group.

Fed by the status that every node tells every other a few times a second, and at once when it begins to lead something.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import NamedTuple

from quorate.consensus.core import GroupId, Millis, NodeId, Term

_HEAD = struct.Struct("<BQIQI")
_FORMAT = 1
_NAMED_MS = 60_000
"""Longer than a client's request waits for its answer (30 s in most of them), so that none is cut short by what we name."""
_ELECTING_MS = 1_000
"""An election that takes longer is none: a majority is gone."""


class Health(StrEnum):
    """How a node seems from here."""

    ALIVE = "alive"
    SUSPECT = "suspect"
    DEAD = "dead"


class Status(NamedTuple):
    """What a node says of itself."""

    boot: int
    replicas: int
    disk_free: int
    led: tuple[tuple[GroupId, Term], ...]
    """The groups that it leads, with their terms."""

    def encode(self) -> bytes:
        flat = array("q", (number for pair in self.led for number in pair))
        return _HEAD.pack(_FORMAT, self.boot, self.replicas, self.disk_free, len(self.led)) + flat.tobytes()

    @classmethod
    def decode(cls, note: bytes) -> Status:
        """Raises ValueError."""
        if len(note) < _HEAD.size:
            raise ValueError("a status is shorter than its head")
        form, boot, replicas, disk_free, count = _HEAD.unpack_from(note)
        if form != _FORMAT or len(note) != _HEAD.size + 16 * count:
            raise ValueError(f"a status of format {form} and {len(note)} bytes does not list {count} groups")
        flat = array("q")
        flat.frombytes(note[_HEAD.size :])
        led = tuple(zip(map(GroupId, flat[::2]), map(Term, flat[1::2]), strict=True))
        return cls(boot, replicas, disk_free, led)


class Leader(NamedTuple):
    """Who leads a group, and since which term."""

    node: NodeId
    term: Term


class Directory:
    """Time is handed in. A node that was never heard counts as silent since `since`, when this directory began."""

    def __init__(self, me: NodeId, now: Millis, suspect_ms: int, dead_ms: int) -> None:
        self._me = me
        self._since = now
        self._suspect_ms = suspect_ms
        self._dead_ms = dead_ms
        self._heard: dict[NodeId, Millis] = {}
        self._lost: dict[NodeId, Millis] = {}
        """Nodes whose connection broke, and when. Each is suspect until it is heard or connected with again."""
        self.statuses: dict[NodeId, Status] = {}
        self.leaders: dict[GroupId, Leader] = {}

    def hear(self, node: NodeId, status: Status, now: Millis) -> None:
        """A node has told its status."""
        self._heard[node] = now
        self._lost.pop(node, None)
        self.statuses[node] = status
        for group, term in status.led:
            self.learn(group, node, term)

    def connected(self, node: NodeId, up: bool, now: Millis) -> None:
        """The connection with a node was made, or broke: a node that dies or is back is noticed long before its status."""
        if up:
            self._lost.pop(node, None)
            self._heard[node] = now
        else:
            self._lost.setdefault(node, now)

    def learn(self, group: GroupId, node: NodeId, term: Term) -> None:
        """A node leads a group in a term, as a node itself or one of its followers says. The highest term is right."""
        known = self.leaders.get(group)
        if known is None or term >= known.term:
            self.leaders[group] = Leader(node, term)

    def resign(self, group: GroupId) -> None:
        """This node does not lead a group any more, and does not know who does. It must not go on sending clients to itself:
        it answers them, so they would stay."""
        known = self.leaders.get(group)
        if known is not None and known.node == self._me:
            del self.leaders[group]

    def forget(self, groups: Iterable[GroupId]) -> None:
        """These groups are gone."""
        for group in groups:
            self.leaders.pop(group, None)

    def leader_of(self, group: GroupId, now: Millis) -> Leader | None:
        """Who leads, unless that node has gone silent."""
        leader = self.leaders.get(group)
        if leader is None or self.health(leader.node, now) is not Health.ALIVE:
            return None
        return leader

    def electing(self, group: GroupId, now: Millis) -> bool:
        """Whether the group's leader was lost a moment ago, and the next one has not been heard of yet. It soon will be, so
        who asks for the leader does well to wait a little."""
        leader = self.leaders.get(group)
        lost = self._lost.get(leader.node) if leader is not None else None
        return lost is not None and now - lost < _ELECTING_MS

    def lost_lately(self, now: Millis) -> bool:
        """Whether any group can be `electing` at all."""
        return any(now - lost < _ELECTING_MS for lost in self._lost.values())

    def health(self, node: NodeId, now: Millis) -> Health:
        """How a node seems."""
        if node == self._me:
            return Health.ALIVE
        silent = now - self._heard.get(node, self._since)
        if silent < self._suspect_ms and node not in self._lost:
            return Health.ALIVE
        return Health.SUSPECT if silent < self._dead_ms else Health.DEAD

    def silent_ms(self, node: NodeId, now: Millis) -> int:
        """For how long nothing was heard of a node."""
        return 0 if node == self._me else now - self._heard.get(node, self._since)

    def alive(self, nodes: Collection[NodeId], now: Millis) -> list[NodeId]:
        """Those that are alive."""
        return [node for node in nodes if self.health(node, now) is Health.ALIVE]

    def cut_off(self, nodes: Collection[NodeId], now: Millis) -> bool:
        """Whether no majority of all nodes seems alive: then it is more likely this one that has lost the others."""
        return 2 * len(self.alive(nodes, now)) <= len(nodes)

    def worth_trying(self, nodes: Collection[NodeId], now: Millis) -> list[NodeId]:
        """Those that clients should know of: all but those that have been silent for long. All of them, if this node is cut
        off: clients that only heard of this side could not find the other one.

        A node that has just died stays. librdkafka (2.16) throws away a broker that is not named any more, and if the same
        answer says who leads its partitions now, it may forget that too, until it looks again after a second.
        And it takes what it had asked of that broker for not done, and sends it again, even if it was told never to do so:
        what a leader had appended and not answered yet, because it stood still, was doubled.
        """
        if self.cut_off(nodes, now):
            return list(nodes)
        return [node for node in nodes if self.silent_ms(node, now) < _NAMED_MS]

    def guess(self, replicas: Collection[NodeId], now: Millis) -> NodeId | None:
        """One of the other replicas, for a client of a node that is cut off: it asks whoever it is connected with, and would
        stay here for ever. Another one every second, because each may be wrong."""
        others = [node for node in replicas if node != self._me]
        return others[now // 1000 % len(others)] if others else None
