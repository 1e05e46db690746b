"""The `quorate` command group: where the command line starts.

Each command gathers its input, calls the package that does the work, and prints the answer.
"""

import click
from rich.console import Console

from quorate import __version__
from quorate.cli import info as info_report
from quorate.cli.chaos import chaos
from quorate.cli.cluster import COMMANDS
from quorate.cli.node import node
from quorate.cli.pipeline import pipeline
from quorate.cli.up import up

HELP = """\
Quorate is a replicated log and a message queue in one.

Each partition of a queue is a Raft group: an acknowledged message is on disk on a majority of its replicas.
Consumers read it by offset, as a log, or lease and delete messages, as a work queue.

\b
Start here:
  quorate up             a local cluster of three nodes; Kafka clients connect to 127.0.0.1:9092
  quorate nodes          the nodes of a running cluster, and how they are
  quorate node --sample  a settings file for one node of a real deployment
  quorate chaos run      break a cluster on purpose, and check that nothing acknowledged is lost
  quorate pipeline       archive, replay and sum up queues with Spark
  quorate info           what this installation can do today
  quorate info --json    the same, for a script
  quorate info --help    what a command does, and its options

Exit codes: 0 all went well, 1 the operation failed, 2 the command line was wrong.
"""


@click.group(name="quorate", help=HELP, invoke_without_command=True, context_settings={"max_content_width": 100})
@click.version_option(__version__, prog_name="quorate")
@click.pass_context
def main(context: click.Context) -> None:
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead, for scripts.")
def info(*, as_json: bool) -> None:
    """Print what is here and what to run next.

    That is the version, each part and whether it is ready, and in a checkout the useful make commands.
    Colours and frames appear on a terminal only; in a pipe or a file the text is plain.
    """
    report = info_report.gather()
    console = Console()
    if as_json:
        click.echo(info_report.as_json(report))
    elif console.is_terminal:
        console.print(info_report.as_table(report))
    else:
        click.echo(info_report.as_text(report))


for command in (up, node, chaos, pipeline, *COMMANDS):
    main.add_command(command)
