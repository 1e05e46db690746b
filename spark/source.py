"""The data source `quorate`: what Spark finds under that name. Register it with `spark.dataSource.register(QuorateSource)`.

Not here: what the readers and writers do. Spark hands each of them to other processes, so all of it can be pickled.
"""

from __future__ import annotations

import sys

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from quorate.spark.batch_reader import BatchReader, FilteringReader
from quorate.spark.errors import BadOption
from quorate.spark.options import ReadOptions, Use, include_headers, read_options, write_options
from quorate.spark.schema import spark_schema
from quorate.spark.sink import BatchWriter, StreamWriter
from quorate.spark.stream_reader import StreamReader

_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class QuorateDataSource(DataSource):
    """Reads and writes queues, with Kafka's columns and Kafka's names for options."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return "quorate"

    def schema(self) -> StructType:
        """Kafka's columns. Options are looked at already here, at `load()`. Raises BadOption."""
        return spark_schema(headers=include_headers(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of a fixed range. Raises BadOption."""
        options = _checked(read_options(self.options, Use.BATCH), schema)
        # A reader that takes filters is an error where Spark's pushdown is off, and nothing else says whether it is on.
        return FilteringReader(options) if _PUSHDOWN_WORKER in sys.modules else BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A reader that goes on. Raises BadOption."""
        return StreamReader(_checked(read_options(self.options, Use.STREAM), schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A writer of one batch. Raises BadOption, BadRows."""
        if overwrite:
            raise BadOption("mode", "a queue can be appended to and not overwritten: use mode('append')")
        return BatchWriter(write_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """A writer of micro-batches. Raises BadOption, BadRows."""
        if overwrite:
            raise BadOption("outputMode", "a queue can be appended to only: use outputMode('append') or ('update')")
        return StreamWriter(write_options(self.options), schema)


def _checked(options: ReadOptions, schema: StructType) -> ReadOptions:
    if [(field.name, field.dataType) for field in schema] != [
        (field.name, field.dataType) for field in spark_schema(headers=options.headers)
    ]:
        raise BadOption("schema", "the columns are fixed (and headers comes with includeHeaders); select from them instead")
    return options
