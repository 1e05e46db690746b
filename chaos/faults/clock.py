"""Clocks that are wrong: jumps in both directions, and drift. The wall clock only; Raft's time is monotonic."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random

from quorate.chaos.cluster import ClusterUnderTest
from quorate.chaos.faults.api import Drawn, Fault, Parameters, listed

_SMALL_MS, _LARGE_MS = 500, 3_600_000


class ClockFault(Fault):
    """A fault of wall clocks. Any number of them may be wrong: no promise rests on them."""

    fatal_to_majority = False

    def victims(self, parameters: Parameters) -> frozenset[int]:
        return frozenset()

    def claims(self, parameters: Parameters) -> frozenset[str]:
        return frozenset(f"clock {node}" for node, *_ in parameters["shifts"])

    @asynccontextmanager
    async def inflict(self, cluster: ClusterUnderTest, parameters: Parameters) -> AsyncIterator[None]:
        for node, offset_ms, drift_ppm in parameters["shifts"]:
            cluster.clock(node).set(offset_ms, drift_ppm)
        try:
            yield
        finally:
            for node, *_ in parameters["shifts"]:
                cluster.clock(node).set(0)


class Jump(ClockFault):
    """Clocks jump, each by its own amount, back or forward, from a little to an hour. At the end they jump home."""

    kind = "clock"

    def draw(self, rng: Random, nodes: Sequence[int]) -> Drawn:
        hit = sorted(rng.sample(sorted(nodes), rng.randint(1, len(nodes))))
        shifts = []
        for node in hit:
            size = rng.choice([rng.randint(1, _SMALL_MS), rng.randint(_SMALL_MS, 60_000), _LARGE_MS])
            shifts.append([node, size * rng.choice([-1, 1]), 0])
        target = ", ".join(f"node {node} by {offset / 1000:+.3f} s" for node, offset, _ in shifts)
        return Drawn(target, {"shifts": shifts})


class Drift(ClockFault):
    """Clocks run too fast or too slow, by up to a fifth."""

    kind = "drift"
    lasts_s = (5.0, 15.0)

    def draw(self, rng: Random, nodes: Sequence[int]) -> Drawn:
        hit = sorted(rng.sample(sorted(nodes), rng.randint(1, len(nodes))))
        shifts = [[node, 0, rng.choice([-1, 1]) * rng.randint(500, 200_000)] for node in hit]
        return Drawn(f"{listed(hit)}: {', '.join(f'{ppm:+} ppm' for *_, ppm in shifts)}", {"shifts": shifts})
