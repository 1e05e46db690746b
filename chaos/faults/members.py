"""Membership that changes: nodes are drained and taken back, added and removed, all through the cluster's administration."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random

from quorate.chaos.admin import AdminRefused, until
from quorate.chaos.cluster import ClusterUnderTest
from quorate.chaos.faults.api import Drawn, Fault, Parameters

_PATIENCE_S = 60.0


class MemberFault(Fault):
    """A change of members. One at a time."""

    def victims(self, parameters: Parameters) -> frozenset[int]:
        return frozenset()

    def claims(self, parameters: Parameters) -> frozenset[str]:
        return frozenset(["members"])


class Drain(MemberFault):
    """Everything is moved off a node, as far as there is another place for it, and may come back at the end."""

    kind = "drain"
    lasts_s = (4.0, 12.0)

    def draw(self, rng: Random, nodes: Sequence[int]) -> Drawn:
        node = rng.choice(sorted(nodes))
        return Drawn(f"node {node}", {"node": node})

    @asynccontextmanager
    async def inflict(self, cluster: ClusterUnderTest, parameters: Parameters) -> AsyncIterator[None]:
        node = parameters["node"]
        await cluster.ask_any("POST", f"/v1/nodes/{node}/drain")
        try:
            yield
        finally:
            await cluster.ask_any("POST", f"/v1/nodes/{node}/undrain")


class Rebalance(MemberFault):
    """Replicas are moved to where there are fewer."""

    kind = "rebalance"
    lasts_s = (1.0, 3.0)

    def draw(self, rng: Random, nodes: Sequence[int]) -> Drawn:
        return Drawn("the cluster", {})

    @asynccontextmanager
    async def inflict(self, cluster: ClusterUnderTest, parameters: Parameters) -> AsyncIterator[None]:
        await cluster.ask_any("POST", "/v1/rebalance", {"dry_run": False})
        yield


class Exchange(MemberFault):
    """A new node joins and gets replicas; at the end it is drained and removed. Its number is not used again."""

    kind = "exchange"
    lasts_s = (12.0, 24.0)

    def draw(self, rng: Random, nodes: Sequence[int]) -> Drawn:
        return Drawn("a new node", {})

    @asynccontextmanager
    async def inflict(self, cluster: ClusterUnderTest, parameters: Parameters) -> AsyncIterator[None]:
        spares = cluster.spares
        if not spares:
            raise AdminRefused("there is no number left for a new node")
        node = spares[0]
        cluster.add_node(node)
        try:
            await until(lambda: _joined(cluster, node), _PATIENCE_S, f"node {node} has not joined")
            await cluster.ask_any("POST", "/v1/rebalance", {"dry_run": False})
            yield
        finally:
            await until(lambda: _left(cluster, node), _PATIENCE_S, f"node {node} could not be drained and removed")


async def _joined(cluster: ClusterUnderTest, node: int) -> bool:
    facts = await cluster.facts_of(node)
    if facts is None and not cluster.process(node).runs:
        cluster.process(node).start()  # it asked in vain, and gave up
    return facts is not None and facts["state"] == "alive"


async def _left(cluster: ClusterUnderTest, node: int) -> bool:
    """One step on the way out; whether it was the last one."""
    facts = await cluster.facts_of(node)
    if facts is None or (facts["state"] == "draining" and facts["replicas"] == 0):
        return await cluster.remove_node(node)
    if facts["state"] != "draining":
        await cluster.ask_any("POST", f"/v1/nodes/{node}/drain")
    return False
