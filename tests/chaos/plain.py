"""A plain cluster of `quorate up` as the system under test, and a nemesis that kills: what the runner needs, and no more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

import aiohttp

from bench.peers.quorate_up import QuorateUp
from quorate.chaos.api import FaultEvent, Nemesis, NodeUnderTest, Phase, PlannedFault, System

_READY_S = 90.0


class PlainCluster:
    """Three nodes, without proxies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._up = QuorateUp(folder)

    @property
    def bootstrap(self) -> str:
        return self._up.bootstrap

    @property
    def nodes(self) -> Mapping[int, NodeUnderTest]:
        found = {}
        for number, address in enumerate(self._up.bootstrap.split(","), 1):
            host, _, port = address.rpartition(":")
            data = self._folder / "data" / f"node-{number}"
            found[number] = NodeUnderTest(address, f"http://{host}:{int(port) + 100}", data / "log", data)
        return found

    async def start(self) -> None:
        await asyncio.to_thread(self._up.start)

    async def stop(self) -> None:
        await asyncio.to_thread(self._up.stop)

    async def heal(self) -> None:
        for node in set(self.nodes) - set(self._up.pids):
            await asyncio.to_thread(self._up.restart, node)
        deadline = time.monotonic() + _READY_S
        async with aiohttp.ClientSession() as session:
            for number, one in self.nodes.items():
                while not await _ready(session, one.http):
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"node {number} is not ready after {_READY_S:.0f} s")
                    await asyncio.sleep(0.1)

    def kill(self, node: int) -> None:
        self._up.kill(node)

    def restart(self, node: int) -> None:
        self._up.restart(node)


async def _ready(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(f"{url}/readyz", timeout=aiohttp.ClientTimeout(total=2)) as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


class Killer:
    """kill -9 of one node after another; each is down for a moment."""

    def __init__(self, seed: int, seconds: float, system: System) -> None:
        random = Random(seed)
        self._planned: list[PlannedFault] = []
        at_s = 2.0
        while at_s + 2.0 < seconds:
            node = random.choice(sorted(system.nodes))
            self._planned.append(PlannedFault(at_s=at_s, until_s=at_s + 2.0, kind="kill", target=f"node {node}"))
            at_s += 5.0

    def plan(self) -> Sequence[PlannedFault]:
        return self._planned

    async def run(self, system: System, say: Callable[[FaultEvent], None]) -> None:
        began = time.monotonic()

        def tell(fault: PlannedFault, phase: Phase) -> None:
            say(FaultEvent(time_ns=time.monotonic_ns(), kind=fault.kind, phase=phase, text=fault.target))

        for fault in self._planned:
            await asyncio.sleep(max(0.0, began + fault.at_s - time.monotonic()))
            assert isinstance(system, PlainCluster)
            node = int(fault.target.split()[1])
            await asyncio.to_thread(system.kill, node)
            tell(fault, "begin")
            await asyncio.sleep(max(0.0, began + fault.until_s - time.monotonic()))
            await asyncio.to_thread(system.restart, node)
            tell(fault, "end")


def make_killer(names: Sequence[str], seed: int, seconds: float, system: System) -> Nemesis:
    """Fits `make_nemesis`."""
    return Killer(seed, seconds if names else 0.0, system)
