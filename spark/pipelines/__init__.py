"""The pipelines: programs that run on Spark, on one machine or on many.

Each is a module with `main(argv)`, which `spark-submit` runs as it is and `quorate pipeline NAME` runs on this machine. A
new pipeline is a module like them and a line in `PIPELINES`. What a pipeline does to its rows is a function from DataFrame
to DataFrame that reads and writes nothing; the rest of the module is where the rows come from and go to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from quorate.spark.pipelines.watch import Watch


class Program(Protocol):
    """What a pipeline's module has."""

    def main(self, argv: Sequence[str] | None = None, watch: Watch | None = None) -> int:
        """Parse, run, report to `watch`; the exit code: 0 done, 1 failed, 2 the command line was wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A pipeline that there is. Its module is loaded when it is needed: importing Spark takes its time."""

    name: str
    summary: str
    module: str

    def load(self) -> Program:
        return cast(Program, import_module(self.module))


PIPELINES = {
    pipeline.name: pipeline
    for pipeline in (
        Pipeline(
            name="archive",
            summary="a queue into partitioned Parquet: each message once, and found again by time",
            module="quorate.spark.pipelines.archive",
        ),
        Pipeline(
            name="replay",
            summary="an archive, or a time range of a queue, into a queue: at a given rate, each message once",
            module="quorate.spark.pipelines.replay",
        ),
        Pipeline(
            name="traffic",
            summary="messages, bytes and lag per queue, key prefix and minute, to Parquet and to a queue",
            module="quorate.spark.pipelines.traffic",
        ),
    )
}
"""By name, in the order in which they are listed."""
