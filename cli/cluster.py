"""`quorate nodes`, `queues`, `undrain`, `remove`, `rebalance`: a running cluster, asked through any node."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from quorate.cli.ask import ask, http_option
from quorate.cli.drain import drain

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
    """List the nodes of a cluster: state, replicas, how many of them are moving away, leaders, addresses."""
    said = ask(address, "GET", "/v1/nodes")
    if as_json:
        click.echo(json.dumps(said))
    else:
        _show(said["nodes"], ("id", "state", "rack", "replicas", "moving", "leaders", "kafka", "http", "peer"))


@click.command()
@http_option
@json_option
def queues(*, address: str, as_json: bool) -> None:
    """List the queues of a cluster: partitions, replicas, leaders, and the moves under way."""
    said = ask(address, "GET", "/v1/queues")
    if as_json:
        click.echo(json.dumps(said))
        return
    rows = [
        queue
        | {
            "partitions": len(queue["partitions"]),
            "leaders": ",".join(str(one["leader"]) for one in queue["partitions"]),
            "moves": ", ".join(_move(one) for one in queue["partitions"] if one["moving"]),
        }
        for queue in said["queues"]
    ]
    _show(rows, ("name", "partitions", "replication", "leaders", "moves"))


def _move(partition: dict[str, Any]) -> str:
    """A move in a few words: the partition, the nodes that get a replica, and how far that is."""
    to = "+".join(map(str, partition["to"]))
    if partition["cancelled"]:
        return f"{partition['partition']} to {to} (being cancelled)"
    left = partition.get("behind")
    return f"{partition['partition']} to {to}" + ("" if left is None else f" ({left} offsets behind)")


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
