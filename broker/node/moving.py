"""Carries changes of replica sets out, on the node that leads the group: learners first, then voters, then the others go.

The wish is in the metadata (`target`), the way there is in the group's own configuration: so whoever leads next goes on.
A move is said to be over only when the configuration that ends it is committed: then it holds whoever leads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from quorate.broker.cluster import commands as c
from quorate.broker.cluster.calls import CallFailed
from quorate.broker.cluster.council import next_members
from quorate.broker.cluster.directory import Directory, Health
from quorate.broker.cluster.service import Metadata, new_token
from quorate.broker.cluster.state import Refused
from quorate.broker.cluster.values import CLUSTER_GROUP, PartitionInfo
from quorate.consensus.core import GroupId, Millis, ReplicaId
from quorate.consensus.core.types import incarnation_of
from quorate.consensus.runtime import MultiRaft, OperationFailed

_log = logging.getLogger(__name__)
_CALL_S = 5.0
_CATCH_UP_S = 0.1
_LOOK_AGAIN_S = 0.005


class Mover:
    """Takes one step for each group that is led here and has to change."""

    def __init__(
        self,
        runtime: MultiRaft,
        metadata: Metadata,
        directory: Directory,
        manages: Callable[[], bool],
        now: Callable[[], Millis],
        patience_ms: int,
    ) -> None:
        """Who was not heard of for `patience_ms` is not made a voter."""
        self._runtime = runtime
        self._metadata = metadata
        self._directory = directory
        self._manages = manages
        self._now = now
        self._patience_ms = patience_ms

    async def step(self, led: list[GroupId]) -> None:
        """Do what is next everywhere. What cannot be done now is tried again at the next call."""
        for group in led:
            try:
                if group == CLUSTER_GROUP:
                    await self._step_cluster()
                else:
                    await self._step(group)
            except (OperationFailed, CallFailed, Refused) as error:
                _log.debug("group %s: its members cannot be changed now: %s", group, error)

    def behind(self, groups: Collection[GroupId]) -> dict[GroupId, int]:
        """How many committed offsets the new replicas lack of those of these groups that are led here and move."""
        found = {}
        for group in groups:
            place = self._metadata.state.by_group.get(group)
            if place is None:
                continue
            try:
                commit, followers = self._runtime.status(group).commit, self._runtime.followers(group)
            except OperationFailed:
                continue
            coming = [followers[one].match for one in place[0].partitions[place[1]].coming if one in followers]
            if coming:
                found[group] = max(0, commit - min(coming))
        return found

    async def _step(self, group: GroupId) -> None:
        found = self._metadata.state.by_group.get(group)
        if found is None:
            return
        partition = found[0].partitions[found[1]]
        if partition.target is None or not self._runtime.settled(group):
            return
        voters = self._runtime.configuration(group).voters
        if partition.cancelled and voters != frozenset(partition.target):
            over = await self._back(group, partition)
        else:
            over = await self._towards(group, frozenset(partition.target))
        if over:
            cancelled = voters != frozenset(partition.target)
            _log.info("group %s: the move to %s is %s", group, partition.target, "called off" if cancelled else "done")
            command = c.EndMove(token=new_token(), group=group, target=partition.target, cancel=cancelled)
            await self._metadata.change(command, _CALL_S)

    async def _towards(self, group: GroupId, target: frozenset[ReplicaId]) -> bool:
        """One step towards these voters; whether nothing is left to do. Raises OperationFailed."""
        now = self._runtime.configuration(group)
        missing = target - now.voters - now.learners
        if missing:
            await self._runtime.change_members(group, now.voters, now.learners | missing)
            return False
        if now.voters == target and not now.learners:
            return True
        if await caught_up(self._runtime, group, target - now.voters, self._patience_ms):
            await self._runtime.change_members(group, target)
        return False

    async def _back(self, group: GroupId, partition: PartitionInfo) -> bool:
        """One step towards a configuration that can never take the coming replicas; whether it is in force.

        They have to be members once: a replica that was one and is no longer is refused for ever. So a leader that has not
        heard yet that the move is called off cannot go on with it.
        """
        now = self._runtime.configuration(group)
        untried = {one for one in partition.coming if incarnation_of(one) > now.generation}
        if untried:
            await self._runtime.change_members(group, now.voters, now.learners | untried)
            return False
        if now.learners:
            await self._runtime.change_members(group, now.voters)
            return False
        return True

    async def _step_cluster(self) -> None:
        """Every node applies `@cluster`: a few as voters, the others as learners."""
        if not self._manages() or not self._runtime.settled(CLUSTER_GROUP):
            return
        state, now, directory = self._metadata.state, self._now(), self._directory
        configuration = self._runtime.configuration(CLUSTER_GROUP)
        dead = [node for node in state.nodes if directory.health(node, now) is Health.DEAD]
        members = next_members(configuration, state, directory.alive(state.nodes, now), dead)
        if members is not None:
            promoted = members.voters - configuration.voters
            if promoted and not await caught_up(self._runtime, CLUSTER_GROUP, promoted, self._patience_ms):
                return
            _log.info("`@cluster`: voters %s, learners %s", sorted(members.voters), sorted(members.learners))
            await self._runtime.change_members(CLUSTER_GROUP, members.voters, members.learners)


async def caught_up(runtime: MultiRaft, group: GroupId, replicas: Collection[ReplicaId], patience_ms: int) -> bool:
    """Whether these followers of a group that is led here have what is committed now, at once or in a moment, and were
    heard of in the last `patience_ms`. Raises OperationFailed.
    """
    goal = runtime.status(group).commit
    deadline = asyncio.get_running_loop().time() + _CATCH_UP_S
    while True:
        followers = runtime.followers(group)
        found = [followers[one] for one in replicas if one in followers]
        if len(found) < len(replicas) or not all(one.feeding and one.silent_ms <= patience_ms for one in found):
            return False
        if all(one.match >= goal for one in found):
            return True
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(_LOOK_AGAIN_S)
