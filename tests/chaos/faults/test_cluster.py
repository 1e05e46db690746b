"""Faults on a real cluster of three: each is felt while it lasts, and afterwards all is well and nothing is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from quorate.chaos.admin import AdminRefused, ask
from quorate.chaos.api import FaultEvent, PlannedFault
from quorate.chaos.faults.clock import Jump
from quorate.chaos.faults.disk import Failing, Full, Rot, Slow
from quorate.chaos.faults.members import Drain, Exchange
from quorate.chaos.faults.network import Bridge, OneWay, Partition
from quorate.chaos.faults.process import Kill, Pause, Power
from quorate.chaos.nemesis import Schedule
from tests.chaos.faults.stand import Stand, stand

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("toxiproxy_binary", "disk_library")]


async def others_of(on: Stand, node: int) -> list[int]:
    return [other for other in on.cluster.members if other != node]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while True:
            if condition():
                return
            await asyncio.sleep(0.02)


async def check_whole(on: Stand) -> None:
    """Healed, and everything acknowledged is there once, in order, at times that never fall."""
    await on.cluster.heal()
    await on.produce(3)
    found = await on.read()
    assert [value for value, _ in found] == on.acked
    times = [stamp for _, stamp in found]
    assert times == sorted(times)


def test_networks_and_processes(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stand(tmp_path) as on:
            cluster = on.cluster
            await on.produce(5)
            node = await on.leader()
            others = await others_of(on, node)
            async with Partition().inflict(cluster, {"sides": [[node], others], "how": "drop"}):
                await on.until_seen(node, "suspect", others)
                await on.produce(5)
                assert await on.leader() != node
            await check_whole(on)

            node = await on.leader()
            others = await others_of(on, node)
            async with OneWay().inflict(cluster, {"node": node, "flows": [[node, other] for other in others]}):
                await on.until_seen(others[0], "suspect", [node])
                assert (await on.states(node))[others[0]] == "alive", "it still hears the others"
                await on.produce(2)
            await check_whole(on)

            async with Bridge().inflict(cluster, {"halves": [[1], [3]], "bridge": 2}):
                await on.until_seen(1, "suspect", [3])
                assert (await on.states(1))[2] == "alive"
                await on.produce(2)
            await check_whole(on)

            node = await on.leader()
            async with Kill().inflict(cluster, {"nodes": [node]}):
                assert not cluster.process(node).runs
                await on.produce(2)
            await check_whole(on)

            node = await on.leader()
            async with Pause().inflict(cluster, {"nodes": [node]}):
                with pytest.raises(AdminRefused):
                    await ask(cluster.http(node), "GET", "/healthz", timeout_s=0.3)
                await on.produce(2)
            await check_whole(on)

    asyncio.run(scene())


def test_disks_clocks_and_power(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stand(tmp_path) as on:
            cluster, all_nodes = on.cluster, on.cluster.members
            assert await on.produce(5) < 10
            async with Slow().inflict(cluster, {"nodes": all_nodes, "sync_ms": 150}):
                assert await on.produce() >= 0.15
            await check_whole(on)

            node = await on.leader()
            before = cluster.disk(node).refused
            async with Full().inflict(cluster, {"nodes": [node]}):
                # The leader keeps its place, so producers wait until there is room again.
                producing = asyncio.create_task(on.produce(2))
                await until(lambda: cluster.disk(node).refused > before)
            await producing
            await check_whole(on)

            node = await on.leader()
            before = cluster.disk(node).refused
            async with Failing().inflict(cluster, {"nodes": [node], "call": "sync", "seed": 1}):
                await on.produce(2)
                assert cluster.disk(node).refused > before
            await check_whole(on)

            async with Jump().inflict(cluster, {"shifts": [[node, 3_600_000, 0] for node in all_nodes]}):
                await on.produce()
                assert (await on.read())[-1][1] > (time.time() + 3_000) * 1000
            await check_whole(on)

            async with Power().inflict(cluster, {"nodes": all_nodes, "seed": 5}):
                assert not any(cluster.process(node).runs for node in all_nodes)
            await check_whole(on)

            node = await on.leader()
            async with Rot().inflict(cluster, {"nodes": [node], "how": "truncate", "type": "journal", "seed": 3}):
                await on.produce(2)
            await check_whole(on)

            async with Drain().inflict(cluster, {"node": 2}):
                await on.until_seen(1, "draining", [2])
                await on.produce(2)
            await check_whole(on)

    asyncio.run(scene())


def test_a_node_comes_and_goes_while_another_dies(tmp_path: Path) -> None:
    async def scene() -> None:
        async with stand(tmp_path) as on:
            cluster, new = on.cluster, on.cluster.spares[0]
            await on.produce(5)
            async with Exchange().inflict(cluster, {}):
                assert sorted(await on.states(1)) == [1, 2, 3, new]
                node = await on.leader()
                async with Kill().inflict(cluster, {"nodes": [node]}):
                    await on.produce(2)
                await on.until_held(new)
                await on.produce(2)
            assert sorted(await on.states(1)) == cluster.members == [1, 2, 3]
            assert not cluster.process(new).runs
            assert new not in cluster.spares, "a number is never used again"
            await check_whole(on)

    asyncio.run(scene())


def test_a_schedule_is_carried_out_and_told(tmp_path: Path) -> None:
    planned = [
        PlannedFault(at_s=0.1, until_s=1.0, kind="kill", target="node 1", parameters={"nodes": [1]}),
        PlannedFault(at_s=0.5, until_s=1.5, kind="pause", target="node 99", parameters={"nodes": [99]}),
    ]

    async def scene() -> None:
        async with stand(tmp_path) as on:
            said: list[FaultEvent] = []
            running = asyncio.create_task(Schedule(planned).run(on.cluster, said.append))
            await running
            assert [(one.kind, one.phase) for one in said] == [("kill", "begin"), ("pause", "failed"), ("kill", "end")]
            assert "node 99" in said[1].text
            await check_whole(on)
            # Cancelled in the middle, it leaves nothing broken that `heal` would not mend.
            begun = asyncio.Event()
            running = asyncio.create_task(Schedule(planned[:1]).run(on.cluster, lambda _: begun.set()))
            await asyncio.wait_for(begun.wait(), 60)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await check_whole(on)

    asyncio.run(scene())
