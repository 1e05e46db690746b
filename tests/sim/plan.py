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
    HUNT = "hunt"
    """Whoever becomes leader is cut off, killed or paused soon after: logs diverge, and old terms come back."""


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
    echo_ms: int
    """How long after the first the second copy of a doubled message may come: long enough to come from another term."""
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
        theme = random.choice(_THEMES)
        nodes = random.choice(theme.nodes)
        sizes = [size for size in theme.voters if size <= nodes]
        replicas = []
        for _ in range(random.choice(theme.groups)):
            replicas.append(tuple(sorted(random.sample(range(1, nodes + 1), random.choice(sizes)))))
        faults = {fault: random.choice((1, 2, 5)) for fault in Fault if random.random() < theme.others}
        for fault in theme.faults:
            faults[fault] = random.choice((2, 5))
        return cls(
            seed=seed,
            nodes=nodes,
            replicas=tuple(replicas),
            settings=_settings(random, theme),
            until_ms=random.randrange(1_500, 4_500),
            loss=random.choice(theme.loss),
            double=random.choice(theme.double),
            echo_ms=random.choice(theme.echo_ms),
            slow=random.choice(theme.slow),
            slow_ms=random.choice((50, 300, 1_500)),
            sync_ms=random.choice(theme.sync_ms),
            lazy_ms=random.choice((0, 0, 2, 8)),
            tick_first=random.random() < 0.5,
            propose_ms=random.choice(theme.propose_ms),
            read_ms=random.choice((20, 60)),
            fault_ms=random.choice((40, 80, 150)),
            faults=tuple(faults.items()),
        )


@dataclass(frozen=True, kw_only=True)
class Theme:
    """Faults that bring out the worst in each other, and the sizes at which they do."""

    faults: tuple[Fault, ...] = ()
    others: float = 0.1
    """How likely each other fault takes part too."""
    nodes: tuple[int, ...] = (3, 3, 5)
    voters: tuple[int, ...] = (3, 3, 5)
    groups: tuple[int, ...] = (1,)
    loss: tuple[float, ...] = (0.0, 0.0, 0.02, 0.1)
    double: tuple[float, ...] = (0.0, 0.02, 0.2)
    echo_ms: tuple[int, ...] = (5, 500, 3_000)
    slow: tuple[float, ...] = (0.0, 0.02, 0.1, 0.3)
    sync_ms: tuple[int, ...] = (1, 3, 10, 30)
    propose_ms: tuple[int, ...] = (3, 10, 40)
    beat_ms: tuple[int, ...] = (10, 15, 20)
    max_append_bytes: tuple[int, ...] = (1, 1, 150, 2_000, 1 << 20)
    max_inflight: tuple[int, ...] = (1, 2, 8, 64)


_THEMES = (
    Theme(others=0.4, nodes=(3, 3, 4, 5, 6, 7), voters=(1, 2, 3, 3, 3, 4, 5), groups=(1, 2, 3)),
    # Figure 8: leaders that fall while they are still handing out what an older term left behind, batch by batch.
    Theme(
        faults=(Fault.HUNT,),
        others=0.05,
        loss=(0.0, 0.02),
        slow=(0.0, 0.02, 0.1),
        sync_ms=(1, 3, 10),
        propose_ms=(3, 6),
        beat_ms=(8, 12),
        max_append_bytes=(1, 1, 1, 150),
        max_inflight=(1, 1, 2, 8),
    ),
    # Echoes of old terms: the same leaders come back, with disks that lost what they had, and late answers find them.
    Theme(
        faults=(Fault.HUNT, Fault.CRASH_LEADER, Fault.SLOW_DISK),
        others=0.05,
        loss=(0.0, 0.02),
        double=(0.2, 0.4),
        echo_ms=(300, 1_000),
        slow=(0.0, 0.1),
        propose_ms=(3, 6),
        beat_ms=(8, 12),
    ),
    Theme(faults=(Fault.HUNT, Fault.COMPACT, Fault.SLOW_DISK, Fault.SPLIT)),
    Theme(faults=(Fault.MEMBERS, Fault.HUNT), nodes=(4, 5, 6, 7), voters=(1, 2, 3, 3)),
    Theme(faults=(Fault.MEMBERS, Fault.COMPACT, Fault.SPLIT), nodes=(4, 5, 6, 7), voters=(1, 2, 3, 3)),
)


def _settings(random: Random, theme: Theme) -> RaftSettings:
    heartbeat_ms = random.choice(theme.beat_ms)
    return RaftSettings(
        heartbeat_ms=heartbeat_ms,
        commit_news_ms=3 if heartbeat_ms in (8, 10) else 0,
        election_ms=heartbeat_ms * random.choice((3, 5, 8)),
        max_append_bytes=random.choice(theme.max_append_bytes),
        max_inflight=random.choice(theme.max_inflight),
        max_inflight_bytes=random.choice((1, 300, 1 << 20)),
        max_uncommitted_bytes=random.choice((400, 5_000, 1 << 20)),
        tail_bytes=random.choice((1, 500, 1 << 20)),
        snapshot_retry_ms=random.choice((100, 1_000)),
    )
