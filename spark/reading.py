"""One task's work: a range of a partition, from fetches to Arrow batches. The same for batch reads and streams.

Leader changes and lost connections are the client's business and are not seen here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from quorate.client import OffsetOutOfRange
from quorate.spark.clients import shared_client
from quorate.spark.columns import Decoder
from quorate.spark.errors import DataLost, Missing
from quorate.spark.options import ReadOptions
from quorate.spark.ranges import Range, RangeTask

_log = logging.getLogger(__name__)


def read_task(options: ReadOptions, task: InputPartition) -> Iterator[pa.RecordBatch]:
    """All records of the task's range. Raises DataLost, unless that may happen; then a warning says what is missing."""
    if isinstance(task, RangeTask):  # a read of nothing has a task too, without a range
        yield from _read(options, task.range)


def _read(options: ReadOptions, wanted: Range) -> Iterator[pa.RecordBatch]:
    client = shared_client(options.client)
    decoder = Decoder(*wanted.part, headers=options.headers)
    start = wanted.start
    while start < wanted.end:
        stream = client.stream(wanted.part, start, wanted.end, max_bytes=options.fetch_bytes)
        try:
            for data in stream:
                for rows in decoder.decode(data, start, wanted.end):
                    start = rows.column("offset")[-1].as_py() + 1
                    yield rows
            return
        except OffsetOutOfRange as error:
            start = _skip(options, wanted, start, error)
        finally:
            stream.close()


def _skip(options: ReadOptions, wanted: Range, start: int, error: OffsetOutOfRange) -> int:
    """Where to go on after retention overtook the task. Raises DataLost if that may not be."""
    first = max(start, error.offset)
    if error.log_start > first:
        end, why = min(error.log_start, wanted.end), f"the log begins at {error.log_start} now"
    else:
        # A log that ends before what was committed once: it was deleted and made anew.
        end, why = wanted.end, f"the log ends at {error.end} now"
    lost = DataLost([Missing(*wanted.part, first, end, why)])
    if options.fail_on_data_loss:
        raise lost from error
    _log.warning("%s", lost)
    return end
