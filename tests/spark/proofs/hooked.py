"""Our source and sink, with a hook at each step of a micro-batch. Tests only: nothing that is shipped knows of hooks.

A hook is a place in a folder that the environment names. The process that comes to the step for the wanted time leaves a
file there and waits; the test sees it and kills somebody. Then it either kills this process too, or lets it go on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from quorate.spark.options import Use, read_options, write_options
from quorate.spark.sink import StreamWriter
from quorate.spark.source import QuorateDataSource
from quorate.spark.stream_reader import StreamReader

FOLDER = "QUORATE_TEST_HOOKS"
STEPS = ("planned", "staging", "staged", "committing", "committed", "checkpointed")
"""In the order of a micro-batch: its offsets are written down; a task has read nothing yet; a task's rows are staged; the
driver is about to commit; it has committed; Spark has written down that the batch is done."""
_PATIENCE_S = 120.0


def arm(folder: Path, step: str, times: int) -> None:
    """The process that comes to the step for the so-many-th time shall wait there."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / step).write_text(str(times))


def reached(folder: Path) -> bool:
    return (folder / "reached").exists()


def go_on(folder: Path) -> None:
    (folder / "go").touch()


def hook(step: str) -> None:
    """A step. Nothing happens unless a test has armed it."""
    name = os.environ.get(FOLDER)
    if name is None or not (Path(name) / step).exists():
        return
    folder = Path(name)
    with (folder / f"{step}.times").open("a+b", buffering=0) as times:
        times.write(b".")
        if times.tell() != int((folder / step).read_text()):
            return
    (folder / "reached").touch()
    deadline = time.monotonic() + _PATIENCE_S
    while not (folder / "go").exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the test has forgotten the hook {step}")
        time.sleep(0.01)


class HookedReader(StreamReader):
    """Its planner calls the hooks before and after a micro-batch."""

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:
        found = super().partitions(start, end)
        if start != end:
            hook("planned")
        return found

    def latestOffset(self, start: Any, limit: ReadLimit) -> Any:  # noqa: N802
        # Spark asks for the next batch when the last one is in its log.
        if vars(self).setdefault("_last", start) != start:
            self._last = start
            hook("checkpointed")
        return super().latestOffset(start, limit)


class HookedWriter(StreamWriter):
    """Its tasks and its driver call the hooks around staging and committing."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        hook("staging")
        written = super().write(iterator)
        hook("staged")
        return written

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        hook("committing")
        super().commit(messages, batchId)
        hook("committed")


class HookedSource(QuorateDataSource):
    """The data source under its own name, with hooks."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return HookedReader(read_options(self.options, Use.STREAM))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return HookedWriter(write_options(self.options), schema)
