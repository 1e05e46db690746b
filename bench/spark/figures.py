"""What was read how fast: medians of the rounds, ratios, the aim, as JSON and as a table."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from statistics import median

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bench.machine import Machine
from bench.spark.readings import SYSTEMS, Reading

AIM = 1.0


@dataclass(kw_only=True)
class Figures:
    """All readings, in the order in which they were made."""

    machine: Machine
    quick: bool
    cores: int
    """Of Spark; the cluster's three nodes share the machine with it."""
    spark: str
    connector: str | None = None
    """The version of Spark's Kafka connector."""
    left_out: str | None = None
    """Why there is none."""
    readings: list[Reading] = field(default_factory=list)

    def cases(self) -> list[tuple[int, int, str]]:
        """Size, partitions and sink, in order."""
        return sorted({(one.size, one.partitions, one.sink) for one in self.readings})

    def per_s(self, system: str, case: tuple[int, int, str]) -> float | None:
        """Rows a second, the median of the rounds."""
        found = [one.per_s for one in self.readings if (one.size, one.partitions, one.sink) == case and one.system == system]
        return median(found) if found else None

    def ratio(self, case: tuple[int, int, str]) -> float | None:
        """Ours over theirs."""
        ours, theirs = self.per_s("quorate", case), self.per_s("kafka", case)
        return ours / theirs if ours is not None and theirs is not None else None


def as_json(figures: Figures) -> str:
    """Every reading, and the ratios."""
    ratios = [
        {"size": size, "partitions": partitions, "sink": sink, "ratio": figures.ratio((size, partitions, sink))}
        for size, partitions, sink in figures.cases()
    ]
    return json.dumps({**asdict(figures), "aim": AIM, "ratios": ratios}, indent=2)


def as_table(figures: Figures) -> RenderableType:
    """For people."""
    machine = figures.machine
    note = f"{machine.cpu}, {machine.cores} cores, load {machine.load} at the start; {machine.python}; {machine.system}"
    title = f"Spark {figures.spark} on {figures.cores} cores reads a queue (rows/s, medians; aim: {AIM:g} x the connector)"
    table = Table(title=title, title_justify="left", title_style="bold")
    theirs = f"Kafka connector {figures.connector}" if figures.connector else SYSTEMS["kafka"]
    for heading in ("values", "partitions", "into", "quorate", "MB/s", theirs, "ratio", "aim"):
        table.add_column(heading, justify="left" if heading in {"into", "aim"} else "right")
    for case in figures.cases():
        _row(table, figures, case)
    blocks: list[RenderableType] = [Text(note, style="dim"), table]
    if figures.left_out is not None:
        blocks.append(Text(f"{SYSTEMS['kafka']} is left out: {figures.left_out}", style="yellow"))
    elif figures.connector != figures.spark:
        text = f"There is no Kafka connector of Spark {figures.spark} to be had here; this is that of {figures.connector}."
        blocks.append(Text(text, style="yellow"))
    if figures.quick:
        blocks.append(Text("A quick run ends before Java is warm: it shows that everything works.", style="yellow"))
    return Group(*blocks)


def _row(table: Table, figures: Figures, case: tuple[int, int, str]) -> None:
    size, partitions, sink = case
    ours, theirs, ratio = figures.per_s("quorate", case), figures.per_s("kafka", case), figures.ratio(case)
    verdict = Text("not measured", style="dim")
    if ratio is not None:
        verdict = Text("met", style="green") if ratio >= AIM else Text("NOT met", style="red")
    table.add_row(
        f"{size:,} B",
        str(partitions),
        sink,
        _number(ours),
        _number(ours * size / 1e6 if ours is not None else None),
        _number(theirs),
        f"{ratio:.2f}" if ratio is not None else "",
        verdict,
    )


def _number(value: float | None) -> str:
    return f"{value:,.0f}" if value is not None else ""
