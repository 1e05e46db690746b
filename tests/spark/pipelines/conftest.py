"""Under a shorter name: the Spark that all tests of `tests/spark` share."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    return spark
