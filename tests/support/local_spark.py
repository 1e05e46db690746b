"""A Spark on this machine for tests: quick to start, quiet, two tasks at a time."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # A worker process that starts on a busy machine may need longer than 15 s to say who it is.
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
}


@contextmanager
def open_local_spark() -> Iterator[SparkSession]:
    """One JVM per process: a session that is there already is used, and left to whoever opened it."""
    there = SparkSession.getActiveSession()
    if there is not None:
        yield there
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2,4]").appName("tests")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        spark = builder.getOrCreate()
        try:
            yield spark
        finally:
            spark.stop()
