"""`quorate pipeline`: the pipelines that run on Spark, on this machine; and the archive that takes them to a cluster.

A pipeline parses its own command line, because `spark-submit` runs the same program. Here: the list, Spark's master, and
progress on a terminal.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from quorate.spark.pipelines import PIPELINES

if TYPE_CHECKING:
    from quorate.spark.pipelines.watch import Progress as Reached
    from quorate.spark.pipelines.watch import Watch

_LISTED = "\n".join(f"  {pipeline.name:<9} {pipeline.summary}" for pipeline in PIPELINES.values())
_HELP = f"""\
Run a pipeline on Spark, on this machine.

\b
{_LISTED}

\b
Examples:
  quorate pipeline archive --help                           what it does, and all its options
  quorate pipeline archive orders --to /data/archive        everything that is in queue orders now
  quorate pipeline --master spark://host:7077 archive ...   on a Spark cluster
  quorate pipeline package quorate.zip                      the code, for spark-submit --py-files

Needs Java 17 and the extra `spark`. Exit codes: 0 done or stopped, 1 failed, 2 the command line was wrong.
"""


@click.group(help=_HELP)
@click.option("--master", default=None, metavar="URL", help="Spark's master.  [default: local[*], this machine's cores]")
@click.option("--conf", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
@click.option("--verbose", is_flag=True, help="Let Spark log its warnings.")
@click.pass_context
def pipeline(context: click.Context, *, master: str | None, settings: tuple[str, ...], verbose: bool) -> None:
    if wrong := [setting for setting in settings if "=" not in setting]:
        raise click.UsageError(f"--conf: {wrong[0]!r} is not KEY=VALUE")
    context.obj = (master, settings, verbose)


@pipeline.command()
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
def package(*, path: Path) -> None:
    """Write the code into a zip file PATH, for `spark-submit --py-files`.

    It holds this package and nothing that it needs: pyarrow, numpy and what else is in the extra `spark` must be on every
    machine of the Spark cluster, or travel as --archives (see docs/spark.md).
    """
    from quorate.spark.pipelines.packaging import write_package

    if path.suffix != ".zip":
        raise click.UsageError(f"{path}: Spark takes it for a package only if its name ends in .zip")
    written = write_package(path)
    click.echo(f"{path}: {written} files. Submit with it, for example:")
    spec = find_spec("quorate.spark.pipelines.archive")
    program = spec.origin if spec is not None and spec.origin is not None else "archive.py"
    click.echo(f"  spark-submit --master URL --py-files {shlex.quote(str(path))} {shlex.quote(program)} QUEUE --to FOLDER")


def _add(name: str) -> None:
    """A command that hands its whole command line on."""

    @pipeline.command(
        name=name,
        short_help=PIPELINES[name].summary,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    @click.pass_obj
    def run(how: tuple[str | None, tuple[str, ...], bool], *, arguments: tuple[str, ...]) -> None:
        raise SystemExit(_run(name, arguments, *how))


def _run(name: str, arguments: tuple[str, ...], master: str | None, settings: tuple[str, ...], verbose: bool) -> int:
    if find_spec("pyspark") is None:
        raise click.ClickException("Spark is not installed: pip install 'quorate[spark]', and Java 17")
    program = PIPELINES[name].load()
    if "--help" in arguments or "-h" in arguments:
        return program.main(["--help"])
    _configure(master, settings, verbose)
    with _screen() as watch:
        return program.main(arguments, watch)


def _configure(master: str | None, settings: tuple[str, ...], verbose: bool) -> None:
    """What `spark-submit` would say to the program, said from here."""
    from quorate.spark.pipelines.launch import configure

    configure(master, dict(setting.split("=", 1) for setting in settings), verbose=verbose)


@contextmanager
def _screen() -> Iterator[Watch | None]:
    """A moving line on a terminal; elsewhere the pipeline prints lines by itself."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        yield _Screen(bar)


class _Screen:
    """A pipeline's progress, on a terminal."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("starting Spark", total=None)
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        self._bar.console.print(text, highlight=False, markup=False)

    def show(self, progress: Reached) -> None:
        from quorate.spark.pipelines.watch import as_line

        self._bar.update(self._task, description=as_line(progress), total=progress.total, completed=progress.messages)


for _name in PIPELINES:
    _add(_name)
