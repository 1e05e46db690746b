"""Rows of facts, for people and for scripts."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console
from rich.table import Table

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead, for scripts.")


def show(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
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
