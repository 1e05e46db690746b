"""What more partitions and more connections cost Quorate, at the same total load."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from bench.kafka.job import Spec
from bench.kafka.readings import Say
from bench.kafka.run import run_job
from bench.kafka.systems import make
from bench.peers.api import cpu_seconds

RATE = 20_000
"""Messages a second, whatever they are spread over."""
PARTITIONS = (1, 10, 100, 1_000)
CONNECTIONS = (1, 10, 100)


@dataclass(frozen=True, kw_only=True)
class Growth:
    """One number of partitions or connections."""

    partitions: int
    connections: int
    create_s: float
    per_s: float
    p50_ms: float
    p99_ms: float
    cpu_per_million: float
    client_share: float
    idle_share: float
    """Of one core, the busiest node, with all these partitions and no load."""
    resident_mb: float
    """The largest node."""
    missing: int


def measure(
    folder: Path, seconds: float, say: Say, *, partitions: tuple[int, ...], connections: tuple[int, ...]
) -> list[Growth]:
    """Each in a cluster of its own, so that none carries the partitions of the one before it."""
    cases = [(count, 1) for count in partitions] + [(1, count) for count in connections if count > 1]
    return [_case(folder / f"growth-{index}", seconds, say, *case) for index, case in enumerate(cases)]


def _case(folder: Path, seconds: float, say: Say, partitions: int, connections: int) -> Growth:
    say(f"growth: {partitions:,} partitions, {connections} connections")
    system = make("quorate", folder)
    try:
        system.peer.start()
        began = time.perf_counter()
        system.create("grow", partitions)
        create_s = time.perf_counter() - began
        idle_share = _idle_share(list(system.peer.pids.values()), min(seconds, 3.0))
        spec = Spec(
            do="produce",
            bootstrap=system.peer.bootstrap,
            topic="grow",
            partitions=partitions,
            connections=connections,
            seconds=seconds,
            rate=RATE,
        )
        made = run_job(system, spec)
        resident = max(map(_resident_mb, system.peer.pids.values()))
    finally:
        system.peer.stop()
    return Growth(
        partitions=partitions,
        connections=connections,
        create_s=create_s,
        per_s=made["messages"] / made["seconds"],
        p50_ms=made["p50_ms"],
        p99_ms=made["p99_ms"],
        cpu_per_million=1e6 * made["broker_cpu_s"] / made["messages"],
        client_share=made["client_cpu_s"] / made["seconds"],
        idle_share=idle_share,
        resident_mb=resident,
        missing=made["failed"],
    )


def _idle_share(pids: list[int], seconds: float) -> float:
    before = [cpu_seconds([pid]) for pid in pids]
    time.sleep(seconds)
    return max((cpu_seconds([pid]) - spent) / seconds for pid, spent in zip(pids, before, strict=True))


def _resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    return float("nan")
