"""`python -m bench.spark`: the command."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import click
import pyspark
from rich.console import Console

from bench.machine import describe
from bench.peers.api import NotHere
from bench.peers.quorate_up import QuorateUp
from bench.spark.connector import Connector, fetch
from bench.spark.figures import Figures, as_json, as_table
from bench.spark.queue import fill
from bench.spark.readings import SYSTEMS, Case, Say, WrongCount, rounds, spark

HELP = """\
Measure how fast Spark reads a queue: from the log of three nodes to noop and to Parquet, through format("quorate"), and
in the same run through Spark's own Kafka connector, which reads the same queue over the Kafka port.

\b
Examples:
  python -m bench.spark                     100 B and 1 KiB values; 1, 4 and 16 partitions; about 10 minutes
  python -m bench.spark --quick             few messages, one round; 2 minutes
  python -m bench.spark --only quorate      without the connector
  python -m bench.spark --size 100 --partitions 4 --rounds 5
  python -m bench.spark --json figures.json every reading, for a script ("-" prints them)

The connector is fetched by Maven once. Where Java, Maven or the connector are missing it is left out, and the report says
why. Run it on a quiet machine: Spark and the three nodes share its cores.
"""

SIZES = (100, 1_024)
PARTITIONS = (1, 4, 16)
_BYTES = 200_000_000
_QUICK_BYTES = 10_000_000


@click.command(name="python -m bench.spark", help=HELP, context_settings={"max_content_width": 125})
@click.option("--quick", is_flag=True, help="A quick look: few messages, one round.")
@click.option("--size", "sizes", type=click.IntRange(1), multiple=True, help="Bytes of a value; may be repeated.")
@click.option("--partitions", type=click.IntRange(1, 1_000), multiple=True, help="Of the queue; may be repeated.")
@click.option("--rounds", "count", type=click.IntRange(1), help="How often each is read.  [default: 3, quick: 1]")
@click.option("--mb", type=click.FloatRange(0.1), help="Megabytes of values in a queue.  [default: 200, quick: 10]")
@click.option("--only", type=click.Choice(list(SYSTEMS)), multiple=True, help="Only this way to read; may be repeated.")
@click.option("--cores", type=click.IntRange(1), help="Cores for Spark.  [default: all]")
@click.option("--dir", "folder", type=click.Path(path_type=Path), help="Where logs are put.  [default: a temporary folder]")
@click.option("--json", "json_path", metavar="PATH", help='Also write the figures to PATH as JSON; "-": print that alone.')
def main(
    *,
    quick: bool,
    sizes: tuple[int, ...],
    partitions: tuple[int, ...],
    count: int | None,
    mb: float | None,
    only: tuple[str, ...],
    cores: int | None,
    folder: Path | None,
    json_path: str | None,
) -> None:
    cores = cores or os.cpu_count() or 1
    figures = Figures(machine=describe(), quick=quick, cores=cores, spark=pyspark.__version__)
    systems = list(only or SYSTEMS)
    connector = _connector(figures, systems)
    volume = round(mb * 1e6) if mb is not None else (_QUICK_BYTES if quick else _BYTES)
    cases = [
        Case(size=size, partitions=number, rows=max(1, volume // size))
        for size in sizes or SIZES
        for number in partitions or PARTITIONS
    ]
    with tempfile.TemporaryDirectory(prefix="quorate-bench-", dir=folder) as scratch:
        _measure(figures, cases, systems, count or (1 if quick else 3), connector, Path(scratch))
    if json_path == "-":
        click.echo(as_json(figures))
        return
    console = Console()
    Console(width=None if console.is_terminal else 140).print(as_table(figures))
    if json_path is not None:
        Path(json_path).write_text(as_json(figures) + "\n")


def _connector(figures: Figures, systems: list[str]) -> Connector | None:
    """Ask Maven, and say what came of it."""
    if "kafka" not in systems:
        return None
    try:
        connector = fetch(pyspark.__version__)
    except NotHere as missing:
        figures.left_out = str(missing)
        systems.remove("kafka")
        return None
    figures.connector = connector.version
    return connector


def _measure(
    figures: Figures, cases: list[Case], systems: list[str], count: int, connector: Connector | None, scratch: Path
) -> None:
    say = _saying()
    peer = QuorateUp(scratch / "cluster", 3)
    try:
        bootstrap = peer.start()
        with spark(figures.cores, connector) as session:
            for case in cases:
                queue = f"q{case.size}-{case.partitions}"
                say(f"filling {case.partitions} partitions with {case.rows:,} values of {case.size:,} B")
                made = fill(bootstrap, queue, case.partitions, case.rows, case.size)
                filled = Case(size=case.size, partitions=case.partitions, rows=made)
                for one in rounds(session, filled, systems, count, bootstrap=bootstrap, queue=queue, scratch=scratch):
                    figures.readings.append(one)
                    say(f"{one.system} into {one.sink}: {one.per_s:,.0f} rows/s")
    except (NotHere, WrongCount, TimeoutError) as failure:
        raise click.ClickException(f"the cluster under test misbehaved: {failure}") from failure
    finally:
        peer.stop()


def _saying() -> Say:
    began = time.monotonic()
    return lambda what: print(f"{time.monotonic() - began:5.0f} s  {what}", file=sys.stderr, flush=True)


def _end(*_: object) -> None:
    """As Ctrl-C: the servers that we started are stopped."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    main()
