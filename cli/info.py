"""What `quorate info` says: a report gathered as plain data, and its three renderings.

Not here: the command and its options (`quorate.cli.main`).
"""

import json
import platform
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

import quorate

READY = "ready"
NOT_YET = "not yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of Quorate and whether it can be used today."""

    name: str
    does: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A make target worth knowing."""

    run: str
    does: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything `quorate info` prints."""

    version: str
    python: str
    parts: tuple[Part, ...]
    commands: tuple[Command, ...]  # empty outside a checkout: an installed wheel has no Makefile


# (name, what it does, the module that is there once the part works; None while nobody has written it)
_PARTS: tuple[tuple[str, str, str | None], ...] = (
    ("consensus core", "Raft without I/O: it decides, others act", "quorate.consensus.core"),
    ("consensus runtime", "the log on disk, the clock, the peer transport", "quorate.consensus.runtime"),
    ("broker", "a node: partitions, groups, metadata, the Kafka listener", "quorate.broker.node.process"),
    ("client", "what applications import", "quorate.client.aio"),
    ("spark", "structured-streaming source and sink, pipelines", "quorate.spark.source"),
    ("chaos", "faults on a real cluster, and checked histories", "quorate.chaos.runner"),
)

_COMMANDS = (
    Command(run="make run", does="a local cluster that Kafka clients can use"),
    Command(run="make test", does="the quick test suite"),
    Command(run="make check", does="lint, formatting, types, import contracts"),
    Command(run="make sim SEEDS=300", does="hostile simulated runs of the consensus core"),
    Command(run="make chaos SECONDS=180", does="a real cluster is broken, and what its clients saw is checked"),
    Command(run="make bench", does="how fast the core and the replicated log are"),
    Command(run="make", does="all targets"),
)


def gather(package: Path = Path(quorate.__file__).parent) -> Report:
    """Look at this installation, whose package lies in the given folder, and report on it."""
    in_checkout = (package.parent / "Makefile").is_file()
    return Report(
        version=quorate.__version__,
        python=platform.python_version(),
        parts=tuple(Part(name=name, does=does, state=_state(module)) for name, does, module in _PARTS),
        commands=_COMMANDS if in_checkout else (),
    )


def _state(module: str | None) -> str:
    spec = find_spec(module) if module is not None else None
    # A folder without __init__.py is found too, as a namespace without an origin: work that has only begun.
    return READY if spec is not None and spec.origin is not None else NOT_YET


def as_json(report: Report) -> str:
    """Render for scripts: one JSON object."""
    return json.dumps(asdict(report), indent=2)


def as_text(report: Report) -> str:
    """Render for a pipe or a file: plain aligned lines."""
    lines = [_headline(report), "", "Parts:"]
    lines += [f"  {part.name + ':':<19} {part.state:<8} {part.does}" for part in report.parts]
    if report.commands:
        lines += ["", "Next:"]
        lines += [f"  {command.run:<19} {command.does}" for command in report.commands]
    return "\n".join(lines)


def as_table(report: Report) -> RenderableType:
    """Render for a terminal: colours and frames."""
    parts = Table(title="Parts", title_justify="left", title_style="bold")
    for heading in ("part", "state", "what it does"):
        parts.add_column(heading)
    for part in report.parts:
        parts.add_row(part.name, Text(part.state, style="green" if part.state == READY else "dim"), part.does)
    blocks: list[RenderableType] = [Text(_headline(report), style="bold"), "", parts]
    if report.commands:
        commands = Table(title="Next", title_justify="left", title_style="bold", box=None, show_header=False)
        for command in report.commands:
            commands.add_row(Text(command.run, style="cyan"), command.does)
        blocks += ["", commands]
    return Group(*blocks)


def _headline(report: Report) -> str:
    return f"Quorate {report.version} on Python {report.python}"
