"""How a streaming pipeline goes on: once or for ever, how much at a time, and what it does about a gap."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from pyspark.sql.streaming.readwriter import DataStreamWriter

from quorate.spark.pipelines.arguments import Arguments, count, span_s

_EVERY_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """As the command line says."""

    every_s: float | None
    """None: what there is now, and end."""
    max_messages: int
    allow_loss: bool

    def source_options(self) -> dict[str, str]:
        return {"maxOffsetsPerTrigger": str(self.max_messages), "failOnDataLoss": str(not self.allow_loss).lower()}

    def trigger(self, writer: DataStreamWriter) -> DataStreamWriter:
        if self.every_s is None:
            return writer.trigger(availableNow=True)
        return writer.trigger(processingTime=f"{self.every_s:g} seconds")


def add_to(parser: Arguments) -> None:
    """The options of a pipeline that is a streaming query."""
    parser.add_argument("--follow", action="store_true", help="go on with what comes, until Ctrl-C or SIGTERM")
    parser.add_argument("--every", type=span_s, metavar="TIME", help="with --follow: how often it writes (default 1m)")
    parser.add_argument(
        "--max-messages", type=count, default=1_000_000, metavar="N", help="in one micro-batch (default 1,000,000)"
    )
    parser.add_argument(
        "--allow-loss",
        action="store_true",
        help="go on, with a warning, where retention has taken messages that were not read yet; else that is an error",
    )


def pace_of(parser: Arguments, given: argparse.Namespace) -> Pace:
    if given.every is not None and not given.follow:
        parser.error("--every goes with --follow: it says how often; without --follow it is done once")
    every_s = (given.every or _EVERY_S) if given.follow else None
    return Pace(every_s=every_s, max_messages=given.max_messages, allow_loss=given.allow_loss)
