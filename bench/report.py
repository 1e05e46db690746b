"""What a benchmark of the core says: figures summed up over runs, as JSON for scripts and as tables for people."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from statistics import median

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bench.machine import Machine
from bench.measures import IdleRun, Load, LoadRun

AIM_US_PER_BATCH = 60.0
AIM_IDLE_SHARE = 0.05
AIM_IDLE_GROUPS = 1_000


@dataclass(frozen=True, kw_only=True)
class LoadFigures:
    """One load, and all its runs."""

    load: Load
    runs: tuple[LoadRun, ...]


@dataclass(frozen=True, kw_only=True)
class IdleFigures:
    """So many idle groups, and all their runs."""

    groups: int
    runs: tuple[IdleRun, ...]


@dataclass(frozen=True, kw_only=True)
class Report:
    """Everything that one call of the benchmark has measured."""

    machine: Machine
    loads: tuple[LoadFigures, ...]
    idle: tuple[IdleFigures, ...]


def as_json(report: Report) -> str:
    """One JSON object: the machine, the aims, and for each case the best and median figures and every run."""
    loads = [
        {
            **asdict(figures.load),
            "committed_per_second": _best_and_median([run.per_second for run in figures.runs], most=True),
            "us_per_batch": _best_and_median([run.us_per_batch for run in figures.runs]),
            "runs": [asdict(run) for run in figures.runs],
        }
        for figures in report.loads
    ]
    idle = [
        {
            "groups": figures.groups,
            "share_of_core": _best_and_median([run.share for run in figures.runs]),
            "wakeups_per_second": median(run.wakeups for run in figures.runs),
            "messages_per_second": median(run.messages for run in figures.runs),
            "runs": [asdict(run) for run in figures.runs],
        }
        for figures in report.idle
    ]
    aims = {"us_per_batch": AIM_US_PER_BATCH, "share_of_core": AIM_IDLE_SHARE, "idle_groups": AIM_IDLE_GROUPS}
    return json.dumps({"machine": asdict(report.machine), "aims": aims, "loads": loads, "idle": idle}, indent=2)


def _best_and_median(values: list[float], *, most: bool = False) -> dict[str, float]:
    return {"best": max(values) if most else min(values), "median": median(values)}


def as_tables(report: Report) -> RenderableType:
    """For people: one table per measurement, and the machine below."""
    machine = report.machine
    note = f"{machine.cpu}, {machine.cores} cores, load {machine.load} at the start; {machine.python}; {machine.system}"
    blocks: list[RenderableType] = []
    if report.loads:
        blocks += [_load_table(report.loads), ""]
    if report.idle:
        blocks += [_idle_table(report.idle), ""]
    return Group(*blocks, Text(note, style="dim"))


def _load_table(cases: tuple[LoadFigures, ...]) -> Table:
    table = _table(
        f"One group on three nodes (aim: at most {AIM_US_PER_BATCH:.0f} us of Python per batch)",
        ("in flight", "they travel", "batch KiB", "batches/s best", "median", "us/batch best", "median", "aim"),
    )
    for figures in cases:
        rates = [run.per_second for run in figures.runs]
        costs = [run.us_per_batch for run in figures.runs]
        table.add_row(
            str(figures.load.in_flight),
            "one by one" if figures.load.one_by_one else "together",
            f"{figures.load.batch_bytes / 1024:g}",
            f"{max(rates):,.0f}",
            f"{median(rates):,.0f}",
            f"{min(costs):.1f}",
            f"{median(costs):.1f}",
            _verdict(met=median(costs) <= AIM_US_PER_BATCH),
        )
    return table


def _idle_table(cases: tuple[IdleFigures, ...]) -> Table:
    table = _table(
        f"Idle groups on three nodes (aim: {AIM_IDLE_GROUPS:,} in {AIM_IDLE_SHARE:.0%} of a core per node)",
        ("groups", "% of a core best", "median", "wake-ups/s", "messages/s", "aim"),
    )
    for figures in cases:
        shares = [run.share for run in figures.runs]
        met = _verdict(met=median(shares) <= AIM_IDLE_SHARE)
        table.add_row(
            f"{figures.groups:,}",
            f"{100 * min(shares):.2f}",
            f"{100 * median(shares):.2f}",
            f"{median(run.wakeups for run in figures.runs):.0f}",
            f"{median(run.messages for run in figures.runs):.0f}",
            met if figures.groups == AIM_IDLE_GROUPS else "",
        )
    return table


def _table(title: str, headings: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def _verdict(*, met: bool) -> Text:
    return Text("met", style="green") if met else Text("missed", style="red")
