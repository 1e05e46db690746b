"""The Spark session of a pipeline, and how a program runs in it: what `main` of each pipeline does around its work."""

from __future__ import annotations

import json
import logging
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from quorate.client import QuorateError
from quorate.spark.pipelines.errors import PipelineError, reason
from quorate.spark.pipelines.queues import register
from quorate.spark.pipelines.watch import Lines, Progress, Watch

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)
_LOOK_S = 1
_SETTINGS = {
    # Dates and hours in folder names mean the same everywhere.
    "spark.sql.session.timeZone": "UTC",
    # A batch that runs again replaces exactly what it had written, and nothing else.
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # Its coordinates are in the checkpoint; it does not apply to streams, and says so at each start.
    "spark.sql.adaptive.enabled": "false",
}


class Ended(BaseException):
    """SIGTERM: as Ctrl-C, so that the query is stopped and the session closed."""


def open_session(name: str) -> SparkSession:
    """The session that `spark-submit` has configured, or else one with all cores of this machine."""
    builder = SparkSession.builder.appName(f"quorate {name}")
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    # Spark writes the stack of a query that fails; what it says is told in one line by `carry_out`.
    session.sparkContext.setLogLevel("FATAL")
    register(session)
    return session


def carry_out(name: str, work: Callable[[SparkSession, Watch], None], watch: Watch | None) -> int:
    """Run a pipeline's work to its end; the exit code. Whatever a user can cause is one line and no stack."""
    watch = watch if watch is not None else Lines()
    before = signal.signal(signal.SIGTERM, _end) if _in_main_thread() else None
    try:
        work(open_session(name), watch)
    except (KeyboardInterrupt, Ended):
        watch.say(f"{name}: stopped. Started again with the same options it goes on where it was")
        return 0
    except (PipelineError, QuorateError) as error:
        watch.say(f"error: {error}")
        return 1
    except PySparkException as error:
        _log.debug("%s failed", name, exc_info=error)
        watch.say(f"error: {reason(error)}")
        return 1
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
    return 0


def follow(query: StreamingQuery, watch: Watch) -> None:
    """Show how a query gets on until it ends; stop it if we are ended. Raises what ended it."""
    began, seen, total = time.monotonic(), -1, 0
    try:
        while True:
            ended = query.awaitTermination(_LOOK_S)
            for progress in query.recentProgress:
                if progress.batchId > seen:
                    seen, total = progress.batchId, total + progress.numInputRows
            watch.show(_progress(query, total, total / max(time.monotonic() - began, 1e-3)))
            if ended:
                return
    finally:
        query.stop()


def _progress(query: StreamingQuery, total: int, per_s: float) -> Progress:
    last = query.lastProgress
    if last is None:
        return Progress(messages=total, per_s=0.0, note=str(query.status.get("message", "")))
    behind = [found for source in last.sources if (found := behind_of(source.endOffset, source.latestOffset)) is not None]
    late = sum(state.numRowsDroppedByWatermark for state in last.stateOperators)
    return Progress(
        messages=total,
        per_s=per_s,
        behind=sum(behind) if behind else None,
        note=f"batch {last.batchId}" + (f", {late:,} groups of rows came too late in it" if late else ""),
    )


def behind_of(end: str | None, latest: str | None) -> int | None:
    """How many offsets lie between what was read and the ends of the logs, as a source reports them. None: not known."""
    try:
        read, there = json.loads(end or ""), json.loads(latest or "")
    except ValueError:
        return None
    if not isinstance(read, dict) or not isinstance(there, dict):
        return None
    behind = 0
    for queue, parts in there.items():
        if queue in read:
            behind += sum(max(0, int(offset) - int(read[queue].get(part, 0))) for part, offset in parts.items())
    return behind


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise Ended


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
