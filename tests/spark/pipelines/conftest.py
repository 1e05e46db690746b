"""One local Spark for the tests of the pipelines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.support.local_spark import open_local_spark


@pytest.fixture(scope="session")
def session() -> Iterator[SparkSession]:
    with open_local_spark() as spark:
        yield spark
