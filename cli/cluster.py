"""`quorate nodes`, `queues`, `drain`, `undrain`, `remove`, `rebalance`: a running cluster, asked through any node."""

from __future__ import annotations

import json
import time
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from quorate.cli.ask import ask, http_option

_LOOK_AGAIN_S = 0.5

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead, for scripts.")


def _show(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    """A table on a terminal, tab-separated lines elsewhere."""
    console = Console()
    if not console.is_terminal:
        click.echo("\t".join(columns))
        for row in rows:
            click.echo("\t".join(str(row.get(column, "")) for column in columns))
        return
    table = Table()
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*(str(row.get(column, "")) for column in columns))
    console.print(table)


@click.command()
@http_option
@json_option
def nodes(*, address: str, as_json: bool) -> None:
    """List the nodes of a cluster: state, replicas, leaders, addresses."""
    said = ask(address, "GET", "/v1/nodes")
    if as_json:
        click.echo(json.dumps(said))
    else:
        _show(said["nodes"], ("id", "state", "rack", "replicas", "leaders", "kafka", "http", "peer"))


@click.command()
@http_option
@json_option
def queues(*, address: str, as_json: bool) -> None:
    """List the queues of a cluster: partitions, replicas, leaders."""
    said = ask(address, "GET", "/v1/queues")
    if as_json:
        click.echo(json.dumps(said))
        return
    rows = [queue | {"leaders": ",".join(str(one["leader"]) for one in queue["partitions"])} for queue in said["queues"]]
    _show([row | {"partitions": len(row["partitions"])} for row in rows], ("name", "partitions", "replication", "leaders"))


@click.command()
@click.argument("node", type=click.IntRange(1))
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the node holds nothing any more.")
@http_option
def drain(*, node: int, wait: bool, address: str) -> None:
    """Move everything off NODE, so that it can be stopped for good.

    Its partitions get new replicas elsewhere first; nothing has fewer copies in between. Ctrl-C stops waiting, not the
    move. `quorate undrain NODE` calls it off.
    """
    before = _replicas(address, node)
    ask(address, "POST", f"/v1/nodes/{node}/drain")
    if not wait:
        click.echo(f"node {node} is being drained; `quorate nodes` shows how far it is")
        return
    columns = (TextColumn("node {task.fields[node]}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=before, node=node)
        while left := _replicas(address, node):
            bar.update(task, total=max(before, left), completed=max(before, left) - left)
            time.sleep(_LOOK_AGAIN_S)
        bar.update(task, completed=max(before, 1), total=max(before, 1))
    click.echo(f"node {node} is drained: it holds nothing and can be stopped, and removed with `quorate remove {node}`")


def _replicas(address: str, node: int) -> int:
    for one in ask(address, "GET", "/v1/nodes")["nodes"]:
        if one["id"] == node:
            return int(one["replicas"])
    raise click.ClickException(f"the cluster has no node {node}")


@click.command()
@click.argument("node", type=click.IntRange(1))
@http_option
def undrain(*, node: int, address: str) -> None:
    """Let NODE take replicas again."""
    ask(address, "POST", f"/v1/nodes/{node}/undrain")
    click.echo(f"node {node} takes replicas again")


@click.command()
@click.argument("node", type=click.IntRange(1))
@http_option
def remove(*, node: int, address: str) -> None:
    """Forget NODE, which must be drained. Its number is never used again."""
    ask(address, "DELETE", f"/v1/nodes/{node}")
    click.echo(f"node {node} is no longer part of the cluster")


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be moved, and why.")
@http_option
@json_option
def rebalance(*, dry_run: bool, address: str, as_json: bool) -> None:
    """Even out replicas over the nodes."""
    said = ask(address, "POST", "/v1/rebalance", {"dry_run": dry_run})
    if as_json:
        click.echo(json.dumps(said))
    elif not said["moves"]:
        click.echo("the cluster is balanced: there is nothing to move")
    else:
        _show(said["moves"], ("queue", "partition", "from", "to", "reason"))


COMMANDS = (nodes, queues, drain, undrain, remove, rebalance)
