"""Spark, one queue, two ways to read it and two places to put it."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.spark.connector import Connector
from quorate.spark.source import QuorateDataSource

Say = Callable[[str], None]
SYSTEMS = {"quorate": "format(quorate)", "kafka": "Spark's Kafka connector"}
SINKS = ("noop", "parquet")


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is read."""

    size: int
    partitions: int
    rows: int


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One read of a whole queue."""

    system: str
    size: int
    partitions: int
    sink: str
    round: int
    rows: int
    seconds: float

    @property
    def per_s(self) -> float:
        return self.rows / self.seconds


class WrongCount(RuntimeError):
    """A system has not read what is in the queue."""


@contextmanager
def spark(cores: int, connector: Connector | None) -> Iterator[SparkSession]:
    """A session with room for both; the same for both."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{cores}]").appName("quorate bench")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "3g",
    }
    if connector is not None:
        settings["spark.jars"] = ",".join(map(str, connector.paths))
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.dataSource.register(QuorateDataSource)
    try:
        yield session
    finally:
        session.stop()


def read(session: SparkSession, system: str, bootstrap: str, queue: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": queue, "startingOffsets": "earliest"}
    return session.read.format(system).options(**options).load()


def check(session: SparkSession, system: str, bootstrap: str, queue: str, rows: int) -> None:
    """Also what warms it up. Raises WrongCount."""
    found = read(session, system, bootstrap, queue).count()
    if found != rows:
        raise WrongCount(f"{SYSTEMS[system]} read {found:,} messages of {queue}, which has {rows:,}")


def take(
    session: SparkSession, case: Case, system: str, sink: str, number: int, *, bootstrap: str, queue: str, scratch: Path
) -> Reading:
    """One read of the queue into the sink."""
    to = scratch / "out"
    shutil.rmtree(to, ignore_errors=True)
    # Dirty pages of what was written before would be written out during this reading.
    os.sync()
    began = time.perf_counter()
    writer = read(session, system, bootstrap, queue).write.mode("overwrite")
    if sink == "noop":
        writer.format("noop").save()
    else:
        writer.parquet(str(to))
    seconds = time.perf_counter() - began
    return Reading(
        system=system,
        size=case.size,
        partitions=case.partitions,
        sink=sink,
        round=number,
        rows=case.rows,
        seconds=seconds,
    )


def rounds(
    session: SparkSession, case: Case, systems: list[str], count: int, *, bootstrap: str, queue: str, scratch: Path
) -> Iterator[Reading]:
    """In turns, every second round backwards: what drifts, drifts for both."""
    for system in systems:
        check(session, system, bootstrap, queue, case.rows)
    for number in range(count):
        for sink in SINKS:
            for system in systems if number % 2 == 0 else systems[::-1]:
                yield take(session, case, system, sink, number, bootstrap=bootstrap, queue=queue, scratch=scratch)
