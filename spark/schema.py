"""The columns that Spark sees. Kafka's, so that a program changes its format's name and no more.

Not here: the same in Arrow (`columns`); a test holds the two together.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)


def spark_schema(*, headers: bool) -> StructType:
    """Every row's columns; `headers` as asked for with `includeHeaders`."""
    schema = (
        StructType()
        .add("key", BinaryType())
        .add("value", BinaryType())
        .add("topic", StringType())
        .add("partition", IntegerType())
        .add("offset", LongType())
        .add("timestamp", TimestampType())
        .add("timestampType", IntegerType())
    )
    if headers:
        header = StructType().add("key", StringType()).add("value", BinaryType())
        schema = schema.add("headers", ArrayType(header))
    return schema
