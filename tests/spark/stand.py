"""What tests of the source and the sink do over and over: fill queues, read them, run queries to their end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader

from bench.peers.processes import await_condition
from quorate.broker.protocol.builder import BatchBuilder, Producer
from quorate.client import Client, TopicPartition
from tests.support.broker_cluster import BrokerCluster

QUERY_S = 240


class Stand:
    """A Spark, a cluster and a client of it."""

    def __init__(self, spark: SparkSession, cluster: BrokerCluster, client: Client, folder: Path) -> None:
        self.spark = spark
        self.cluster = cluster
        self.client = client
        self.folder = folder
        self._names = 0

    @classmethod
    def open(cls, spark: SparkSession, cluster: BrokerCluster, folder: Path) -> Iterator[Stand]:
        with Client(cluster.bootstrap) as client:
            stand = cls(spark, cluster, client, folder)
            yield stand
            for query in spark.streams.active:
                query.stop()

    def fill(self, topic: str, partition: int, values: Sequence[bytes], per_batch: int = 10) -> int:
        """Append values, each once whoever dies meanwhile, and return the offset of the first."""
        first, me = -1, self.client.new_producer()
        for begin in range(0, len(values), per_batch):
            builder = BatchBuilder()
            for number, value in enumerate(values[begin : begin + per_batch]):
                builder.append(1_700_000_000_000, b"k%d" % (begin + number), value, (("h", value),))
            batch = builder.build(producer=Producer(me.id, me.epoch, begin))
            base = self.client.produce(TopicPartition(topic, partition), batch).base_offset
            first = base if first < 0 else first
        return first

    def read(self, **options: Any) -> DataFrame:
        """A batch read."""
        reader = self.spark.read.format("quorate").option("kafka.bootstrap.servers", self.cluster.bootstrap)
        for name, value in options.items():
            reader = reader.option(name, value)
        return reader.load()

    def rows(self, **options: Any) -> list[Row]:
        """The rows of a batch read, by partition and offset."""
        return sorted(self.read(**options).collect(), key=lambda row: (row.topic, row.partition, row.offset))

    def stream(self, **options: Any) -> DataStreamReader:
        """A streaming read, not loaded."""
        reader = self.spark.readStream.format("quorate").option("kafka.bootstrap.servers", self.cluster.bootstrap)
        for name, value in options.items():
            reader = reader.option(name, value)
        return reader

    def run(self, frame: DataFrame, name: str, **trigger: Any) -> StreamingQuery:
        """Start a query into a folder of Parquet files, from its checkpoint."""
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(self.folder / f"{name}-checkpoint"))
        return writer.trigger(**(trigger or {"processingTime": "0 seconds"})).start(str(self.folder / name))

    def finish(self, frame: DataFrame, name: str) -> StreamingQuery:
        """Run a query over what is there, and wait for its end."""
        query = self.run(frame, name, availableNow=True)
        assert query.awaitTermination(QUERY_S)
        return query

    def written(self, name: str) -> list[Row]:
        """What queries wrote into a folder, by partition and offset."""
        frame = self.spark.read.schema(
            "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
        ).parquet(str(self.folder / name))
        return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))

    def await_rows(self, query: StreamingQuery, count: int) -> None:
        """Wait until a query has read so many rows."""

        def arrived() -> bool:
            failure = query.exception()
            if failure is not None:
                raise failure
            return sum(progress.numInputRows for progress in query.recentProgress) >= count

        await_condition(arrived, f"{count} rows are read", QUERY_S, pause_s=0.05)
