"""`python -m bench.replicated_append`: appends through three real node processes, and what the machine would allow.

This file is the command: its options, what is run in which order, where the results go. The parts are in `bench.replicated`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench.machine import describe
from bench.replicated import failover, idle
from bench.replicated.client import ClientSpec
from bench.replicated.figures import Cell, Figures, Limit, Single, as_json, as_tables, size
from bench.replicated.probe import probe, round_trip_ms
from bench.replicated.processes import NodeProcesses, run_client

HELP = """\
Measure appends that a majority has on disk, fsynced: three node processes and one client process on loopback.

\b
Parts (all of them, unless --only names some):
  single    one small append at a time, in turns with what it is compared with: a synced write, a round trip
  limit     three processes that only write the same batches, synced, to three LevelDBs
  append    batches of 100 B to 1 MiB, 1 to 256 in flight, 1 to 64 groups
  failover  kill -9 of the leader under load: the longest gap between acknowledgements; nothing may be lost
  idle      1,000 groups that do nothing: CPU and memory per node

\b
Examples:
  python -m bench.replicated_append                        everything; takes some minutes
  python -m bench.replicated_append --quick                fewer cells, shorter runs
  python -m bench.replicated_append --only failover        one part
  python -m bench.replicated_append --json figures.json    the figures for a script ("-" prints them)

Run it on a quiet machine: the nodes, the client and everything else share its cores.
"""

PARTS = ("single", "limit", "append", "failover", "idle")
SIZES = (100, 16 * 1024, 64 * 1024, 1024 * 1024)
IN_FLIGHT = (1, 32, 256)
GROUPS = (1, 8, 64)
_MIB = 1 << 20

Say = Callable[[str], None]


@click.command(name="python -m bench.replicated_append", help=HELP, context_settings={"max_content_width": 110})
@click.option("--quick", is_flag=True, help="A quick look: fewer cells, shorter runs, 3 kills, 200 idle groups.")
@click.option("--only", type=click.Choice(PARTS), multiple=True, help="Run this part alone; may be repeated.")
@click.option("--seconds", type=click.FloatRange(min=0.2), help="Length of one run.  [default: 3, quick: 1]")
@click.option(
    "--dir", "folder", type=click.Path(path_type=Path), help="Where the logs are put.  [default: a temporary folder]"
)
@click.option("--json", "json_path", metavar="PATH", help='Also write the figures to PATH as JSON; "-": print that alone.')
def main(*, quick: bool, only: tuple[str, ...], seconds: float | None, folder: Path | None, json_path: str | None) -> None:
    figures = Figures(machine=describe())
    parts = only or PARTS
    seconds = seconds if seconds is not None else (1.0 if quick else 3.0)
    with tempfile.TemporaryDirectory(prefix="quorate-bench-", dir=folder) as scratch, _progress() as say:
        try:
            _run(figures, parts, Path(scratch), seconds, quick, say)
        except (RuntimeError, TimeoutError) as failure:
            raise click.ClickException(f"the cluster under test misbehaved: {failure}") from failure
    if json_path == "-":
        click.echo(as_json(figures))
        return
    console = Console()
    Console(width=None if console.is_terminal else 120).print(as_tables(figures))
    if json_path is not None:
        Path(json_path).write_text(as_json(figures) + "\n")


def _run(figures: Figures, parts: tuple[str, ...], scratch: Path, seconds: float, quick: bool, say: Say) -> None:
    sizes = (100, 64 * 1024, _MIB) if quick else SIZES
    if "single" in parts:
        with NodeProcesses(scratch / "nodes", 1) as nodes:
            for turn in range(3 if quick else 7):
                say(f"single: turn {turn + 1}")
                figures.singles.append(_single(scratch, nodes, seconds))
    if "limit" in parts:
        for batch_bytes in sizes:
            say(f"limit: {size(batch_bytes)}")
            figures.limits.append(_limit(scratch, batch_bytes, seconds))
    if "append" in parts:
        for groups in (1, 8) if quick else GROUPS:
            with NodeProcesses(scratch / "nodes", groups) as nodes:
                for batch_bytes in sizes:
                    for in_flight in (1, 256) if quick else IN_FLIGHT:
                        say(f"append: {size(batch_bytes)}, {groups} groups, {in_flight} in flight")
                        figures.cells.append(_cell(figures, nodes, batch_bytes, in_flight, seconds))
        figures.cells.sort(key=lambda cell: (cell.batch_bytes, cell.groups, cell.in_flight))
    if "failover" in parts:
        figures.failover = failover.measure(scratch, 3 if quick else 20, say)
    if "idle" in parts:
        figures.idle = idle.measure(scratch, 200 if quick else 1_000, 3.0 if quick else 10.0, say)


def _single(scratch: Path, nodes: NodeProcesses, seconds: float) -> Single:
    """The disk is shared and changes from minute to minute: only what is measured at the same time can be compared."""
    os.sync()
    write_ms = probe(scratch / "probe", SIZES[0], duration_s=seconds)["write_ms"]
    spec = ClientSpec(ports=nodes.client_ports, groups=1, batch_bytes=SIZES[0], in_flight=1, duration_s=seconds)
    os.sync()
    said = run_client(spec)
    return Single(write_ms=write_ms, round_trip_ms=round_trip_ms(), p50_ms=said["p50_ms"], p99_ms=said["p99_ms"])


def _limit(scratch: Path, batch_bytes: int, seconds: float) -> Limit:
    plain = probe(scratch / "probe", batch_bytes, duration_s=seconds)
    grouped = max(1, min(256, _MIB // batch_bytes))
    together = probe(scratch / "probe", batch_bytes, grouped=grouped, duration_s=seconds)
    return Limit(
        batch_bytes=batch_bytes,
        mb_per_s=plain["batches_per_s"] * batch_bytes / 1e6,
        grouped_mb_per_s=together["batches_per_s"] * batch_bytes / 1e6,
        write_ms=plain["write_ms"],
    )


def _cell(figures: Figures, nodes: NodeProcesses, batch_bytes: int, in_flight: int, seconds: float) -> Cell:
    spec = ClientSpec(
        ports=nodes.client_ports,
        groups=nodes.groups,
        batch_bytes=batch_bytes,
        in_flight=in_flight,
        duration_s=seconds,
    )
    said = run_client(spec)
    rate = said["batches"] / said["seconds"]
    limit = figures.limit(batch_bytes)
    mb_per_s = rate * batch_bytes / 1e6
    return Cell(
        batch_bytes=batch_bytes,
        in_flight=in_flight,
        groups=nodes.groups,
        mb_per_s=mb_per_s,
        batches_per_s=rate,
        p50_ms=said["p50_ms"] or float("nan"),
        p99_ms=said["p99_ms"] or float("nan"),
        ratio=mb_per_s / limit.mb_per_s if limit is not None else None,
        retried=said["retried"],
    )


@contextmanager
def _progress() -> Iterator[Say]:
    """What is running, on standard error, on a terminal only."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda what: bar.update(task, description=what, refresh=True)


if __name__ == "__main__":
    main()
