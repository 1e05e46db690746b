"""`replay`: an archive, or a time range of a queue, into a queue; each message once, at a given rate, resumable.

A plan is made once and kept: the offsets of each partition, cut into steps. A step is the same whenever it is carried out,
and the broker appends a step's messages only if it has not done so before, so a replay that was killed goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from quorate.spark.pipelines.archive import read_archive
from quorate.spark.pipelines.arguments import Arguments, count, moment
from quorate.spark.pipelines.errors import PipelineError
from quorate.spark.pipelines.files import Files, Marks, belongs_together
from quorate.spark.pipelines.queues import Cluster, bounds, partitions
from quorate.spark.pipelines.session import carry_out
from quorate.spark.pipelines.watch import Progress, Watch

HELP = """\
Bring messages back into a queue: from an archive, or from a queue that still has them.

Each message is appended once, whatever is killed meanwhile. The order of each of the old partitions is kept; a key goes to
the partition that its hash names, or with --keep-partitions to the one where it was.

examples:
  quorate pipeline replay orders --to orders-again --state /data/replay-1 --from 2026-11-18T09:00 --until 2026-11-18T10:00
  quorate pipeline replay orders --archive /data/archive --to test-orders --state /data/replay-2 --rate 5000 --mark
  spark-submit --py-files quorate.zip replay.py orders --archive hdfs:///archive --to orders-again --state hdfs:///replay-1

Stopped or killed, the same command goes on where it was. For another replay name another --state.
"""

_STEP_S = 5.0
_UNLIMITED_STEP = 500_000
Ranges = Mapping[int, tuple[int, int]]
"""Partition -> offsets [first, last)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the command line says."""

    cluster: Cluster
    queue: str
    archive: str | None
    to: str
    state: str
    since_ms: int | None
    until_ms: int | None
    rate: int | None
    step: int
    keep_partitions: bool
    mark: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is replayed, fixed when the replay began."""

    ranges: Ranges
    total: int
    """Messages, about: a queue's offsets have small gaps."""
    steps: int

    def step(self, number: int) -> dict[int, tuple[int, int]]:
        """The offsets of one step: an equal share of each partition, so that all come to their ends together."""
        found = {}
        for part, (start, stop) in self.ranges.items():
            first, last = (start + (stop - start) * n // self.steps for n in (number, number + 1))
            if first < last:
                found[part] = (first, last)
        return found


def parse(argv: Sequence[str] | None) -> Settings:
    """Ends the process with code 2 if the command line is wrong."""
    parser = Arguments("replay", HELP)
    parser.add_argument("queue", metavar="QUEUE", help="the queue whose messages are replayed, as it was called")
    parser.add_argument("--to", required=True, metavar="QUEUE", help="the queue that gets them; it must be there")
    parser.add_argument("--state", required=True, metavar="FOLDER", help="where the plan is kept, and how far it is")
    parser.add_argument("--archive", metavar="FOLDER", help="read them from this archive and not from the queue")
    parser.add_argument("--from", dest="since", type=moment, metavar="TIME", help="from this log time on (UTC)")
    parser.add_argument("--until", type=moment, metavar="TIME", help="up to before this log time (UTC)")
    parser.add_argument("--rate", type=count, metavar="N", help="at most so many messages a second (default: no limit)")
    parser.add_argument(
        "--step", type=count, metavar="N", help="messages in one step (default: 5 seconds' worth, or 500,000)"
    )
    parser.add_argument("--keep-partitions", action="store_true", help="into partitions of the same numbers")
    parser.add_argument(
        "--mark", action="store_true", help="add a header `quorate-replayed` to each: queue/partition/offset@log time in ms"
    )
    parser.writes()
    return _checked(parser, parser.parse_args(argv))


def _checked(parser: Arguments, given: argparse.Namespace) -> Settings:
    if given.since is not None and given.until is not None and given.since >= given.until:
        parser.error("--from must lie before --until")
    return Settings(
        cluster=Cluster(given.bootstrap, dict(given.read_option), dict(given.write_option)),
        queue=given.queue,
        archive=given.archive,
        to=given.to,
        state=given.state,
        since_ms=given.since,
        until_ms=given.until,
        rate=given.rate,
        step=given.step or (max(1, round(given.rate * _STEP_S)) if given.rate else _UNLIMITED_STEP),
        keep_partitions=given.keep_partitions,
        mark=given.mark,
    )


def in_time(messages: DataFrame, since_ms: int | None, until_ms: int | None) -> DataFrame:
    """Messages of an archive stamped in [since, until). Dates are folders: asking for them spares most of the files."""
    if since_ms is not None:
        since = fn.timestamp_millis(fn.lit(since_ms))
        messages = messages.where((fn.col("date") >= fn.to_date(since)) & (fn.col("timestamp") >= since))
    if until_ms is not None:
        until = fn.timestamp_millis(fn.lit(until_ms))
        messages = messages.where((fn.col("date") <= fn.to_date(until)) & (fn.col("timestamp") < until))
    return messages


def in_ranges(messages: DataFrame, ranges: Ranges) -> DataFrame:
    """Those at the given offsets, each old partition in one task and in its order."""
    wanted: Column = fn.lit(False)
    for part, (first, last) in sorted(ranges.items()):
        wanted = wanted | ((fn.col("partition") == part) & (fn.col("offset") >= first) & (fn.col("offset") < last))
    return messages.where(wanted).repartition(max(1, len(ranges)), "partition").sortWithinPartitions("partition", "offset")


def to_append(messages: DataFrame, *, keep_partitions: bool, mark: bool) -> DataFrame:
    """The columns that the sink takes."""
    headers = fn.col("headers")
    if mark:
        headers = fn.concat(fn.coalesce(headers, fn.array().cast(messages.schema["headers"].dataType)), fn.array(_mark()))
    columns: list[Column | str] = ["key", "value", headers.alias("headers"), *(["partition"] if keep_partitions else [])]
    return messages.select(*columns)


def _mark() -> Column:
    stamp = fn.unix_millis("timestamp").cast("string")
    where = fn.concat_ws("/", "topic", fn.col("partition").cast("string"), fn.col("offset").cast("string"))
    text = fn.concat(where, fn.lit("@"), stamp).cast("binary")
    return fn.struct(fn.lit("quorate-replayed").alias("key"), text.alias("value"))


def planned(settings: Settings, ranges: Ranges, total: int) -> Plan:
    """Cut into steps of about the size that is asked for."""
    return Plan(ranges=ranges, total=total, steps=max(1, -(-total // settings.step)))


def _ranges_of_archive(session: SparkSession, settings: Settings) -> tuple[dict[int, tuple[int, int]], int]:
    assert settings.archive is not None
    rows = in_time(read_archive(session, settings.archive, [settings.queue]), settings.since_ms, settings.until_ms)
    ends = rows.groupBy("partition").agg(fn.min("offset"), fn.max("offset") + 1, fn.count("*")).collect()
    return {int(row[0]): (int(row[1]), int(row[2])) for row in ends}, sum(int(row[3]) for row in ends)


def _ranges_of_queue(settings: Settings) -> tuple[dict[int, tuple[int, int]], int]:
    with settings.cluster.client() as client:
        found = bounds(client, settings.queue, settings.since_ms, settings.until_ms)
    return found, sum(last - first for first, last in found.values())


def _check_target(settings: Settings, ranges: Ranges) -> None:
    with settings.cluster.client() as client:
        there = {part.partition for part in partitions(client, settings.to)}
    if settings.keep_partitions and (missing := set(ranges) - there):
        raise PipelineError(
            f"--keep-partitions: {settings.to} has {len(there)} partitions, and there are messages of number {max(missing)}"
        )


def _wish(settings: Settings) -> dict[str, object]:
    """What a plan was made from: a replay that goes on must mean the same one."""
    wish = asdict(settings)
    for key in ("cluster", "state", "rate"):
        del wish[key]
    return wish


def make_plan(session: SparkSession, settings: Settings, state: Files, watch: Watch) -> Plan:
    """The plan in the state folder, or a new one, which is kept there first of all. Raises PipelineError."""
    kept = state.read("plan.json")
    if kept is not None:
        if kept["wish"] | {"step": settings.step} != _wish(settings):
            differ = sorted(key for key, value in _wish(settings).items() if kept["wish"].get(key) != value)
            raise PipelineError(
                f"{settings.state} holds another replay, with other {', '.join(differ)}: give the same options, "
                "or another --state"
            )
        watch.say(f"going on with the replay that was begun in {settings.state}")
        ranges = {int(part): (first, last) for part, (first, last) in kept["ranges"].items()}
        return Plan(ranges=ranges, total=kept["total"], steps=kept["steps"])
    ranges, total = _ranges_of_archive(session, settings) if settings.archive else _ranges_of_queue(settings)
    _check_target(settings, ranges)
    plan = planned(settings, ranges, total)
    text = {str(part): list(bounds) for part, bounds in ranges.items()}
    state.write("plan.json", {"wish": _wish(settings), "ranges": text, "total": plan.total, "steps": plan.steps})
    return plan


def run(session: SparkSession, settings: Settings, watch: Watch) -> None:
    """Carry the plan out, step by step."""
    state = Files(session, settings.state)
    application = f"replay-{belongs_together(state, None, 'replay')}"
    plan = make_plan(session, settings, state, watch)
    done = Marks(state, "done")
    began, first, so_far = time.monotonic(), done.last() + 1, 0
    watch.say(f"replaying {plan.total:,} messages of {settings.queue} into {settings.to}, in {plan.steps} steps")
    for number in range(first, plan.steps):
        ranges = plan.step(number)
        if ranges:
            settings.cluster.append_once(_rows(session, settings, ranges), settings.to, application, number)
        done.put(number, {})
        so_far = plan.total * (number + 1) // plan.steps
        now = so_far - plan.total * first // plan.steps
        watch.show(_shown(plan, so_far, now / max(time.monotonic() - began, 1e-3), number))
        if settings.rate is not None and number + 1 < plan.steps:
            time.sleep(max(0.0, began + now / settings.rate - time.monotonic()))
    watch.say(f"replayed {plan.total:,} messages of {settings.queue} into {settings.to}")


def _rows(session: SparkSession, settings: Settings, ranges: Ranges) -> DataFrame:
    if settings.archive is not None:
        rows = in_time(read_archive(session, settings.archive, [settings.queue]), settings.since_ms, settings.until_ms)
        rows = in_ranges(rows, ranges)
    else:
        rows = settings.cluster.range(session, settings.queue, ranges, includeHeaders="true")
    return to_append(rows, keep_partitions=settings.keep_partitions, mark=settings.mark)


def _shown(plan: Plan, so_far: int, per_s: float, number: int) -> Progress:
    return Progress(messages=so_far, total=plan.total, per_s=per_s, note=f"step {number + 1} of {plan.steps}")


def main(argv: Sequence[str] | None = None, watch: Watch | None = None) -> int:
    settings = parse(argv)
    return carry_out("replay", lambda session, told: run(session, settings, told), watch)


if __name__ == "__main__":
    sys.exit(main())
