"""`python -m bench.core`: how fast the consensus core is by itself, without disk, network or encoding.

This file is the command: its options, the runs it makes, where the results go. The measurements are in `bench.measures`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from bench.cluster import BenchmarkFailed
from bench.machine import describe
from bench.measures import Load, prepare_idle, run_idle, run_load
from bench.report import IdleFigures, LoadFigures, Report, as_json, as_tables

HELP = """\
Measure the consensus core alone: three nodes in one process, messages handed over as objects, a disk that takes no time.

\b
Two things are measured:
  loads   batches through one group: committed proposals per second, and microseconds of Python per
          committed batch over all three nodes. "Together": what waits travels in one append. "One by
          one": every proposal has a turn, two appends and two answers of its own, the dearest way.
  idle    groups that do nothing: which share of a core their deadlines and heartbeats cost each node.
          Virtual time passes as fast as it can; only each node's own CPU time counts.

\b
Examples:
  python -m bench.core                           everything, as docs/performance.md has it
  python -m bench.core --seconds 0.2 --runs 2    a quick look
  python -m bench.core --groups 5000             another number of idle groups
  python -m bench.core --json figures.json       every run's figures for a script ("-" prints them)

The best run says what the code can do, the median what the machine let it do: if they are far apart,
something else was running. Exit codes: 0 measured, 1 the cluster under test misbehaved, 2 wrong options.
"""


@click.command(name="python -m bench.core", help=HELP, context_settings={"max_content_width": 110})
@click.option("--seconds", type=click.FloatRange(min=0.01), default=2.0, show_default=True, help="Length of a load's run.")
@click.option(
    "--virtual-seconds",
    type=click.FloatRange(min=0.1),
    default=20.0,
    show_default=True,
    help="Virtual length of an idle run.",
)
@click.option("--runs", type=click.IntRange(min=1), default=5, show_default=True, help="How often each case is repeated.")
@click.option(
    "--batch-bytes", type=click.IntRange(min=0, max=1 << 20), default=16 * 1024, show_default=True, help="Size of a batch."
)
@click.option(
    "--in-flight",
    type=click.IntRange(min=1, max=512),
    multiple=True,
    default=(1, 16, 64),
    show_default=True,
    help="Proposals that wait at a time; may be repeated.",
)
@click.option(
    "--groups",
    type=click.IntRange(min=1),
    multiple=True,
    default=(1_000, 10_000),
    show_default=True,
    help="Idle groups; may be repeated.",
)
@click.option("--json", "json_path", metavar="PATH", help='Also write the figures to PATH as JSON; "-": print that alone.')
def main(
    *,
    seconds: float,
    virtual_seconds: float,
    runs: int,
    batch_bytes: int,
    in_flight: tuple[int, ...],
    groups: tuple[int, ...],
    json_path: str | None,
) -> None:
    machine = describe()
    loads = [Load(in_flight=count, batch_bytes=batch_bytes) for count in in_flight]
    loads += [Load(in_flight=count, batch_bytes=batch_bytes, one_by_one=True) for count in in_flight if count > 1]
    try:
        with _progress((len(loads) + len(groups)) * runs) as progress:
            report = Report(
                machine=machine,
                loads=tuple(_measure_load(load, seconds, runs, progress) for load in loads),
                idle=tuple(_measure_idle(count, virtual_seconds, runs, progress) for count in groups),
            )
    except BenchmarkFailed as failure:
        raise click.ClickException(str(failure)) from failure
    if json_path == "-":
        click.echo(as_json(report))
        return
    # In a pipe or a file the table keeps its width, whatever the width of the terminal that is not there.
    console = Console()
    Console(width=None if console.is_terminal else 120).print(as_tables(report))
    if json_path is not None:
        _write(Path(json_path), as_json(report))


class _Steps:
    """A progress bar that moves by one run at a time and says what is running."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar = bar
        self._task = task

    def say(self, what: str) -> None:
        self._bar.update(self._task, description=what, refresh=True)

    def done(self) -> None:
        self._bar.update(self._task, advance=1, refresh=True)


@contextmanager
def _progress(total: int) -> Iterator[_Steps]:
    """A bar on standard error, on a terminal only."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
    )
    # It redraws between runs only: a thread that draws during a run would be measured with it.
    with Progress(*columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal) as bar:
        yield _Steps(bar, bar.add_task("", total=total))


def _measure_load(load: Load, seconds: float, runs: int, progress: _Steps) -> LoadFigures:
    progress.say(f"{load.in_flight} in flight, {'one by one' if load.one_by_one else 'together'}")
    results = []
    for _ in range(runs):
        results.append(run_load(load, seconds))
        progress.done()
    return LoadFigures(load=load, runs=tuple(results))


def _measure_idle(groups: int, virtual_seconds: float, runs: int, progress: _Steps) -> IdleFigures:
    progress.say(f"electing {groups:,} leaders")
    cluster = prepare_idle(groups)
    progress.say(f"{groups:,} idle groups")
    results = []
    for _ in range(runs):
        results.append(run_idle(cluster, virtual_seconds))
        progress.done()
    return IdleFigures(groups=groups, runs=tuple(results))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text + "\n")
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from error


if __name__ == "__main__":
    main()
