"""`traffic`: per queue, key prefix and minute, how many messages and bytes, and how far log time was behind event time.

Messages that come too late are judged by a watermark on event time: a minute is written once, when no message that still
counts can belong to it. A micro-batch's rows are the same whenever it runs, and both outputs take each batch once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from quorate.spark.pipelines import pace
from quorate.spark.pipelines.arguments import Arguments, names, span_s
from quorate.spark.pipelines.files import OWN, Files, belongs_together
from quorate.spark.pipelines.pace import Pace
from quorate.spark.pipelines.queues import Cluster, partitions
from quorate.spark.pipelines.session import carry_out, follow
from quorate.spark.pipelines.watch import Watch

HELP = """\
Sum up what flows through queues: messages, bytes and lag, per queue, key prefix and minute.

A message's event time is a field of its JSON value or a header; lag is its log time minus its event time. A minute is
written when the watermark has passed it: the latest event time seen so far, less --lateness. What comes later than that
is left out, and the progress says how much it is. The last minutes therefore wait for later messages.

examples:
  quorate pipeline traffic orders --event-time json:created_at --to-parquet /data/traffic --to-queue traffic
  quorate pipeline traffic orders payments --key-prefix until:: --to-queue traffic --checkpoint /data/cp --follow --every 1m
  spark-submit --py-files quorate.zip traffic.py orders --event-time header:sent --to-parquet hdfs:///traffic

Rows of Parquet lie in queue=Q/date=D/batch=N. Rows of a queue are JSON, with QUEUE/PREFIX as their key:
  {"queue":"orders","prefix":"eu","minute":"2026-11-18T09:30:00Z","messages":812,"bytes":97440,
   "untimed":0,"lag_ms_avg":41.5,"lag_ms_max":920}
`untimed` are messages without an event time that can be read: they count at their log time, and not for the lag.
"""

_LONGEST_PREFIX = 64
PARTITIONED_BY = ("queue", "date", "batch")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """Where a message says when it happened. Name "" : nowhere, log time counts."""

    kind: str = "log"
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """Which part of a key is told apart: the first `length` characters, cut at `until` if that is there."""

    length: int = _LONGEST_PREFIX
    until: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the command line says."""

    cluster: Cluster
    queues: tuple[str, ...]
    event_time: EventTime
    prefix: Prefix
    lateness_s: float
    to_parquet: str | None
    to_queue: str | None
    checkpoint: str
    pace: Pace


def parse(argv: Sequence[str] | None) -> Settings:
    """Ends the process with code 2 if the command line is wrong."""
    parser = Arguments("traffic", HELP)
    parser.add_argument("queues", nargs="+", metavar="QUEUE", help="the queues to sum up")
    parser.add_argument(
        "--event-time",
        type=event_time,
        default=EventTime(),
        metavar="WHERE",
        help="json:FIELD (a.b.c for a field in a field), header:NAME, or log: the log time itself (default log). The field "
        "is ISO 8601 text or a number of milliseconds since 1970",
    )
    parser.add_argument(
        "--key-prefix",
        type=prefix,
        default=Prefix(length=0),
        metavar="HOW",
        help="tell keys apart by what stands before a text (until:TEXT) or by their first characters (NUMBER, at most "
        f"{_LONGEST_PREFIX}). Default: not at all",
    )
    parser.add_argument(
        "--lateness", type=span_s, default=600.0, metavar="TIME", help="how late a message may be (default 10m)"
    )
    parser.add_argument("--to-parquet", metavar="FOLDER", help="write the rows there")
    parser.add_argument("--to-queue", metavar="QUEUE", help="append the rows to this queue; it must be there")
    parser.add_argument(
        "--checkpoint", metavar="FOLDER", help=f"Spark's checkpoint (default with --to-parquet: FOLDER/{OWN}/checkpoint)"
    )
    pace.add_to(parser)
    parser.writes()
    return _checked(parser, parser.parse_args(argv))


def _checked(parser: Arguments, given: argparse.Namespace) -> Settings:
    if given.to_parquet is None and given.to_queue is None:
        parser.error("name --to-parquet, --to-queue or both")
    if given.to_parquet is None and given.checkpoint is None:
        parser.error("without --to-parquet there is no place for a checkpoint: name one with --checkpoint")
    if given.to_queue in given.queues:
        parser.error(f"--to-queue: {given.to_queue} is also summed up, and would count its own rows for ever")
    to = given.to_parquet.rstrip("/") if given.to_parquet else None
    return Settings(
        cluster=Cluster(given.bootstrap, dict(given.read_option), dict(given.write_option)),
        queues=names(given.queues),
        event_time=given.event_time,
        prefix=given.key_prefix,
        lateness_s=given.lateness,
        to_parquet=to,
        to_queue=given.to_queue,
        checkpoint=given.checkpoint or f"{to}/{OWN}/checkpoint",
        pace=pace.pace_of(parser, given),
    )


def event_time(text: str) -> EventTime:
    """`log`, `json:FIELD`, `header:NAME`."""
    kind, _, name = text.partition(":")
    # A quote would end the path that it becomes part of.
    if (kind == "log") == bool(name) or kind not in {"log", "json", "header"} or (kind == "json" and "'" in name):
        raise argparse.ArgumentTypeError(f"{text!r} is not json:FIELD, header:NAME or log")
    return EventTime(kind=kind, name=name)


def prefix(text: str) -> Prefix:
    """`until:TEXT`, or a number of characters."""
    kind, colon, until = text.partition(":")
    if kind == "until" and colon and until:
        return Prefix(until=until)
    if text.isdigit() and 0 < int(text) <= _LONGEST_PREFIX:
        return Prefix(length=int(text))
    raise argparse.ArgumentTypeError(f"{text!r} is not until:TEXT or a number from 1 to {_LONGEST_PREFIX}")


def timed(messages: DataFrame, where: EventTime) -> DataFrame:
    """Messages with `event_time`, and `untimed`: whether that is only their log time, because they do not tell another."""
    if where.kind == "log":
        return messages.withColumns({"event_time": fn.col("timestamp"), "untimed": fn.lit(False)})
    text = _field(where.name) if where.kind == "json" else _header(where.name)
    told = _as_time(text)
    return messages.withColumns({"event_time": fn.coalesce(told, fn.col("timestamp")), "untimed": told.isNull()})


def _field(path: str) -> Column:
    steps = "".join(f"['{step}']" for step in path.split("."))
    return fn.get_json_object(_text("value"), f"${steps}")


def _header(name: str) -> Column:
    """The last of that name counts, as with Kafka's clients."""
    found = fn.filter("headers", lambda header: header["key"] == name)
    return _to_text(fn.try_element_at(found, fn.lit(-1))["value"])


def _as_time(text: Column) -> Column:
    """A number is milliseconds; anything else is read as ISO 8601, in UTC unless it says otherwise; nonsense is null."""
    number = fn.when(text.rlike(r"^\d{1,15}$"), fn.timestamp_millis(text.try_cast("bigint")))
    return fn.coalesce(number, fn.when(text.rlike(r"^\d{4}-\d\d-\d\d"), text.try_cast("timestamp")))


def _text(column: str) -> Column:
    return _to_text(fn.col(column))


def _to_text(column: Column) -> Column:
    """Bytes as text. What is no UTF-8 gets Unicode's replacement character instead of failing the query."""
    return fn.make_valid_utf8(column.cast("string"))


def prefixed(how: Prefix) -> Column:
    """The part of the key that is told apart; empty where there is no key."""
    if how.length == 0:
        return fn.lit("")
    text = fn.coalesce(_text("key"), fn.lit(""))
    whole = fn.substring_index(text, how.until, 1) if how.until else text
    return fn.substring(whole, 1, how.length)


def summed(messages: DataFrame, prefix: Prefix) -> DataFrame:
    """Timed messages, summed up per queue, prefix and minute."""
    lag = fn.when(~fn.col("untimed"), fn.unix_millis("timestamp") - fn.unix_millis("event_time"))
    size = fn.coalesce(fn.octet_length("key"), fn.lit(0)) + fn.coalesce(fn.octet_length("value"), fn.lit(0))
    minute = fn.window("event_time", "1 minute")
    groups = messages.groupBy(fn.col("topic").alias("queue"), prefixed(prefix).alias("prefix"), minute)
    sums = groups.agg(
        fn.count("*").alias("messages"),
        fn.sum(size.cast("long")).alias("bytes"),
        fn.count_if("untimed").alias("untimed"),
        fn.avg(lag).alias("lag_ms_avg"),
        fn.max(lag).alias("lag_ms_max"),
    )
    figures = ("messages", "bytes", "untimed", "lag_ms_avg", "lag_ms_max")
    return sums.select("queue", "prefix", fn.col("window.start").alias("minute"), *figures)


def traffic(messages: DataFrame, settings: Settings) -> DataFrame:
    """From a queue's messages to the rows of the result."""
    late = f"{round(settings.lateness_s * 1_000)} milliseconds"
    return summed(timed(messages, settings.event_time).withWatermark("event_time", late), settings.prefix)


def as_messages(rows: DataFrame) -> DataFrame:
    """The rows as a queue's messages."""
    columns = [name for name in rows.columns if name not in {"date", "batch"}]
    value = fn.to_json(fn.struct(*columns), {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss'Z'", "timeZone": "UTC"})
    return rows.select(fn.concat_ws("/", "queue", "prefix").cast("binary").alias("key"), value.cast("binary").alias("value"))


def write_batch(settings: Settings, application: str) -> Callable[[DataFrame, int], None]:
    """What is done with each micro-batch's rows, once or, after a crash, again."""

    def write(rows: DataFrame, batch: int) -> None:
        # Few rows for two outputs: computing them twice would read the queue twice.
        kept = rows.persist()
        try:
            if settings.to_parquet is not None:
                named = kept.withColumns({"date": fn.to_date("minute"), "batch": fn.lit(batch).cast("long")}).coalesce(1)
                writer = named.write.mode("overwrite").partitionBy(*PARTITIONED_BY)
                writer.option("partitionOverwriteMode", "dynamic").parquet(settings.to_parquet)
            if settings.to_queue is not None:
                settings.cluster.append_once(as_messages(kept), settings.to_queue, application, batch)
        finally:
            kept.unpersist()

    return write


def run(session: SparkSession, settings: Settings, watch: Watch) -> None:
    """Sum up until there is nothing more, or until we are ended."""
    output = Files(session, settings.to_parquet) if settings.to_parquet is not None else None
    application = f"traffic-{belongs_together(Files(session, settings.checkpoint), output, 'traffic')}"
    if settings.to_queue is not None:
        with settings.cluster.client() as client:
            partitions(client, settings.to_queue)
    messages = settings.cluster.stream(
        session,
        settings.queues,
        includeHeaders=str(settings.event_time.kind == "header").lower(),
        **settings.pace.source_options(),
    )
    writer = traffic(messages, settings).writeStream.queryName("traffic").outputMode("append")
    writer = writer.option("checkpointLocation", settings.checkpoint).foreachBatch(write_batch(settings, application))
    places = " and ".join(filter(None, (settings.to_parquet, settings.to_queue and f"queue {settings.to_queue}")))
    watch.say(f"summing up {', '.join(settings.queues)} into {places}")
    follow(settings.pace.trigger(writer).start(), watch)
    watch.say(f"summed up what there was into {places}")


def main(argv: Sequence[str] | None = None, watch: Watch | None = None) -> int:
    settings = parse(argv)
    return carry_out("traffic", lambda session, told: run(session, settings, told), watch)


if __name__ == "__main__":
    sys.exit(main())
