"""`quorate node`: one node of a cluster, in the foreground."""

from __future__ import annotations

from pathlib import Path

import click

from quorate.broker.node import toml
from quorate.broker.node.process import run_node
from quorate.broker.node.reference import markdown
from quorate.broker.node.settings import BadSettings


@click.command()
@click.option("--config", type=click.Path(dir_okay=False, path_type=Path), help="The node's TOML file.")
@click.option("--sample", is_flag=True, help="Print a file to begin with, every setting explained, and exit.")
@click.option("--reference", is_flag=True, help="Print every setting of nodes and queues as a Markdown page, and exit.")
@click.option("--check", is_flag=True, help="Only check the file.")
@click.option("--insecure", is_flag=True, help="Allow addresses other than loopback without TLS and authentication.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True)
def node(*, config: Path | None, sample: bool, reference: bool, check: bool, insecure: bool, log_level: str) -> None:
    """Run one node of a cluster until it is told to stop.

    \b
    Examples:
      quorate node --sample > node.toml       a file to begin with
      quorate node --config node.toml --check whether the file can be used
      quorate node --config node.toml         run; Ctrl-C or SIGTERM hands leadership over and stops

    Started again on the same folder, the node finds everything that it had.
    """
    if sample:
        click.echo(toml.sample(), nl=False)
        return
    if reference:
        click.echo(markdown(), nl=False)
        return
    if config is None:
        raise click.UsageError("name the node's file with --config, or print one to begin with: quorate node --sample")
    try:
        settings = toml.load(config)
        if not insecure:
            settings.require_loopback()
    except BadSettings as error:
        raise click.UsageError(str(error)) from error
    if check:
        click.echo(f"{config} is fine: node {settings.node.id} of cluster {settings.cluster.id}")
        return
    raise SystemExit(run_node(settings, log_level))
