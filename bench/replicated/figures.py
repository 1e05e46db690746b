"""What the benchmark says: its figures as JSON for scripts, and as tables for people, with the aims beside them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from statistics import median

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bench.machine import Machine
from bench.replicated.failover import Failover
from bench.replicated.idle import Idle

AIM_RATIO = 0.5
AIM_RATIO_FROM = 65_536
AIM_FAILOVER_P50_MS, AIM_FAILOVER_WORST_MS = 400.0, 1_000.0
AIM_IDLE_SHARE, AIM_IDLE_MB = 0.05, 200.0


@dataclass(frozen=True, kw_only=True)
class Limit:
    """What three processes reach that only write these batches, synced; and one such write."""

    batch_bytes: int
    mb_per_s: float
    grouped_mb_per_s: float
    """The same with about a MiB of batches per sync."""
    write_ms: float


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One load."""

    batch_bytes: int
    in_flight: int
    groups: int
    mb_per_s: float
    batches_per_s: float
    p50_ms: float
    p99_ms: float
    ratio: float | None
    """Of the limit for this batch size."""
    retried: int


@dataclass(frozen=True, kw_only=True)
class Single:
    """One small append at a time, and right before it what it is compared with."""

    write_ms: float
    round_trip_ms: float
    p50_ms: float
    p99_ms: float

    @property
    def aim_ms(self) -> float:
        """Three synced writes and one round trip."""
        return 3 * self.write_ms + self.round_trip_ms


@dataclass(kw_only=True)
class Figures:
    """Everything that one call of the benchmark has measured."""

    machine: Machine
    singles: list[Single] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    failover: Failover | None = None
    idle: Idle | None = None

    def limit(self, batch_bytes: int) -> Limit | None:
        return next((limit for limit in self.limits if limit.batch_bytes == batch_bytes), None)


def as_json(figures: Figures) -> str:
    """All figures."""
    return json.dumps(asdict(figures), indent=2)


def as_tables(figures: Figures) -> RenderableType:
    """All figures, for people."""
    machine = figures.machine
    parts: list[RenderableType] = [
        Text(f"{machine.cpu}, {machine.cores} cores, load {machine.load}; {machine.system}; {machine.python}")
    ]
    if figures.cells:
        parts.append(_cells(figures))
    if figures.limits:
        parts.append(_limits(figures))
    parts.extend(Text(line) for line in _lines(figures))
    return Group(*parts)


def _cells(figures: Figures) -> Table:
    table = Table(title="Appends, acknowledged by a majority with fsync: 3 node processes, 1 client process, loopback")
    for name in ("batch", "groups", "in flight", "MB/s", "batches/s", "p50 ms", "p99 ms", "of the limit"):
        table.add_column(name, justify="right")
    previous = None
    for cell in figures.cells:
        if previous is not None and (cell.batch_bytes, cell.groups) != previous:
            table.add_section()
        previous = (cell.batch_bytes, cell.groups)
        table.add_row(
            size(cell.batch_bytes),
            f"{cell.groups}",
            f"{cell.in_flight}",
            f"{cell.mb_per_s:.1f}",
            f"{cell.batches_per_s:,.0f}",
            f"{cell.p50_ms:.2f}",
            f"{cell.p99_ms:.2f}",
            "" if cell.ratio is None else f"{cell.ratio:.2f}",
        )
    return table


def _limits(figures: Figures) -> Table:
    table = Table(title="The limit: 3 processes that only write the same batches, synced, each to a LevelDB of its own")
    for name in ("batch", "MB/s each", "MB/s each, 1 MiB per sync", "one write ms"):
        table.add_column(name, justify="right")
    for limit in figures.limits:
        table.add_row(
            size(limit.batch_bytes), f"{limit.mb_per_s:.1f}", f"{limit.grouped_mb_per_s:.1f}", f"{limit.write_ms:.3f}"
        )
    return table


def _lines(figures: Figures) -> list[str]:
    lines = []
    best: dict[int, float] = {}
    for cell in figures.cells:
        if cell.ratio is not None and cell.batch_bytes >= AIM_RATIO_FROM:
            best[cell.batch_bytes] = max(best.get(cell.batch_bytes, 0.0), cell.ratio)
    for batch_bytes, ratio in sorted(best.items()):
        lines.append(f"{size(batch_bytes)}: {ratio:.2f} of the limit at best; aim {AIM_RATIO} {_mark(ratio >= AIM_RATIO)}")
    if figures.singles:
        lines.append(_single(figures.singles))
    if figures.failover is not None:
        failover = figures.failover
        kept = failover.lost == 0
        quick = failover.p50_ms <= AIM_FAILOVER_P50_MS and failover.worst_ms <= AIM_FAILOVER_WORST_MS
        lines.append(
            f"Failover, {failover.kills} kills: longest gap p50 {failover.p50_ms:.0f} ms, worst {failover.worst_ms:.0f} ms "
            f"{_mark(quick)}; {failover.acknowledged:,} acknowledged, {failover.lost} lost {_mark(kept)}"
        )
    if figures.idle is not None:
        idle = figures.idle
        cheap = idle.core_share <= AIM_IDLE_SHARE and idle.resident_mb <= AIM_IDLE_MB
        lines.append(
            f"{idle.groups:,} idle groups: {idle.core_share:.1%} of a core and {idle.resident_mb:.0f} MB per node "
            f"{_mark(cheap)}"
        )
    return lines


def _single(singles: list[Single]) -> str:
    p50, aim = median(one.p50_ms for one in singles), median(one.aim_ms for one in singles)
    pairs = ", ".join(f"{one.p50_ms:.2f}/{one.aim_ms:.2f}" for one in singles)
    return f"A single small append: p50 {p50:.2f} ms; aim {aim:.2f} ms {_mark(p50 <= aim)}; round by round {pairs}"


def _mark(met: bool) -> str:
    return "(met)" if met else "(NOT met)"


def size(batch_bytes: int) -> str:
    """`64 KiB`."""
    if batch_bytes >= 1 << 20:
        return f"{batch_bytes >> 20} MiB"
    return f"{batch_bytes >> 10} KiB" if batch_bytes >= 1 << 10 else f"{batch_bytes} B"
