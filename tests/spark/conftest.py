"""One Spark and one cluster for all tests of the session. Tests that use them belong to the xdist group `spark`."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.peers.quorate_up import QuorateUp
from tests.spark.stand import Stand
from tests.support.broker_cluster import BrokerCluster
from tests.support.spark_home import spark_home

ROOT = Path(__file__).resolve().parents[2]

_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    # A worker process that starts on a busy machine may need longer than 15 s to say who it is.
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.stopTimeout": "30s",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local Spark with two threads. It finds the format `quorate` by itself, by the package `pyspark_quorate`."""
    folder = tmp_path_factory.mktemp("spark")
    # What is started from here imports the package from this tree, and runs this Python.
    patch = pytest.MonkeyPatch()
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    patch.setenv("PYTHONPATH", os.pathsep.join(paths))
    patch.setenv("PYSPARK_PYTHON", sys.executable)
    patch.setenv("SPARK_HOME", spark_home(folder))
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for name, value in _CONF.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.local.dir", str(folder)).config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    gateway = session.sparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(60)
    patch.undo()


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Three nodes."""
    peer = QuorateUp(tmp_path_factory.mktemp("nodes"), 3)
    failed = request.session.testsfailed
    try:
        yield BrokerCluster(peer)
    finally:
        peer.stop()
        if request.session.testsfailed > failed:
            print(peer.log_tail())


@pytest.fixture
def stand(spark: SparkSession, cluster: BrokerCluster, tmp_path: Path) -> Iterator[Stand]:
    """Spark beside the cluster, for one test."""
    with warnings.catch_warnings():
        # pyspark leaves sockets of its gateway to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        yield from Stand.open(spark, cluster, tmp_path)
