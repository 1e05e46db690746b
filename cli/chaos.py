"""`quorate chaos run`, `list`, `check`: break a cluster on purpose, and find out whether it kept its promises."""

from __future__ import annotations

import asyncio
import shlex
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from quorate.chaos.api import System
    from quorate.chaos.runner import MakeNemesis, Order, Result, Status

_EVERY_S = 5.0
"""How often a status line is printed where there is no terminal."""


@click.group()
def chaos() -> None:
    """Break a cluster on purpose, and check what its clients saw.

    Clients write and read while a nemesis kills nodes, cuts links, fills disks and turns clocks. Everything that they
    asked and were told becomes a history; checkers look in it for what must never happen: an acknowledged message that
    is gone, two messages at one offset, a reader that skips.

    \b
    Start here:
      quorate chaos list                                        workloads, nemeses, checkers
      quorate chaos run --seconds 30                            a cluster of its own, nodes are killed
      quorate chaos run --workload groups --nemesis partition,pause --seconds 120 --seed 7
      quorate chaos run --against 127.0.0.1:9092 --nemesis none your own test cluster, nothing is broken
      quorate chaos check chaos-log-7                           look at a stored history again

    Exit codes: 0 no anomaly, 1 an anomaly or a run that proves nothing, 2 the command line was wrong.
    """


@chaos.command()
@click.option("--workload", default="log", show_default=True, help="What the clients do; see `quorate chaos list`.")
@click.option(
    "--nemesis", default="kill", show_default=True, metavar="NAMES", help="What breaks, separated by commas, or `none`."
)
@click.option(
    "--seconds", type=click.FloatRange(1, 86_400), default=60.0, show_default=True, help="How long things are broken."
)
@click.option(
    "--seed", type=click.IntRange(0), default=None, help="Decides what breaks when; drawn and printed if left out."
)
@click.option(
    "--rate", type=click.FloatRange(1, 10_000), default=150.0, show_default=True, help="Messages per second, all producers."
)
@click.option(
    "--nodes", type=click.IntRange(1, 9), default=3, show_default=True, help="Nodes of the cluster that is started."
)
@click.option("--faketime", is_flag=True, help="Turn clocks with libfaketime, not by the nodes' own test switch.")
@click.option("--fail-fast", is_flag=True, help="Stop breaking things as soon as an anomaly is seen, and conclude.")
@click.option("--sabotage", metavar="MODE", hidden=True, help="Plant a bug in every node, to see whether it is found.")
@click.option("--against", metavar="BOOTSTRAP", help="Use this running cluster (host:port,...) instead of starting one.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where history, logs and report go: a new or empty folder. [default: chaos-WORKLOAD-SEED-TIME]",
)
def run(
    *,
    workload: str,
    nemesis: str,
    seconds: float,
    seed: int | None,
    rate: float,
    nodes: int,
    faketime: bool,
    fail_fast: bool,
    sabotage: str | None,
    against: str | None,
    folder: Path | None,
) -> None:
    """Run a workload while a nemesis breaks things, then check.

    \b
    Examples:
      quorate chaos run --workload log --nemesis partition,kill --seconds 60 --seed 7
      quorate chaos run --workload metadata --nemesis none --seconds 10 --dir /tmp/quiet

    A seed plans the same faults at the same times again, on as many nodes. What the machine makes of them may still differ:
    run it a few times. With --against, topics and groups are created on your cluster under names that begin with `chaos-`;
    it is never stopped, and what can be broken there is only how clients reach it.

    The folder holds history.jsonl, the nodes' logs, and report.html: open that one. The cluster's own data stays in
    it only if something was found.
    """
    drawn = int(time.time()) % 1_000_000 if seed is None else seed
    names = tuple(name for name in nemesis.replace(" ", "").split(",") if name and name != "none")
    asked = _Asked(
        workload=workload,
        nemeses=names,
        seconds=seconds,
        seed=drawn,
        rate=rate,
        nodes=nodes,
        against=against,
        sabotage=sabotage,
        faketime=faketime,
        fail_fast=fail_fast,
    )
    asked.check()
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    folder = folder if folder is not None else Path(f"chaos-{workload}-{drawn}-{stamp}")
    if folder.exists() and any(folder.iterdir()):
        raise click.UsageError(f"{folder} is not empty: a run never writes over another one. Name a new --dir")
    order = asked.order(folder.absolute())
    system, make_nemesis = asked.parts(order.folder / "cluster")
    result = carry_out(order, system, make_nemesis)
    raise SystemExit(0 if result.good else 1)


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What the command line of one run says."""

    workload: str
    nemeses: tuple[str, ...]
    seconds: float
    seed: int
    rate: float
    nodes: int
    against: str | None
    sabotage: str | None
    faketime: bool
    fail_fast: bool

    def check(self) -> None:
        """Raise UsageError for names that there are not, and for what does not go together."""
        from quorate.chaos import systems
        from quorate.chaos.workloads import WORKLOADS

        if self.workload not in WORKLOADS:
            raise click.UsageError(f"there is no workload {self.workload!r}; there are {', '.join(WORKLOADS)}")
        known = systems.nemeses()
        if unknown := [name for name in self.nemeses if known and name not in known]:
            raise click.UsageError(f"there is no nemesis {unknown[0]!r}; there are {', '.join(known)}")
        if self.against and (self.sabotage or self.faketime):
            raise click.UsageError("--sabotage and --faketime are for a cluster that chaos starts itself")

    def command(self) -> str:
        """The command that does the same once more."""
        options = {
            "--workload": self.workload,
            "--nemesis": ",".join(self.nemeses) or "none",
            "--seconds": f"{self.seconds:g}",
            "--seed": str(self.seed),
            "--rate": f"{self.rate:g}",
            "--nodes": None if self.against else str(self.nodes),
            "--against": self.against,
            "--sabotage": self.sabotage,
        }
        words = [word for name, value in options.items() if value for word in (name, value)]
        words += [name for name, is_set in (("--faketime", self.faketime), ("--fail-fast", self.fail_fast)) if is_set]
        return shlex.join(["quorate", "chaos", "run", *words])

    def order(self, folder: Path) -> Order:
        """What the runner is told."""
        from quorate.chaos.runner import Order

        return Order(
            workload=self.workload,
            nemesis=self.nemeses,
            seconds=self.seconds,
            seed=self.seed,
            rate=self.rate,
            folder=folder,
            command=self.command(),
            fail_fast=self.fail_fast,
        )

    def parts(self, data: Path) -> tuple[System, MakeNemesis]:
        """The cluster, and what breaks it. Raises UsageError, or ClickException if something is missing here."""
        from quorate.chaos import systems

        try:
            if self.against:
                return systems.running_cluster(self.against, data), systems.nemesis_maker()
            system = systems.local_cluster(data, self.nodes, self.sabotage, faketime=self.faketime)
            return system, systems.nemesis_maker()
        except systems.Missing as error:
            raise click.ClickException(str(error)) from error
        except ValueError as error:
            raise click.UsageError(str(error)) from error


def carry_out(order: Order, system: System, make_nemesis: MakeNemesis) -> Result:
    """Run it, show how it goes, write the report, say what came out."""
    import shutil

    from quorate.chaos.cache import NotHere
    from quorate.chaos.history import FILE, load
    from quorate.chaos.report import write_report
    from quorate.chaos.runner import Audience, Run, RunFailed

    screen = _Screen(Console())
    click.echo(f"{order.command}\nin {order.folder}")
    try:
        with screen:
            run_once = Run(order, system, make_nemesis, Audience(say=screen.say, show=screen.show))
            result = asyncio.run(run_once.carry_out())
    except NotHere as missing:
        raise click.ClickException(f"chaos cannot break a cluster of its own here: {missing}") from missing
    except (RunFailed, TimeoutError, OSError, ValueError) as error:
        raise click.ClickException(
            f"the run did not come to its end: {error}. What there is of it is in {order.folder}"
        ) from error
    page = write_report(order.folder, load(order.folder / FILE), result)
    _conclude(result)
    click.echo(f"report: {page}")
    if result.good:
        shutil.rmtree(order.folder / "cluster", ignore_errors=True)
    return result


@chaos.command(name="list")
def list_parts() -> None:
    """List the workloads, nemeses and checkers, with a line about each."""
    from quorate.chaos import systems
    from quorate.chaos.checkers import CHECKERS
    from quorate.chaos.workloads import WORKLOADS

    parts = {
        "workloads": {name: offer.summary for name, offer in WORKLOADS.items()},
        "nemeses": {"none": "nothing breaks", **systems.nemeses()},
        "checkers": {name: checker.summary for name, checker in CHECKERS.items()},
    }
    for title, entries in parts.items():
        click.echo(f"{title}:")
        for name, summary in entries.items():
            click.echo(f"  {name:<14} {summary}".rstrip())


@chaos.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def check(*, folder: Path) -> None:
    """Check the history in FOLDER again, and write its report anew.

    For a history from elsewhere, or after a checker has changed. Nothing is run.
    """
    from quorate.chaos.history import FILE, BadHistory, load
    from quorate.chaos.report import write_report
    from quorate.chaos.runner import check_again

    try:
        history = load(folder / FILE)
    except (BadHistory, OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"there is no history to check: {error}") from error
    result = check_again(history)
    page = write_report(folder, history, result)
    _conclude(result)
    click.echo(f"report: {page}")
    raise SystemExit(0 if result.good else 1)


def _conclude(result: Result) -> None:
    console = Console(highlight=False)
    for verdict in result.verdicts:
        style = "red" if not verdict.good else "green" if verdict.found.looked_at else "dim"
        line = Text(f"  {verdict.name:<14} ").append(f"{verdict.word:<18}", style=style)
        console.print(line.append(f"{verdict.found.looked_at:>9,} judged   {verdict.summary}", style="dim"), soft_wrap=True)
        for anomaly in verdict.found.anomalies[:3]:
            console.print(Text(f"      {anomaly.text}", style="red"), soft_wrap=True)
    for problem in result.problems:
        console.print(Text(f"problem: {problem}", style="yellow"), soft_wrap=True)
    count = sum(len(verdict.found.anomalies) for verdict in result.verdicts)
    if count:
        console.print(Text(f"{count} anomalies: promises were broken", style="bold red"))
    else:
        console.print(
            Text("no anomaly" if result.good else "no anomaly, but the run proves less than it should", style="bold")
        )


class _Screen:
    """Live figures on a terminal; elsewhere plain lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None
        self._last: Status | None = None
        self._next_s = 0.0

    def __enter__(self) -> None:
        if self._live is not None:
            self._live.start()

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, line: str) -> None:
        """Something happened."""
        if self._live is not None:
            self._console.print(Text(line, style="dim"))
        else:
            click.echo(line)

    def show(self, status: Status) -> None:
        """How it goes."""
        before = self._last
        passed = status.elapsed_s - before.elapsed_s if before is not None else 0.0
        rate = (status.acknowledged - before.acknowledged) / passed if before is not None and passed > 0 else 0.0
        self._last = status
        if self._live is not None:
            self._live.update(_table(status, rate))
        elif status.elapsed_s >= self._next_s:
            self._next_s = status.elapsed_s + _EVERY_S
            faults = ", ".join(status.faults) or "none"
            click.echo(
                f"{status.elapsed_s:7.1f} s: {rate:.0f}/s acknowledged, {status.acknowledged} in all, "
                f"{status.refused} refused, {status.doubtful} in doubt, {status.read} reads; "
                f"faults: {faults}; anomalies so far: {status.anomalies}"
            )


def _table(status: Status, rate: float) -> Group:
    """Narrow enough for any terminal: faults, which may be many and long, stand below."""
    table = Table(title=f"{status.phase}, {status.elapsed_s:.0f} s", title_justify="left")
    for heading in ("acknowledged/s", "acknowledged", "refused", "in doubt", "reads", "anomalies"):
        table.add_column(heading, justify="right")
    anomalies = Text(str(status.anomalies), style="bold red" if status.anomalies else "green")
    figures = (f"{rate:.0f}", str(status.acknowledged), str(status.refused), str(status.doubtful), str(status.read))
    table.add_row(*figures, anomalies)
    faults = [Text(f"  {one}", style="magenta") for one in status.faults] or [Text("  nothing is broken now", style="dim")]
    return Group(table, *faults)
