"""One local Spark for the tests of the pipelines, and one cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from bench.peers.quorate_up import QuorateUp
from tests.support.broker_cluster import BrokerCluster
from tests.support.local_spark import open_local_spark


@pytest.fixture(scope="session")
def session() -> Iterator[SparkSession]:
    with open_local_spark() as spark:
        yield spark


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    peer = QuorateUp(tmp_path_factory.mktemp("three"), 3)
    try:
        yield BrokerCluster(peer)
    finally:
        peer.stop()
