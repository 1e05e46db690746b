"""Carries changes of replica sets out, on the node that leads the group: learners first, then voters, then the others go.

The wish is in the metadata (`target`), the way there is in the group's own configuration: so whoever leads next goes on.
"""

from __future__ import annotations

import logging

from quorate.broker.cluster import commands as c
from quorate.broker.cluster.calls import CallFailed
from quorate.broker.cluster.service import Metadata, new_token
from quorate.broker.cluster.state import Refused
from quorate.broker.cluster.values import CLUSTER_GROUP
from quorate.consensus.core import GroupId, NodeId, ReplicaId, node_of, replica_id
from quorate.consensus.runtime import MultiRaft, OperationFailed

_log = logging.getLogger(__name__)
_CALL_S = 5.0
_MAX_CLUSTER_VOTERS = 5


class Mover:
    """Takes one step for each group that is led here and has to change."""

    def __init__(self, runtime: MultiRaft, metadata: Metadata) -> None:
        self._runtime = runtime
        self._metadata = metadata

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

    async def _step(self, group: GroupId) -> None:
        found = self._metadata.state.by_group.get(group)
        if found is None:
            return
        queue, index = found
        target = queue.partitions[index].target
        if target is not None and await self._towards(group, frozenset(target)):
            _log.info("group %s (%s/%s) is on its new replicas", group, queue.name, index)
            await self._metadata.change(c.EndMove(token=new_token(), group=group, target=target), _CALL_S)

    async def _towards(self, group: GroupId, target: frozenset[ReplicaId]) -> bool:
        """One step towards these voters; whether nothing is left to do. Raises OperationFailed."""
        now = self._runtime.configuration(group)
        if now.joint:
            return False
        missing = target - now.voters - now.learners
        if missing:
            await self._runtime.change_members(group, now.voters, now.learners | missing)
            return False
        if now.voters != target or now.learners:
            # Refused until those that learn have caught up.
            await self._runtime.change_members(group, target)
            return False
        return True

    async def _step_cluster(self) -> None:
        """Every node applies `@cluster`: the first few as voters, the others as learners."""
        state, now = self._metadata.state, self._runtime.configuration(CLUSTER_GROUP)
        if now.joint or not state.nodes:
            return
        nodes = set(state.nodes)
        voters = {one for one in now.voters if node_of(one) in nodes or node_of(one) not in state.gone}
        learners = {one for one in now.learners if node_of(one) in nodes}
        known = {node_of(one) for one in voters | learners}
        fresh = {cluster_replica(node) for node in nodes - known}
        if fresh or voters != now.voters or learners != now.learners:
            await self._runtime.change_members(CLUSTER_GROUP, voters, learners | fresh)
            return
        wanted = min(_MAX_CLUSTER_VOTERS, len(nodes) - 1 + len(nodes) % 2)
        if len(voters) < wanted and learners:
            promoted = min(learners)
            await self._runtime.change_members(CLUSTER_GROUP, voters | {promoted}, learners - {promoted})


def cluster_replica(node: NodeId) -> ReplicaId:
    """A node's replica of `@cluster`."""
    return replica_id(node)
