"""`quorate up`: a local cluster in the foreground, one process per node."""

from __future__ import annotations

from pathlib import Path

import click

from quorate.broker.node.local import LocalCluster, NotReady
from quorate.broker.node.settings import BadSettings


@click.command()
@click.option("--nodes", type=click.IntRange(1, 9), default=3, show_default=True, help="How many nodes.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".quorate"),
    show_default=True,
    help="Where the nodes keep their data. Start again on the same folder to find everything again.",
)
@click.option(
    "--base-port",
    type=click.IntRange(1024, 65_000),
    default=9092,
    show_default=True,
    help="Node i listens on this + i - 1 for Kafka clients, 100 above that for HTTP, 200 above for its peers.",
)
@click.option(
    "--auto-create/--no-auto-create", default=False, show_default=True, help="Create a queue when it is first used."
)
@click.option("--json", "as_json", is_flag=True, help="Say that the cluster is ready in one line of JSON.")
def up(*, nodes: int, folder: Path, base_port: int, auto_create: bool, as_json: bool) -> None:
    """Start a local cluster and keep it running until Ctrl-C.

    \b
    Examples:
      quorate up                               three nodes in .quorate, Kafka clients on 127.0.0.1:9092
      quorate up --nodes 5 --dir /tmp/q        five nodes somewhere else
      quorate up --base-port 19092 --json      for scripts: one line of JSON when it is ready

    Each node is a process of its own; its log is in DIR/node-N/log. Kill one and see what your clients do: a node
    that dies is not started again by itself, Ctrl-C and another `quorate up` bring all of them back.
    """
    try:
        cluster = LocalCluster(folder, nodes=nodes, base_port=base_port, auto_create=auto_create)
    except BadSettings as error:
        raise click.UsageError(str(error)) from error
    try:
        with cluster:
            click.echo(cluster.ready_json() if as_json else cluster.ready_text())
            cluster.wait(lambda line: click.echo(line, err=True))
    except NotReady as error:
        raise click.ClickException(str(error)) from error
