"""`quorate drain`: everything is moved off a node, and how far that is: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from quorate.cli.ask import ask, http_option

_LOOK_AGAIN_S = 0.5
_STUCK_S = 3.0
"""So long there must be no way on before it is said: a node may be back in a moment."""
_UNREACHABLE_S = 30.0


@click.command()
@click.argument("node", type=click.IntRange(1))
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the node holds nothing any more.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="Wait no longer than this.")
@http_option
def drain(*, node: int, wait: bool, timeout: float | None, address: str) -> None:
    """Move everything off NODE, so that it can be stopped for good.

    Its partitions get new replicas elsewhere first; nothing has fewer copies in between. Ctrl-C stops waiting, not the
    move; so does --timeout. `quorate undrain NODE` calls it off.
    """
    before = int(_facts(address, node)["replicas"])
    ask(address, "POST", f"/v1/nodes/{node}/drain")
    if not wait:
        click.echo(f"node {node} is being drained; `quorate nodes` shows how far it is")
        return
    with Display(node, before) as display:
        _wait(address, node, display, timeout)
    click.echo(f"node {node} is drained: it holds nothing and can be stopped, and removed with `quorate remove {node}`")


def _wait(address: str, node: int, display: Display, timeout: float | None) -> None:
    began = fine_at = time.monotonic()
    while True:
        facts = _patiently(address, node)
        left, now = int(facts["replicas"]), time.monotonic()
        display.show(left, int(facts["moving"]))
        if not left:
            return
        if facts["moving"] or facts["stranded"] < left:
            fine_at = now
        elif now - fine_at >= _STUCK_S:
            raise click.ClickException(
                f"node {node} cannot be drained: no other node can take its last {left} replicas. They need nodes that are"
                f" alive, not being drained, and without a replica of the same partition. Add a node, and it goes on by"
                f" itself; `quorate undrain {node}` calls it off"
            )
        if timeout is not None and now - began >= timeout:
            raise click.ClickException(
                f"node {node} still holds {left} replicas after {timeout:g} s; it goes on, and `quorate nodes` shows how far"
            )
        time.sleep(_LOOK_AGAIN_S)


class Display:
    """Shows how many replicas are left, on stderr. Use it as a context manager."""

    def __init__(self, node: int, before: int) -> None:
        self._node = node
        self._most = before
        self._last: tuple[int, int] | None = None
        console = Console(stderr=True)
        columns = (
            TextColumn("node {task.fields[node]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[moving]} under way"),
            TimeElapsedColumn(),
        )
        self._bar = Progress(*columns, console=console, disable=not console.is_terminal)
        self._lines = not console.is_terminal
        self._task = self._bar.add_task("", total=max(before, 1), node=node, moving=0)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()

    def show(self, left: int, moving: int) -> None:
        """So many replicas are left, and so many of them are on their way."""
        self._most = max(self._most, left, 1)
        self._bar.update(self._task, total=self._most, completed=self._most - left, moving=moving)
        if self._lines and (left, moving) != self._last:
            click.echo(f"node {self._node}: {left} replicas left, {moving} of them under way", err=True)
        self._last = left, moving


def _facts(address: str, node: int) -> dict[str, Any]:
    for one in ask(address, "GET", "/v1/nodes")["nodes"]:
        if one["id"] == node:
            found: dict[str, Any] = one
            return found
    raise click.ClickException(f"the cluster has no node {node}")


def _patiently(address: str, node: int) -> dict[str, Any]:
    """The same, while the node that is asked may be starting again."""
    deadline = time.monotonic() + _UNREACHABLE_S
    while True:
        try:
            return _facts(address, node)
        except click.ClickException:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_AGAIN_S)
