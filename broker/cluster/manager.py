"""The internal cluster manager. It runs on every node and acts on the one that leads `@cluster`.

Every step follows from the replicated metadata and from what is observed, so a new manager goes on where the last one was.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from quorate.broker.cluster import commands as c
from quorate.broker.cluster.calls import CallFailed, Calls
from quorate.broker.cluster.directory import Directory, Health
from quorate.broker.cluster.placement import (
    Move,
    NoPlace,
    evening_moves,
    load_of,
    moves_in_vain,
    moves_off,
    place,
    stranded,
)
from quorate.broker.cluster.service import Metadata, new_token
from quorate.broker.cluster.state import ClusterState, Refused
from quorate.broker.cluster.values import GROUPS_QUEUE, Membership
from quorate.consensus.core import GroupId, Millis, NodeId, ReplicaId, node_of

_log = logging.getLogger(__name__)
_CALL_S = 5.0
_TRIES = 3
_STUCK_MS = 10_000
"""An election takes far less, so a group without a leader for so long has lost its majority."""


@dataclass(frozen=True, kw_only=True)
class ManagerSettings:
    """What the manager may do, and how much of it at once."""

    moves_at_once: int = 4
    balance: bool = True
    group_partitions: int = 8
    replication: int = 3
    """Of `@groups`; it is created when there are so many nodes."""
    founders: int = 1
    """How many nodes the cluster begins with: `@groups` is spread over all of them, if they come within `founding_ms`."""
    founding_ms: int = 3_000
    transfers_at_once: int = 8
    period_s: float = 0.25


def leaving(state: ClusterState, directory: Directory, now: Millis) -> dict[NodeId, str]:
    """Nodes that shall lose their replicas, each with the reason."""
    reasons = {}
    for node, info in state.nodes.items():
        if info.membership is Membership.DRAINING:
            reasons[node] = "the node is being drained"
        elif directory.health(node, now) is Health.DEAD:
            reasons[node] = f"the node has been silent for {directory.silent_ms(node, now) // 1000} s"
    return reasons


def transfers(
    state: ClusterState, leaders: Mapping[GroupId, NodeId], alive: Collection[NodeId], most: int
) -> list[tuple[GroupId, ReplicaId]]:
    """Groups that are not led by the replica that is preferred among those alive, with that replica."""
    wanted = []
    for group, (queue, index) in sorted(state.by_group.items()):
        partition = queue.partitions[index]
        leader = leaders.get(group)
        if leader is None or partition.target is not None:
            continue
        stays = [one for one in partition.replicas if _takes_leaders(state, node_of(one), alive)]
        if stays and node_of(stays[0]) != leader:
            wanted.append((group, stays[0]))
            if len(wanted) >= most:
                break
    return wanted


def _takes_leaders(state: ClusterState, node: NodeId, alive: Collection[NodeId]) -> bool:
    info = state.nodes.get(node)
    return info is not None and info.membership is Membership.JOINED and node in alive


async def plan_and_change(metadata: Metadata, plan: Callable[[], c.Command], timeout_s: float) -> int:
    """Carry out what is planned; if the nodes have changed meanwhile, plan anew, a few times.

    Raises Refused, CallFailed, and what `plan` raises.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            return await metadata.change(plan(), timeout_s)
        except Refused as refusal:
            if refusal.code != "changed-meanwhile" or not tries_left:
                raise
    raise AssertionError("the last try returns or raises")


class Manager:
    """Looks at the cluster a few times a second and does what is next."""

    def __init__(
        self,
        metadata: Metadata,
        calls: Calls,
        directory: Directory,
        leads: Callable[[], bool],
        now: Callable[[], Millis],
        settings: ManagerSettings,
    ) -> None:
        self._metadata = metadata
        self._calls = calls
        self._directory = directory
        self._leads = leads
        self._now = now
        self._settings = settings
        self._led_since: Millis | None = None
        self._tried: dict[GroupId, Millis] = {}
        """When a transfer was last asked for: not again at once, if it did not help."""
        self._leaderless: dict[GroupId, Millis] = {}
        """Groups that move and have no leader, and since when that was seen."""

    @property
    def state(self) -> ClusterState:
        return self._metadata.state

    async def run(self) -> None:
        """Manage for ever."""
        while True:
            await asyncio.sleep(self._settings.period_s)
            if not self._leads():
                self._led_since = None
                continue
            if self._led_since is None:
                self._led_since = self._now()
            try:
                await self._manage()
            except (CallFailed, Refused, NoPlace) as error:
                _log.info("the cluster manager tries again soon: %s", error)

    async def _manage(self) -> None:
        await self._make_groups_queue()
        await self._cancel_moves()
        await self._begin_moves()
        if self._settings.balance:
            await self._balance()

    async def _make_groups_queue(self) -> None:
        state, settings, usable = self.state, self._settings, len(self.usable())
        if GROUPS_QUEUE in state.queues or usable < settings.replication:
            return
        since = self._led_since if self._led_since is not None else self._now()
        if usable < settings.founders and self._now() - since < settings.founding_ms:
            return
        await self.create(GROUPS_QUEUE, settings.group_partitions, settings.replication, {}, _CALL_S)

    def usable(self) -> list[NodeId]:
        """Nodes that may be given replicas."""
        return self._directory.alive(self.state.nodes, self._now())

    async def create(
        self, name: str, partitions: int, replication: int, settings: Mapping[str, str], timeout_s: float
    ) -> None:
        """Place and create a queue. Any node may do this. Raises NoPlace, Refused, CallFailed."""
        state, id_ = self.state, new_token()

        def command() -> c.Command:
            placement = place(partitions, replication, state.nodes, self.usable(), load_of(state))
            return c.CreateQueue(token=new_token(), name=name, id=id_, placement=placement, settings=settings)

        await plan_and_change(self._metadata, command, timeout_s)

    async def _cancel_moves(self) -> None:
        """A move to a node that has died, or is to be drained itself, would never end, or be for nothing."""
        state = self.state
        for group, target, why in moves_in_vain(state, leaving(state, self._directory, self._now())):
            _log.info("group %s: its move to %s is cancelled: %s", group, [node_of(one) for one in target], why)
            await self._metadata.change(c.CancelMove(token=new_token(), group=group, target=target), _CALL_S)

    async def _begin_moves(self) -> None:
        """Moves are begun here and carried out by the groups' leaders; only so many are under way.

        A group without a leader cannot move, and does not keep others from it.
        """
        state = self.state
        reasons, room = leaving(state, self._directory, self._now()), self.room()
        if reasons and room > 0:
            for move in moves_off(state, reasons, self.usable(), room, self._led()):
                await self.begin(move)

    def _led(self) -> set[GroupId]:
        now = self._now()
        return {group for group in self.state.by_group if self._directory.leader_of(group, now) is not None}

    def room(self) -> int:
        """How many more moves may be begun now.

        Those of groups that have long been without a leader do not count: they may last for ever. A group that has just lost
        its leader has the next one soon; a move that takes the leader's own place goes through such a moment each time.
        """
        now, led = self._now(), self._led()
        moving = {group for group, (queue, index) in self.state.by_group.items() if queue.partitions[index].target}
        self._leaderless = {group: self._leaderless.get(group, now) for group in moving - led}
        stuck = sum(now - since >= _STUCK_MS for since in self._leaderless.values())
        return self._settings.moves_at_once - len(moving) + stuck

    def stranded(self) -> Counter[NodeId]:
        """How many replicas each leaving node has for which there is no other node."""
        state = self.state
        return stranded(state, leaving(state, self._directory, self._now()), self.usable())

    async def begin(self, move: Move) -> None:
        """Begin one move. Raises Refused, CallFailed."""
        _log.info("group %s moves from node %s to node %s: %s", move.group, move.source, move.to, move.reason)
        await self._metadata.change(c.BeginMove(token=new_token(), group=move.group, nodes=move.nodes), _CALL_S)

    def evening(self) -> list[Move]:
        """The moves that would even the nodes out."""
        return evening_moves(self.state, self.usable())

    async def _balance(self) -> None:
        now, settings = self._now(), self._settings
        leaders = {group: leader.node for group, leader in self._directory.leaders.items()}
        for group, to in transfers(self.state, leaders, self.usable(), settings.transfers_at_once):
            if now - self._tried.get(group, Millis(-100_000)) < 5_000:
                continue
            self._tried[group] = now
            body = {"group": group, "to": to}
            try:
                await self._calls.ask(leaders[group], "transfer", body, _CALL_S)
            except CallFailed as error:
                _log.info("group %s is not handed to node %s: %s", group, node_of(to), error)
