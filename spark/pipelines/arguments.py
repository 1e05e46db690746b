"""Command lines: what all pipelines' have in common, and times. Each pipeline adds its own options."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NoReturn

BOOTSTRAP = "127.0.0.1:9092"
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


class Arguments(argparse.ArgumentParser):
    """A parser whose help keeps its lines, and whose mistakes end with exit code 2 and a hint."""

    def __init__(self, name: str, description: str) -> None:
        super().__init__(
            prog=f"quorate pipeline {name}",
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        cluster = self.add_argument_group("the cluster")
        cluster.add_argument(
            "--bootstrap",
            default=BOOTSTRAP,
            metavar="HOST:PORT,...",
            help=f"some of the cluster's nodes; one that answers is enough (default {BOOTSTRAP})",
        )
        cluster.add_argument(
            "--read-option",
            action="append",
            default=[],
            type=key_value,
            metavar="KEY=VALUE",
            help="an option of the source, see docs/spark.md; may be repeated",
        )

    def writes(self) -> None:
        """This pipeline writes to a queue."""
        self.add_argument(
            "--write-option",
            action="append",
            default=[],
            type=key_value,
            metavar="KEY=VALUE",
            help="an option of the sink, compression=zstd for instance; may be repeated",
        )

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}\nTry `{self.prog} --help`.\n")


def key_value(text: str) -> tuple[str, str]:
    """KEY=VALUE."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def moment(text: str) -> int:
    """A time as milliseconds since 1970: ISO 8601 (UTC unless it says otherwise), or such a number as it is."""
    if re.fullmatch(r"\d+", text):
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time: write it like 2026-11-18T09:30, 2026-11-18T09:30:00+02:00, or in ms since 1970"
        ) from error
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1_000)


def span_s(text: str) -> float:
    """A length of time in seconds: 250ms, 30s, 10m, 2h, 7d."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", text)
    if match is None or float(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no length of time: write it like 30s, 10m or 2h")
    return float(match[1]) * _UNITS_S[match[2]]


def count(text: str) -> int:
    """A whole number from 1 on; 10_000 and 10,000 are fine."""
    plain = text.replace("_", "").replace(",", "")
    if not plain.isdigit() or int(plain) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of at least 1")
    return int(plain)


def names(values: Sequence[str]) -> tuple[str, ...]:
    """Queue names, each once."""
    return tuple(dict.fromkeys(values))
