"""Groups that do nothing, on three real nodes: what they cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.replicated import wire
from bench.replicated.client import Client, ClientSpec
from bench.replicated.processes import NodeProcesses

_SETTLE_S = 120.0
_QUIET_S = 3.0


@dataclass(frozen=True, kw_only=True)
class Idle:
    """The dearest of the nodes."""

    groups: int
    core_share: float
    """CPU time per second of one node."""
    resident_mb: float


def measure(folder: Path, groups: int, duration_s: float, say: Callable[[str], None]) -> Idle:
    """Start so many groups, wait until each has a leader, then watch them do nothing."""
    say(f"idle: opening {groups} groups on each of 3 nodes")
    with NodeProcesses(folder / "idle", groups) as nodes:
        say(f"idle: watching {groups} groups")
        spec = ClientSpec(ports=nodes.client_ports, groups=groups, batch_bytes=100, in_flight=1)
        return asyncio.run(_watch(nodes, spec, duration_s))


async def _watch(nodes: NodeProcesses, spec: ClientSpec, duration_s: float) -> Idle:
    client = Client(spec)
    for node in nodes.ids:
        await client.connect(node)
    async with asyncio.timeout(_SETTLE_S):
        for group in range(1, spec.groups + 1):
            while True:
                if await client.find_leader(group) is not None:
                    break
                await asyncio.sleep(0.05)
    await asyncio.sleep(_QUIET_S)
    before = [await client.ask(node, wire.USAGE, 0) for node in nodes.ids]
    await asyncio.sleep(duration_s)
    after = [await client.ask(node, wire.USAGE, 0) for node in nodes.ids]
    client.close()
    pairs = [(one, other) for one, other in zip(before, after, strict=True) if one is not None and other is not None]
    return Idle(
        groups=spec.groups,
        core_share=max((other[0] - one[0]) / 1e6 / duration_s for one, other in pairs),
        resident_mb=max(other[1] for _, other in pairs) / 1e6,
    )
