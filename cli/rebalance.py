"""`quorate rebalance`: replicas are evened out over nodes and racks, a few at a time."""

from __future__ import annotations

import json
import time

import click

from quorate.cli.ask import ask, http_option
from quorate.cli.rows import json_option, show

_LOOK_AGAIN_S = 0.5


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be moved, and why.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Go on until there is nothing left to move.")
@http_option
@json_option
def rebalance(*, dry_run: bool, wait: bool, address: str, as_json: bool) -> None:
    """Even out replicas over the nodes, and spread them over racks.

    A few moves are under way at a time (`manager.moves_at_once`); nothing has fewer copies in between. Ctrl-C, and
    --no-wait, leave those to finish that are under way; the same command goes on later.
    """
    said = ask(address, "POST", "/v1/rebalance", {"dry_run": dry_run})
    if as_json:
        click.echo(json.dumps(said))
    elif not said["moves"]:
        click.echo("the cluster is balanced: there is nothing to move")
    else:
        show(said["moves"], ("queue", "partition", "from", "to", "reason"))
    if said["moves"] and wait and not dry_run:
        _carry_on(address)
        click.echo("the cluster is balanced", err=as_json)


def _carry_on(address: str) -> None:
    """Begin what is left as there is room for it, until nothing is left and nothing is under way."""
    last = None
    while True:
        time.sleep(_LOOK_AGAIN_S)
        moves = ask(address, "POST", "/v1/rebalance", {"dry_run": False})["moves"]
        moving = sum(node["moving"] for node in ask(address, "GET", "/v1/nodes")["nodes"])
        if not moves and not moving:
            return
        waiting = sum(not move["begun"] for move in moves)
        if (waiting, moving) != last:
            click.echo(f"{waiting} moves wait, {moving} are under way", err=True)
        last = waiting, moving
