"""Writing into queues: at least once by default, or exactly once with staged records and one commit for all tasks.

Exactly once: each attempt of a task stages under a producer id of its own, and the driver commits all stages together under
(application id, batch id). A batch that was committed before is not committed again, so whatever is done again, each row
stands in its queue once. Stages that nobody commits expire in the broker.
Not here: how rows get into batches (`task_writer`).
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType

from quorate.client import Client, QuorateError, Stage, StagePart, TopicPartition, Unreachable
from quorate.spark.clients import shared_client
from quorate.spark.errors import BadOption, BadRows
from quorate.spark.options import WriteOptions
from quorate.spark.task_writer import TaskWriter, no_queue

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
"""Spark's own properties of a task in a micro-batch. A test holds them fast: nothing else tells a task its batch."""

_log = logging.getLogger(__name__)
_TEXT: Final = (BinaryType(), StringType())
_COLUMNS: Final = {
    "value": "binary or string",
    "key": "binary or string",
    "topic": "string",
    "partition": "int",
    "headers": "array<struct<key:string,value:binary>>",
}


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task did. Without a stage it wrote, or had nothing to write."""

    rows: int
    stage: Stage | None = None
    application_id: str | None = None
    batch_id: int | None = None


class _Writer:
    """What batch and stream writers share."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        """Raises BadRows for columns that no queue takes."""
        check_schema(options, schema)
        self._options = options

    def _write(self, rows: Iterator[pa.RecordBatch], application_id: str | None, batch_id: int | None) -> Written:
        options = self._options
        first = next((one for one in rows if one.num_rows), None)
        if first is None:
            return Written(0)
        try:
            client = shared_client(options.client)
            producer = client.new_producer()
        except Unreachable as error:
            raise BadOption("kafka.bootstrap.servers", str(error)) from error
        send = client.stage if options.exactly_once else client.produce
        with TaskWriter(client, options, producer, send) as writer:
            try:
                writer.add(first)
                for one in rows:
                    writer.add(one)
                writer.finish()
            except BaseException:
                if options.exactly_once:
                    _drop(client, [_stage(producer.id, writer.sent)])
                raise
            count = sum(records for _, records in writer.sent.values())
            if not options.exactly_once:
                return Written(count)
            return Written(count, _stage(producer.id, writer.sent), application_id, batch_id)

    def _commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int | None) -> None:
        staged = [one for one in messages if isinstance(one, Written) and one.stage is not None]
        if not staged:
            return
        ids = {(one.application_id, one.batch_id if batch_id is None else batch_id) for one in staged}
        if len(ids) != 1 or any(batch_id is not None and one.batch_id not in (None, batch_id) for one in staged):
            raise BadRows(f"tasks of several batches come together: {sorted(map(str, ids))}")
        ((application_id, batch),) = ids
        if application_id is None or batch is None:
            raise BadRows("a stage without an application id cannot be committed")
        client = shared_client(self._options.client)
        stages = [one.stage for one in staged if one.stage is not None]
        done = client.commit_staged(application_id, batch, stages, timeout_ms=self._options.client.request_timeout_ms)
        if done.outcome == "already":
            _log.warning("batch %s of application %s was committed before; these rows are dropped", batch, application_id)

    def _abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Drop stages, if it is certain that nobody tried to commit them: some task has no message.

        Otherwise a commit may be under way. Stages that are in no commit expire by themselves.
        """
        staged = [one.stage for one in messages if isinstance(one, Written) and one.stage is not None]
        if staged and any(one is None for one in messages):
            _drop(shared_client(self._options.client), staged)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """Appends the rows of a DataFrame."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        """Raises BadRows, and BadOption for a queue that there is not."""
        super().__init__(options, schema)
        if options.topic is not None:
            try:
                info = shared_client(options.client).topics([options.topic]).get(options.topic)
            except Unreachable as error:
                raise BadOption("kafka.bootstrap.servers", str(error)) from error
            if info is None or info.error:
                raise no_queue(options.topic, options)
        # Without a name for it a write is only the same as itself: all or nothing, and once for each attempt of a job.
        self._application_id = options.application_id or f"batch-{uuid.uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """A task's rows."""
        return self._write(iterator, self._application_id, self._options.batch_id)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are done."""
        self._commit(messages, None)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Some task failed, or the commit did."""
        self._abort(messages)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Appends the rows of micro-batches."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """A task's rows."""
        if not self._options.exactly_once:
            return self._write(iterator, None, None)
        context = TaskContext.get()
        query = context.getLocalProperty(QUERY_ID) if context is not None else None
        batch = context.getLocalProperty(BATCH_ID) if context is not None else None
        application_id = self._options.application_id or query
        if application_id is None:
            raise BadOption(
                "applicationId", "this Spark does not tell tasks the query's id: give one, different for each query"
            )
        return self._write(iterator, application_id, None if batch is None else int(batch))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """All tasks of a micro-batch are done."""
        self._commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Some task failed, or the commit did."""
        self._abort(messages)


def check_schema(options: WriteOptions, schema: StructType) -> None:
    """Whether these columns can be written. Others than those that are known are left out, as by Kafka's sink."""
    types = {field.name: field.dataType for field in schema}
    if "value" not in types:
        raise BadRows(f"there is no column value; there are {', '.join(types) or 'none'}")
    if options.topic is None and "topic" not in types:
        raise BadRows("there is neither an option topic nor a column topic: where should the rows go?")
    for name, wanted in _COLUMNS.items():
        if name in types and not _fits(name, types[name]):
            raise BadRows(f"column {name}: it must be {wanted}, and is {types[name].simpleString()}")


def _fits(name: str, given: DataType) -> bool:
    match name:
        case "value" | "key":
            return isinstance(given, BinaryType | StringType)
        case "topic":
            return isinstance(given, StringType)
        case "partition":
            return isinstance(given, IntegerType)
        case _:
            return _is_headers(given)


def _is_headers(given: DataType) -> bool:
    pair = given.elementType if isinstance(given, ArrayType) else None
    if not isinstance(pair, StructType) or [field.name for field in pair] != ["key", "value"]:
        return False
    return isinstance(pair["key"].dataType, StringType) and isinstance(pair["value"].dataType, BinaryType)


def _stage(producer_id: int, sent: dict[TopicPartition, tuple[int, int]]) -> Stage:
    return Stage(producer_id, tuple(StagePart(*part, batches, records) for part, (batches, records) in sent.items()))


def _drop(client: Client, stages: Sequence[Stage]) -> None:
    """Best effort: what stays expires."""
    try:
        client.drop_staged(stages)
    except QuorateError as error:
        _log.warning("stages could not be dropped, and expire: %s", error)
