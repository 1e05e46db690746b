"""Submitted to a Spark cluster: prints from where each executor has our code."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession


def where(rows: Iterable[int]) -> Iterator[tuple[str, str]]:
    import quorate.spark.source

    for _ in rows:
        yield quorate.spark.source.__file__, os.getcwd()


if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    found = session.sparkContext.parallelize(range(40), 8).mapPartitions(where).distinct().collect()
    print("where: " + json.dumps(found))
    session.stop()
