"""A stream of micro-batches: lives in Spark's planning process, from the start of a query to its end.

Spark keeps the offsets; this keeps what is needed between two calls, and can lose all of it. An exception here ends the
query, so what may pass is waited for in the client. Not here: planning (`stream_planner`), reading (`reading`).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from quorate.spark.clients import shared_client
from quorate.spark.offsets import from_json, to_json
from quorate.spark.options import ReadOptions
from quorate.spark.ranges import tasks
from quorate.spark.reading import read_task
from quorate.spark.stream_planner import StreamPlanner

Json = dict[str, dict[str, int]]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches, and reads them."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._planner: StreamPlanner | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Tasks get a copy of this, and no planner.
        return {"_options": self._options, "_planner": None}

    @property
    def _plan(self) -> StreamPlanner:
        if self._planner is None:
            _exit_on_sigterm()
            self._planner = StreamPlanner(shared_client(self._options.client), self._options)
        return self._planner

    def initialOffset(self) -> Json:
        """Where a new query begins. Raises BadOption."""
        return to_json(self._plan.initial())

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        """Where the next micro-batch ends; `start` if there is nothing to do, after a while of waiting."""
        return to_json(self._plan.next_end(from_json(start), limited=not isinstance(limit, ReadAllAvailable)))

    def getDefaultReadLimit(self) -> ReadLimit:
        """One of the limits, so that Spark asks for limited batches; all of them are looked at in `latestOffset`."""
        options = self._options
        if options.max_offsets is not None:
            return ReadMaxRows(options.max_offsets)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        if options.min_offsets is not None:
            return ReadMinRows(options.min_offsets)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The ends of the logs as of the last look, for the query's progress."""
        return self._plan.reported()

    def prepareForTriggerAvailableNow(self) -> None:
        """From now on, nothing counts that is appended later."""
        self._plan.fix_target()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """The tasks of a micro-batch. Raises DataLost."""
        return tasks(self._plan.ranges(from_json(start), from_json(end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """A task's rows."""
        return read_task(self._options, partition)

    def commit(self, end: Json) -> None:
        """Spark will not ask for these again: tell the group, if there is one."""
        self._plan.commit(from_json(end))


def _exit_on_sigterm() -> None:
    """Spark ends this process with SIGTERM and without a word: leave as at a normal end, and close what is open."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, leave)
