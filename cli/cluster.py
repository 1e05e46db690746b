"""`quorate nodes`, `queues`, `undrain`, `remove`: a running cluster, asked through any node."""

from __future__ import annotations

import json
from typing import Any

import click

from quorate.cli.ask import ask, http_option
from quorate.cli.drain import drain
from quorate.cli.rebalance import rebalance
from quorate.cli.rows import json_option, show


@click.command()
@http_option
@json_option
def nodes(*, address: str, as_json: bool) -> None:
    """List the nodes of a cluster: state, replicas, how many of them are moving away, leaders, addresses."""
    said = ask(address, "GET", "/v1/nodes")
    if as_json:
        click.echo(json.dumps(said))
    else:
        show(said["nodes"], ("id", "state", "rack", "replicas", "moving", "leaders", "kafka", "http", "peer"))


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
    show(rows, ("name", "partitions", "replication", "leaders", "moves"))


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


COMMANDS = (nodes, queues, drain, undrain, remove, rebalance)
