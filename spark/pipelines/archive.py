"""`archive`: queues into partitioned Parquet, each message once.

The layout is `topic=T/date=D/hour=H/batch=N/part-*.parquet`, by log time in UTC. A micro-batch has the same offsets whenever
it runs, because Spark writes them down first; running again after a crash, it replaces its own `batch=N` folders and
nothing else. So no reader of Parquet, Spark or not, finds a message twice. `_quorate/done` says which batches are whole.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import DateType, IntegerType, LongType, StructType

from quorate.spark.pipelines import pace
from quorate.spark.pipelines.arguments import Arguments, names
from quorate.spark.pipelines.errors import PipelineError
from quorate.spark.pipelines.files import OWN, Files, Marks, belongs_together
from quorate.spark.pipelines.pace import Pace
from quorate.spark.pipelines.queues import Cluster
from quorate.spark.pipelines.session import carry_out, follow
from quorate.spark.pipelines.watch import Watch
from quorate.spark.schema import spark_schema

HELP = """\
Archive queues as Parquet files, each message once, whatever is killed meanwhile.

Without --follow it archives what there is now and ends: call it again, from cron for instance, and it goes on where it was.

examples:
  quorate pipeline archive orders --to /data/archive
  quorate pipeline archive orders payments --to s3a://bucket/archive --follow --every 5m
  spark-submit --py-files quorate.zip archive.py orders --to hdfs:///archive --bootstrap node1:9092

The files lie in topic=T/date=D/hour=H/batch=N, by log time in UTC. Any reader of Parquet can use them:
  spark.read.parquet("/data/archive").where("topic = 'orders' and date = '2026-11-18'")
`quorate pipeline replay --archive` brings them back into a queue.
"""

PARTITIONED_BY = ("topic", "date", "hour", "batch")
SCHEMA = StructType(
    [
        *(field for field in spark_schema(headers=True).fields if field.name != "topic"),
        spark_schema(headers=True)["topic"],
        *StructType().add("date", DateType()).add("hour", IntegerType()).add("batch", LongType()).fields,
    ]
)
"""Given to readers: guessed from the folders' names, a queue called 2026 would be a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the command line says."""

    cluster: Cluster
    queues: tuple[str, ...]
    to: str
    checkpoint: str
    pace: Pace


def parse(argv: Sequence[str] | None) -> Settings:
    """Ends the process with code 2 if the command line is wrong."""
    parser = Arguments("archive", HELP)
    parser.add_argument("queues", nargs="+", metavar="QUEUE", help="the queues to archive")
    parser.add_argument("--to", required=True, metavar="FOLDER", help="where the archive is or shall be")
    parser.add_argument("--checkpoint", metavar="FOLDER", help=f"Spark's checkpoint (default: FOLDER/{OWN}/checkpoint)")
    pace.add_to(parser)
    return _checked(parser, parser.parse_args(argv))


def _checked(parser: Arguments, given: argparse.Namespace) -> Settings:
    to = given.to.rstrip("/") or "/"
    return Settings(
        cluster=Cluster(given.bootstrap, dict(given.read_option)),
        queues=names(given.queues),
        to=to,
        checkpoint=given.checkpoint or f"{to}/{OWN}/checkpoint",
        pace=pace.pace_of(parser, given),
    )


def laid_out(messages: DataFrame, batch: int) -> DataFrame:
    """Messages with the columns that name their folder, in the order in which they are written."""
    stamp = fn.col("timestamp")
    named = messages.withColumns({"date": fn.to_date(stamp), "hour": fn.hour(stamp), "batch": fn.lit(batch).cast("long")})
    # Each file then holds a run of offsets, and its statistics lead a reader to it.
    return named.sortWithinPartitions(*PARTITIONED_BY, "partition", "offset")


def read_archive(session: SparkSession, folder: str, queues: Sequence[str] = ()) -> DataFrame:
    """What an archive holds, without the batch that may be being written just now. Raises PipelineError if it is none."""
    files = Files(session, folder)
    done = Marks(files, f"{OWN}/done").last()
    if done < 0:
        there = "has no finished batch yet" if files.exists(OWN) else "is no archive"
        raise PipelineError(f"{folder} {there}: `quorate pipeline archive` makes one")
    rows = session.read.schema(SCHEMA).parquet(folder).where(fn.col("batch") <= done)
    return rows.where(fn.col("topic").isin(*queues)) if queues else rows


def write_batch(to: str, done: Marks) -> Callable[[DataFrame, int], None]:
    """What is done with each micro-batch, once or, after a crash, again."""

    def write(messages: DataFrame, batch: int) -> None:
        writer = laid_out(messages, batch).write.mode("overwrite").partitionBy(*PARTITIONED_BY)
        writer.option("partitionOverwriteMode", "dynamic").parquet(to)
        done.put(batch, {})

    return write


def run(session: SparkSession, settings: Settings, watch: Watch) -> None:
    """Archive until there is nothing more, or until we are ended."""
    output, checkpoint = Files(session, settings.to), Files(session, settings.checkpoint)
    belongs_together(checkpoint, output, "archive")
    messages = settings.cluster.stream(
        session,
        settings.queues,
        includeHeaders="true",
        **settings.pace.source_options(),
    )
    writer = messages.writeStream.queryName("archive").option("checkpointLocation", settings.checkpoint)
    writer = writer.foreachBatch(write_batch(settings.to, Marks(output, f"{OWN}/done")))
    watch.say(f"archiving {', '.join(settings.queues)} into {settings.to}")
    follow(settings.pace.trigger(writer).start(), watch)
    watch.say(f"archived up to batch {Marks(output, f'{OWN}/done').last()} in {settings.to}")


def main(argv: Sequence[str] | None = None, watch: Watch | None = None) -> int:
    settings = parse(argv)
    return carry_out("archive", lambda session, told: run(session, settings, told), watch)


if __name__ == "__main__":
    sys.exit(main())
