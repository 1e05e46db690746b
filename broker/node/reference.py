"""docs/configuration.md, made from the settings themselves: `quorate node --reference`. A test compares the two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field
from typing import Any

from quorate.broker.cluster.queue_settings import SETTINGS
from quorate.broker.node.settings import SECTIONS
from quorate.broker.node.toml import literal

_HEAD = """# Configuration

Every setting, its default, its bounds, and what it costs or buys. This page is printed by `quorate node --reference`; the
texts are those of the code, and of the file that `quorate node --sample` prints to begin with.

A node reads one TOML file, with a table for each section below. A table or a setting that does not exist is refused by
name, and so is a value out of bounds: `quorate node --config node.toml --check` says so without starting anything. Sizes are
in bytes; times are in the unit at the end of their name.
"""
_QUEUES = """
## Settings of a queue

Given when a queue is made, or changed later with any of Kafka's tools (`kafka-configs`, or an admin client's
`incremental_alter_configs`). The names are Kafka's. How they differ from Kafka's settings: [Kafka clients](kafka.md).
"""


def markdown() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _HEAD
    for table, section in SECTIONS.items():
        yield f"## [{table}]\n"
        yield f"{(section.__doc__ or '').strip()}\n"
        yield from _table(("setting", "default", "bounds", "what it does"), map(_row, section.declared()))
        yield ""
    yield _QUEUES.lstrip("\n")
    rows = [(f"`{one.name}`", f"`{one.default}`", one.rule.words, one.doc) for one in SETTINGS.values()]
    yield from _table(("setting", "default", "values", "what it does"), rows)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _row(one: Field[Any]) -> tuple[str, str, str, str]:
    if one.default is MISSING:
        default = "must be given"
    elif one.default in ((), ""):
        default = "none"
    else:
        default = f"`{literal(one.default)}`"
    return f"`{one.name}`", default, _bounds(one), one.metadata["doc"]


def _bounds(one: Field[Any]) -> str:
    least, most = one.metadata["least"], one.metadata["most"]
    if least is None and most is None:
        return "true or false" if one.type == "bool" else ""
    if most is None:
        return f"at least {literal(least)}"
    return f"{literal(least)} to {literal(most)}"
