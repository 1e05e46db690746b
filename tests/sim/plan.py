"""What one run is like, drawn from its seed: size, settings, and which faults with which weight.

Each run leaves most faults out (swarm testing): a run with everything at once is so broken that little happens in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random

from quorate.consensus.core import RaftSettings


class Fault(Enum):
    """What the nemesis can do."""

    SPLIT = "split"
    ONE_WAY = "one-way"
    BRIDGE = "bridge"
    ISOLATE_LEADER = "isolate-leader"
    HEAL = "heal"
    CRASH = "crash"
    CRASH_LEADER = "crash-leader"
    POWER_LOSS = "power-loss"
    PAUSE = "pause"
    PAUSE_LEADER = "pause-leader"
    CLOCK_JUMP = "clock-jump"
    SLOW_DISK = "slow-disk"
    FAILED_SYNC = "failed-sync"
    CAMPAIGN = "campaign"
    TRANSFER = "transfer"
    COMPACT = "compact"
    MEMBERS = "members"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that a run does not decide on the way."""

    seed: int
    nodes: int
    replicas: tuple[tuple[int, ...], ...]
    """For each group, the nodes of its first voters."""
    settings: RaftSettings
    until_ms: int
    """When the faults end."""
    loss: float
    double: float
    slow: float
    """How likely a message takes up to `slow_ms` instead of a few."""
    slow_ms: int
    sync_ms: int
    """The longest a healthy sync takes."""
    lazy_ms: int
    """How long inputs may wait for the turn that takes them together; 0: every input is a turn."""
    tick_first: bool
    """Whether a machine looks at its clock before it hears what arrived, or only when a deadline wakes it."""
    propose_ms: int
    read_ms: int
    fault_ms: int
    faults: tuple[tuple[Fault, int], ...]

    @classmethod
    def draw(cls, seed: int) -> Plan:
        """The plan of a seed: always the same."""
        random = Random(seed)
        nodes = random.choice((3, 3, 3, 4, 5, 5, 6, 7))
        replicas = []
        for _ in range(random.choice((1, 1, 2, 3))):
            size = random.choice([count for count in (1, 2, 3, 3, 3, 4, 5) if count <= nodes])
            replicas.append(tuple(sorted(random.sample(range(1, nodes + 1), size))))
        chosen = [fault for fault in Fault if random.random() < 0.4]
        return cls(
            seed=seed,
            nodes=nodes,
            replicas=tuple(replicas),
            settings=_settings(random),
            until_ms=random.randrange(1_500, 4_500),
            loss=random.choice((0.0, 0.0, 0.02, 0.1, 0.3)),
            double=random.choice((0.0, 0.02, 0.2)),
            slow=random.choice((0.0, 0.05, 0.3)),
            slow_ms=random.choice((50, 300, 1_500)),
            sync_ms=random.choice((1, 5, 20, 80)),
            lazy_ms=random.choice((0, 0, 2, 8)),
            tick_first=random.random() < 0.5,
            propose_ms=random.choice((3, 10, 40)),
            read_ms=random.choice((20, 60)),
            fault_ms=random.choice((20, 60, 150)),
            faults=tuple((fault, random.choice((1, 2, 5))) for fault in chosen),
        )


def _settings(random: Random) -> RaftSettings:
    heartbeat_ms = random.choice((15, 30, 50))
    return RaftSettings(
        heartbeat_ms=heartbeat_ms,
        election_ms=heartbeat_ms * random.choice((2, 4, 6)),
        max_append_bytes=random.choice((1, 1, 150, 2_000, 1 << 20)),
        max_inflight=random.choice((1, 2, 8, 64)),
        max_inflight_bytes=random.choice((1, 300, 1 << 20)),
        max_uncommitted_bytes=random.choice((400, 5_000, 1 << 20)),
        tail_bytes=random.choice((1, 500, 1 << 20)),
        snapshot_retry_ms=random.choice((100, 1_000)),
    )
