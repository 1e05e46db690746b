"""The figures for people: one table per measurement, then the aims."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import median

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bench.kafka.figures import Figures, aims
from bench.kafka.growth import RATE
from bench.kafka.job import percentile
from bench.kafka.readings import WHAT, Throughput
from bench.kafka.systems import SYSTEMS, TITLES


def as_tables(figures: Figures) -> RenderableType:
    """What was measured, what was left out and why, and each aim as met or NOT met."""
    machine = figures.machine
    note = f"{machine.cpu}, {machine.cores} cores, load {machine.load} at the start; {machine.python}; {machine.system}"
    blocks: list[RenderableType] = [Text(note, style="dim")]
    if figures.throughput:
        blocks.append(_throughput(figures))
    if figures.latency:
        blocks.append(_latency(figures))
    if figures.gaps:
        blocks.append(_gaps(figures))
    if figures.growth:
        blocks.append(_growth(figures))
    blocks += [Text(f"{TITLES[name]} is left out: {why}", style="yellow") for name, why in figures.left_out.items()]
    blocks += [Text(line, style="red") for line in _missing(figures)]
    if figures.throughput or figures.latency or figures.gaps:
        blocks.append(_aims(figures))
    if figures.quick:
        note = "A quick run ends before Java is warm: it shows that everything works, and says little about Kafka's speed."
        blocks.append(Text(note, style="yellow"))
    return Group(*blocks)


def _throughput(figures: Figures) -> Table:
    table = _table(
        "As fast as it goes: 1 partition, 3 replicas, acks=all (medians of the rounds; all that is produced is consumed)",
        ("size", "system", "load", "msgs/s", "MB/s", "p50 ms", "p99 ms", "consumed/s", "CPU s per 1M", "client CPU"),
        left=3,
    )
    for size in sorted({one.size for one in figures.throughput}):
        for name in SYSTEMS:
            readings = [one for one in figures.throughput if (one.size, one.system) == (size, name)]
            for load in dict.fromkeys(one.load for one in readings):
                _throughput_row(table, [one for one in readings if one.load == load])
        table.add_section()
    return table


def _throughput_row(table: Table, rounds: list[Throughput]) -> None:
    def middle(value: Callable[[Throughput], float]) -> float:
        return median(map(value, rounds))

    first = rounds[0]
    table.add_row(
        f"{first.size:,} B",
        TITLES[first.system],
        first.load,
        f"{middle(lambda one: one.per_s):,.0f}",
        f"{middle(lambda one: one.mb_per_s):.1f}",
        f"{middle(lambda one: one.p50_ms):.0f}",
        f"{middle(lambda one: one.p99_ms):.0f}",
        f"{middle(lambda one: one.consumed_per_s):,.0f}",
        f"{middle(lambda one: one.cpu_per_million):.1f}",
        f"{middle(lambda one: one.client_share):.0%}",
    )


def _latency(figures: Figures) -> Table:
    table = _table(
        "How long one 100 B message takes (medians of the rounds)", ("what", "system", "p50 ms", "p99 ms"), left=2
    )
    for what, title in WHAT.items():
        for name in SYSTEMS:
            rounds = [one for one in figures.latency if (one.what, one.system) == (what, name)]
            if rounds:
                p50, p99 = median(one.p50_ms for one in rounds), median(one.p99_ms for one in rounds)
                table.add_row(title, TITLES[name], f"{p50:.2f}", f"{p99:.2f}")
        table.add_section()
    return table


def _gaps(figures: Figures) -> Table:
    title = "kill -9 of the partition's leader at 1,000 messages/s: the longest time without an acknowledgement"
    table = _table(title, ("system", "kills", "p50 ms", "worst ms"), left=1)
    for name in SYSTEMS:
        gaps = figures.gaps_ms(name)
        if gaps:
            table.add_row(TITLES[name], str(len(gaps)), f"{percentile(gaps, 0.5):,.0f}", f"{max(gaps):,.0f}")
    return table


def _growth(figures: Figures) -> Table:
    table = _table(
        f"Quorate with more partitions and connections; {RATE:,} messages/s of 100 B offered",
        (
            "partitions",
            "connections",
            "made in s",
            "msgs/s",
            "p50 ms",
            "p99 ms",
            "CPU s per 1M",
            "idle CPU",
            "MB",
            "client CPU",
        ),
    )
    for one in figures.growth:
        table.add_row(
            f"{one.partitions:,}",
            f"{one.connections:,}",
            f"{one.create_s:.1f}",
            f"{one.per_s:,.0f}",
            f"{one.p50_ms:.1f}",
            f"{one.p99_ms:.1f}",
            f"{one.cpu_per_million:.1f}",
            f"{one.idle_share:.1%}",
            f"{one.resident_mb:.0f}",
            f"{one.client_share:.0%}",
        )
    return table


def _missing(figures: Figures) -> Iterable[str]:
    for one in figures.throughput:
        if one.missing:
            yield f"{TITLES[one.system]}, {one.size} B, {one.load}: {one.missing:,} messages failed or were not found again"
    for grown in figures.growth:
        if grown.missing:
            yield f"Quorate with {grown.partitions:,} partitions: {grown.missing:,} messages failed"


def _aims(figures: Figures) -> Table:
    table = _table("Aims", ("aim", "seen", ""), left=3)
    styles = {True: "green", False: "red", None: "dim"}
    for aim in aims(figures):
        table.add_row(aim.text, aim.seen, Text(aim.verdict, style=styles[aim.met]))
    return table


def _table(title: str, headings: tuple[str, ...], *, left: int = 0) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="left" if index < left else "right")
    return table
