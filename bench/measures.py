"""The two measurements: batches through one group, and many groups that do nothing.

Each function makes one run and returns plain figures. Not here: repeating, summing up, printing.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from time import perf_counter, process_time

from bench.cluster import BenchmarkFailed, Cluster
from quorate.consensus.core import GroupId, Millis, Raft, Refused

GROUP = GroupId(0)


@dataclass(frozen=True, kw_only=True)
class Load:
    """How proposals come to the leader of one group."""

    in_flight: int
    """How many proposals wait for their commit at any time."""
    one_by_one: bool = False
    """Whether each proposal gets a turn, appends and answers of its own. Otherwise those that wait travel together."""
    batch_bytes: int = 16 * 1024

    @property
    def delay(self) -> int:
        """Turns that a message travels: one by one, a round trip lasts until everything in flight has been proposed."""
        return max(0, self.in_flight // 2 - 1) if self.one_by_one else 0

    @property
    def per_turn(self) -> int:
        """The most proposals between two turns of the leader."""
        return 1 if self.one_by_one else self.in_flight


@dataclass(frozen=True, kw_only=True)
class LoadRun:
    """One run of a load. The CPU time is that of all three nodes and of handing messages over between them."""

    committed: int
    wall_s: float
    cpu_s: float

    @property
    def per_second(self) -> float:
        """Committed proposals per second of wall-clock time."""
        return self.committed / self.wall_s

    @property
    def us_per_batch(self) -> float:
        """Microseconds of CPU per committed batch, over all three nodes."""
        return 1e6 * self.cpu_s / self.committed


def run_load(load: Load, seconds: float) -> LoadRun:
    """Keep `in_flight` proposals going for some seconds. The nodes' clocks follow the wall clock, heartbeats included."""
    cluster = Cluster(1, delay=load.delay)
    cluster.elect()
    leader = cluster.leader(GROUP)
    data = bytes(load.batch_bytes)
    gc.collect()
    origin, before = cluster.now, leader.log.commit
    cpu, wall = process_time(), perf_counter()
    # At least one commit, however short the run: a figure per batch needs a batch.
    while (elapsed := perf_counter() - wall) < seconds or leader.log.commit == before:
        now = Millis(origin + int(1000 * elapsed))
        if now > cluster.now:
            cluster.tick(now)
        _propose(leader, data, load)
        for node in cluster.nodes:
            cluster.turn(node)
    cpu, wall = process_time() - cpu, perf_counter() - wall
    cluster.check_leaders()
    return LoadRun(committed=leader.log.commit - before, wall_s=wall, cpu_s=cpu)


def _propose(leader: Raft, data: bytes, load: Load) -> None:
    # One record per batch, so offsets count batches.
    room = load.in_flight - (leader.log.last - leader.log.commit)
    try:
        for _ in range(min(room, load.per_turn)):
            leader.propose(data)
    except Refused as refusal:
        raise BenchmarkFailed(f"the leader refused a proposal: {refusal}") from refusal


@dataclass(frozen=True, kw_only=True)
class IdleRun:
    """One run of idle groups. Shares are of one core: 0.05 is 5 %."""

    shares: tuple[float, ...]
    """CPU seconds per virtual second, node by node."""
    wakeups: float
    """Turns per node and virtual second."""
    messages: float
    """Messages that a node sends per virtual second, beats and their answers included."""

    @property
    def share(self) -> float:
        """The share of the busiest node."""
        return max(self.shares)


def prepare_idle(groups: int) -> Cluster:
    """Three nodes with this many groups, led by each node in turn, long enough after the election to be quiet."""
    cluster = Cluster(groups)
    cluster.elect()
    gc.collect()
    return cluster


def run_idle(cluster: Cluster, virtual_seconds: float) -> IdleRun:
    """Let virtual time pass from deadline to deadline, and add up what each node's own work costs."""
    cpu, wakeups, messages = dict(cluster.cpu_s), cluster.wakeups, cluster.messages
    cluster.pass_time(Millis(cluster.now + int(1000 * virtual_seconds)))
    cluster.check_leaders()
    node_seconds = virtual_seconds * len(cluster.nodes)
    return IdleRun(
        shares=tuple((cluster.cpu_s[node] - before) / virtual_seconds for node, before in cpu.items()),
        wakeups=(cluster.wakeups - wakeups) / node_seconds,
        messages=(cluster.messages - messages) / node_seconds,
    )
