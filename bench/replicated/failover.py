"""The leader is killed, or goes silent, again and again under load: how long is nothing acknowledged, is anything lost?"""

from __future__ import annotations

import asyncio
import json
import random
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.replicated import wire
from bench.replicated.client import SEQUENCE, Client, ClientSpec
from bench.replicated.processes import NodeProcesses, line_of, start, stop
from quorate.consensus.batch.header import HEADER_BYTES
from quorate.consensus.core import BatchKind, Configuration, Offset, new_group, replica_id
from quorate.consensus.storage.level import LevelLog

_SETTLE_S = 30.0
_READ_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Failover:
    """Over all kills: the longest time without an acknowledgement after each."""

    kills: int
    gaps_ms: tuple[float, ...]
    p50_ms: float
    worst_ms: float
    acknowledged: int
    lost: int
    """Acknowledged appends that are not where they were said to be on a majority of the disks."""


def measure(folder: Path, kills: int, say: Callable[[str], None], seed: int = 1, *, silent: bool = False) -> Failover:
    """Kill the leader (-9) so many times, each time bringing the dead node back before the next.

    `silent`: stop it (SIGSTOP) instead, until somebody else leads. It comes back believing that it leads.
    """
    journal = folder / "acknowledged"
    chance = random.Random(seed)
    with NodeProcesses(folder / "nodes", groups=1) as nodes:
        spec = ClientSpec(
            ports=nodes.client_ports, groups=1, batch_bytes=1024, in_flight=32, duration_s=None, journal=str(journal)
        )
        client = start("bench.replicated.client", spec.encode())
        moments = []
        try:
            line_of(client, _SETTLE_S)
            for number in range(kills):
                leader = asyncio.run(_settled(nodes, spec, chance.uniform(0.3, 0.8)))
                moments.append(nodes.pause(leader) if silent else nodes.kill(leader))
                say(f"failover: kill {number + 1} of {kills}")
                asyncio.run(_other_leader(nodes, spec, leader))
                if silent:
                    nodes.resume(leader)
                else:
                    nodes.start(leader)
                    nodes.await_ready(leader)
            asyncio.run(_settled(nodes, spec, 0.5))
            client.terminate()
            figures = json.loads(line_of(client, _SETTLE_S))
        finally:
            stop(client)
        nodes.stop()
        acknowledged = _read_journal(journal)
        logs = [_numbers_in(nodes, node) for node in nodes.ids]
        lost = sum(not _on_majority(logs, offset, number) for number, offset in acknowledged.items())
    ends = [*moments[1:], float("inf")]
    gaps = [1000 * _longest_between(figures["gaps"], *span) for span in zip(moments, ends, strict=True)]
    return Failover(
        kills=kills,
        gaps_ms=tuple(round(gap, 1) for gap in gaps),
        p50_ms=median(gaps),
        worst_ms=max(gaps),
        acknowledged=len(acknowledged),
        lost=lost,
    )


def _longest_between(gaps: list[tuple[float, float]], kill: float, next_kill: float) -> float:
    """The longest gap that ended after a kill and before the next; gaps too short to be noted count as none."""
    return max((end - begin for begin, end in gaps if kill <= end < next_kill and begin < kill + 5), default=0.0)


async def _settled(nodes: NodeProcesses, spec: ClientSpec, then_s: float) -> int:
    """The leader, once all nodes are up and have nearly the same commit offset; a moment later."""
    async with asyncio.timeout(_SETTLE_S):
        client = Client(spec)
        for node in nodes.ids:
            await client.connect(node)
        while True:
            said = {node: await client.ask(node, wire.LEADER, 1) for node in nodes.ids}
            heard = [one for one in said.values() if one is not None]
            leaders = {one[0] for one in heard}
            commits = [one[1] for one in heard]
            if len(heard) == len(nodes.ids) and len(leaders) == 1 and max(commits) - min(commits) < 1_000:
                leader = leaders.pop()
                if leader:
                    break
            await asyncio.sleep(0.02)
        client.close()
        await asyncio.sleep(then_s)
        return leader


async def _other_leader(nodes: NodeProcesses, spec: ClientSpec, dead: int) -> None:
    async with asyncio.timeout(_SETTLE_S):
        client = Client(spec)
        for node in nodes.ids:
            if node != dead:
                await client.connect(node)
        while True:
            said = [await client.ask(node, wire.LEADER, 1) for node in nodes.ids if node != dead]
            if all(one is not None and one[0] not in (0, dead) for one in said):
                break
            await asyncio.sleep(0.02)
        client.close()
        # Let the survivors serve for a moment, so that a gap after the restart is not taken for this one.
        await asyncio.sleep(0.3)


def _read_journal(path: Path) -> dict[int, int]:
    pairs = array("q")
    pairs.frombytes(path.read_bytes())
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def _numbers_in(nodes: NodeProcesses, node: int) -> dict[int, int]:
    """Which numbered append is at which offset of a node's log."""
    members = Configuration(voters=frozenset(map(replica_id, nodes.ids)))
    log = LevelLog.open(nodes.folder / f"n{node}" / "g1", new_group(members))
    try:
        there: dict[int, int] = {}
        first = Offset(log.start + 1)
        while batches := log.read(first, _READ_BYTES):
            for batch in batches:
                if batch.kind is BatchKind.DATA:
                    there[batch.base] = SEQUENCE.unpack_from(batch.data, HEADER_BYTES)[0]
            first = Offset(batches[-1].last + 1)
        return there
    finally:
        log.close()


def _on_majority(logs: list[dict[int, int]], offset: int, number: int) -> bool:
    return sum(log.get(offset) == number for log in logs) > len(logs) // 2
