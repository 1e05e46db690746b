"""`python -m bench.kafka`: the command. Its options, what is run in which order, where the results go."""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench.kafka import growth
from bench.kafka.figures import Figures, as_json
from bench.kafka.readings import FULL, QUICK, Plan, Say, failover, latency, running, throughput
from bench.kafka.run import ClientFailed
from bench.kafka.systems import SYSTEMS
from bench.kafka.tables import as_tables
from bench.machine import describe
from bench.peers.api import NotHere

HELP = """\
Measure Quorate through Kafka clients, beside Apache Kafka and NATS JetStream: three nodes each, three replicas, acks=all.

\b
Parts (all of them, unless --only names some):
  throughput  100 B and 1 KiB messages, librdkafka's defaults and 20 ms / 1 MB batches; everything is consumed again
  latency     one message at a time; 1,000 a second until acknowledged, and until in the consumer's hands
  failover    kill -9 of the partition's leader under load: the longest time without an acknowledgement
  growth      Quorate alone: 1 to 1,000 partitions, 1 to 100 connections

\b
Examples:
  python -m bench.kafka                                   everything; at most 12 minutes
  python -m bench.kafka --quick                           one short round, no growth; 2 to 3 minutes
  python -m bench.kafka --quick --system quorate          Quorate alone
  python -m bench.kafka --only growth                     one part
  python -m bench.kafka --json figures.json               every reading, for a script ("-" prints them)

Kafka is fetched by Maven once, NATS comes from PyPI; where Java, Maven or NATS are missing, that system is left out and the
report says why. Run it on a quiet machine: servers and clients share its cores. Only one system runs at a time.
"""

PARTS = ("throughput", "latency", "failover", "growth")


@click.command(name="python -m bench.kafka", help=HELP, context_settings={"max_content_width": 125})
@click.option("--quick", is_flag=True, help="A quick look: one round, short readings, few kills, growth only if named.")
@click.option("--only", type=click.Choice(PARTS), multiple=True, help="Run this part alone; may be repeated.")
@click.option("--system", "systems", type=click.Choice(SYSTEMS), multiple=True, help="Only this system; may be repeated.")
@click.option("--seconds", type=click.FloatRange(min=0.2), help="Length of one reading.  [default: 2.5, quick: 1.5]")
@click.option("--rounds", type=click.IntRange(min=1), help="How often each system is visited.  [default: 2, quick: 1]")
@click.option(
    "--dir", "folder", type=click.Path(path_type=Path), help="Where the logs are put.  [default: a temporary folder]"
)
@click.option("--json", "json_path", metavar="PATH", help='Also write the figures to PATH as JSON; "-": print that alone.')
def main(
    *,
    quick: bool,
    only: tuple[str, ...],
    systems: tuple[str, ...],
    seconds: float | None,
    rounds: int | None,
    folder: Path | None,
    json_path: str | None,
) -> None:
    plan = QUICK if quick else FULL
    if seconds is not None:
        plan = replace(plan, seconds=seconds, latency_seconds=seconds)
    if rounds is not None:
        plan = replace(plan, rounds=rounds)
    parts = only or (PARTS[:-1] if quick else PARTS)
    figures = Figures(machine=describe(), quick=quick)
    try:
        with tempfile.TemporaryDirectory(prefix="quorate-bench-", dir=folder) as scratch, _progress() as say:
            _visits(figures, systems or SYSTEMS, parts, plan, Path(scratch), say)
            if "growth" in parts:
                _growth(figures, plan, Path(scratch), quick, say)
    except KeyboardInterrupt:
        # Minutes of measuring are not thrown away: what there is, is shown.
        click.echo("interrupted: these are the figures until then", err=True)
        _report(figures, json_path)
        raise
    _report(figures, json_path)


def _report(figures: Figures, json_path: str | None) -> None:
    if json_path == "-":
        click.echo(as_json(figures))
        return
    console = Console()
    Console(width=None if console.is_terminal else 140).print(as_tables(figures))
    if json_path is not None:
        Path(json_path).write_text(as_json(figures) + "\n")


def _end(*_: object) -> None:
    """As Ctrl-C: the servers that we started are stopped."""
    raise KeyboardInterrupt


def _visits(figures: Figures, systems: tuple[str, ...], parts: tuple[str, ...], plan: Plan, scratch: Path, say: Say) -> None:
    """Round by round, one system after the other, every second round backwards: what drifts, drifts for all of them."""
    if not set(parts) - {"growth"}:
        return
    for number in range(plan.rounds):
        last = number == plan.rounds - 1
        for name in systems if number % 2 == 0 else systems[::-1]:
            if name not in figures.left_out:
                _visit(figures, name, number, parts, plan, scratch, say, with_kills=last)


def _visit(
    figures: Figures,
    name: str,
    number: int,
    parts: tuple[str, ...],
    plan: Plan,
    scratch: Path,
    say: Say,
    *,
    with_kills: bool,
) -> None:
    try:
        with running(name, scratch, plan, say) as system:
            if "throughput" in parts:
                figures.throughput += throughput(system, number, plan, say)
            if "latency" in parts:
                figures.latency += latency(system, number, plan, say)
            if "failover" in parts and with_kills:
                figures.gaps += failover(system, plan.kills[name], say)
    except NotHere as missing:
        figures.left_out[name] = str(missing)
    except (ClientFailed, TimeoutError) as failure:
        if name == "quorate":
            raise click.ClickException(f"the cluster under test misbehaved: {failure}") from failure
        figures.left_out[name] = f"it gave up in round {number + 1}: {failure}"


def _growth(figures: Figures, plan: Plan, scratch: Path, quick: bool, say: Say) -> None:
    partitions = (1, 10, 100) if quick else growth.PARTITIONS
    connections = (1, 10) if quick else growth.CONNECTIONS
    try:
        figures.growth += growth.measure(scratch, plan.seconds, say, partitions=partitions, connections=connections)
    except (NotHere, ClientFailed, TimeoutError) as failure:
        raise click.ClickException(f"the cluster under test misbehaved: {failure}") from failure


@contextmanager
def _progress() -> Iterator[Say]:
    """What is running, on standard error: a moving line on a terminal, plain lines elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        began = time.monotonic()
        yield lambda what: click.echo(f"{time.monotonic() - began:5.0f} s  {what}", err=True)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda what: bar.update(task, description=what)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    main()
