"""Processes that die, stand still, die again and again, or lose their power."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from random import Random

from quorate.chaos.cluster import ClusterUnderTest
from quorate.chaos.faults.api import Drawn, Fault, Parameters, listed, some_of


class ProcessFault(Fault):
    """A fault that owns the processes of some nodes while it lasts."""

    def draw(self, rng: Random, nodes: Sequence[int]) -> Drawn:
        few = some_of(rng, nodes)
        return Drawn(listed(few), {"nodes": few})

    def victims(self, parameters: Parameters) -> frozenset[int]:
        return frozenset(parameters["nodes"])

    def claims(self, parameters: Parameters) -> frozenset[str]:
        return frozenset(f"process {node}" for node in parameters["nodes"])


class Kill(ProcessFault):
    """kill -9; started again at the end."""

    kind = "kill"

    @asynccontextmanager
    async def inflict(self, cluster: ClusterUnderTest, parameters: Parameters) -> AsyncIterator[None]:
        await asyncio.gather(*(cluster.process(node).kill() for node in parameters["nodes"]))
        try:
            yield
        finally:
            for node in parameters["nodes"]:
                cluster.process(node).start()


class SlowStart(ProcessFault):
    """kill -9, and a start that takes long, because each sync does."""

    kind = "slow-start"

    def draw(self, rng: Random, nodes: Sequence[int]) -> Drawn:
        few, sync_ms = some_of(rng, nodes), rng.randint(50, 400)
        return Drawn(f"{listed(few)} with syncs of {sync_ms} ms", {"nodes": few, "sync_ms": sync_ms})

    def claims(self, parameters: Parameters) -> frozenset[str]:
        return super().claims(parameters) | {f"disk {node}" for node in parameters["nodes"]}

    @asynccontextmanager
    async def inflict(self, cluster: ClusterUnderTest, parameters: Parameters) -> AsyncIterator[None]:
        try:
            for node in parameters["nodes"]:
                cluster.disk(node).slow(parameters["sync_ms"])
                await cluster.restart(node)
            yield
        finally:
            for node in parameters["nodes"]:
                cluster.disk(node).slow(0)


class Pause(ProcessFault):
    """SIGSTOP, and SIGCONT at the end: it comes back believing that no time has passed."""

    kind = "pause"
    lasts_s = (0.5, 9.0)

    @asynccontextmanager
    async def inflict(self, cluster: ClusterUnderTest, parameters: Parameters) -> AsyncIterator[None]:
        for node in parameters["nodes"]:
            cluster.process(node).pause()
        try:
            yield
        finally:
            for node in parameters["nodes"]:
                cluster.process(node).resume()


class Storm(ProcessFault):
    """Nodes are killed and started again and again, sooner than they may have got ready."""

    kind = "storm"
    lasts_s = (8.0, 20.0)

    def draw(self, rng: Random, nodes: Sequence[int]) -> Drawn:
        few = some_of(rng, nodes)
        order = [rng.choice(few) for _ in range(50)]
        pauses = [round(rng.uniform(0.2, 3.0), 2) for _ in order]
        return Drawn(listed(few), {"nodes": few, "order": order, "pauses_s": pauses})

    @asynccontextmanager
    async def inflict(self, cluster: ClusterUnderTest, parameters: Parameters) -> AsyncIterator[None]:
        storming = asyncio.create_task(self._storm(cluster, parameters), name="storm")
        try:
            yield
        finally:
            storming.cancel()
            with suppress(asyncio.CancelledError):
                await storming
            for node in parameters["nodes"]:
                cluster.process(node).start()

    async def _storm(self, cluster: ClusterUnderTest, parameters: Parameters) -> None:
        for node, pause_s in zip(parameters["order"], parameters["pauses_s"], strict=True):
            await cluster.restart(node)
            await asyncio.sleep(pause_s)


class Power(ProcessFault):
    """All nodes, or some, lose their power at once, and with it whatever no sync has put on the disk."""

    kind = "power"
    lasts_s = (0.5, 4.0)
    fatal_to_majority = False

    def draw(self, rng: Random, nodes: Sequence[int]) -> Drawn:
        hit = sorted(nodes) if rng.random() < 0.7 else some_of(rng, nodes)
        return Drawn("all nodes" if len(hit) == len(nodes) else listed(hit), {"nodes": hit, "seed": rng.getrandbits(32)})

    def claims(self, parameters: Parameters) -> frozenset[str]:
        return super().claims(parameters) | {f"disk {node}" for node in parameters["nodes"]}

    @asynccontextmanager
    async def inflict(self, cluster: ClusterUnderTest, parameters: Parameters) -> AsyncIterator[None]:
        nodes = parameters["nodes"]
        try:
            await asyncio.gather(*(cluster.process(node).kill() for node in nodes))
            for node in nodes:
                await asyncio.to_thread(cluster.disk(node).lose_power, Random(parameters["seed"] + node))
            yield
        finally:
            for node in nodes:
                cluster.process(node).start()


class HandOver(ProcessFault):
    """SIGTERM: the node hands leadership over and stops; started again at the end."""

    kind = "hand-over"
    lasts_s = (1.0, 4.0)

    @asynccontextmanager
    async def inflict(self, cluster: ClusterUnderTest, parameters: Parameters) -> AsyncIterator[None]:
        await asyncio.gather(*(cluster.process(node).stop() for node in parameters["nodes"]))
        try:
            yield
        finally:
            for node in parameters["nodes"]:
                cluster.process(node).start()
