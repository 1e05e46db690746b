"""The Java client, driven by Kafka's own performance tools from Maven Central. Skipped where they cannot be had."""

from __future__ import annotations

import subprocess

import pytest

from bench.peers import maven
from bench.peers.api import NotHere
from tests.support.broker_cluster import BrokerCluster

pytestmark = pytest.mark.xdist_group("clients")

COUNT = 100_000


@pytest.fixture(scope="module")
def classpath() -> str:
    try:
        return maven.classpath()
    except NotHere as missing:
        pytest.skip(f"the Java client is not here: {missing}")


def _tool(classpath: str, name: str, *arguments: str) -> str:
    command = [maven.java(), "-Xmx256m", "-cp", classpath, f"org.apache.kafka.tools.{name}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_performance_tools(cluster: BrokerCluster, classpath: str) -> None:
    topic = cluster.topic(3)
    properties = ("--producer-props", f"bootstrap.servers={cluster.bootstrap}", "acks=all", "enable.idempotence=true")
    load = ("--topic", topic, "--num-records", str(COUNT), "--record-size", "100", "--throughput", "-1")
    said = _tool(classpath, "ProducerPerformance", *load, *properties)
    assert f"{COUNT} records sent" in said

    read = ("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--messages", str(COUNT), "--timeout", "60000")
    said = _tool(classpath, "ConsumerPerformance", *read, "--group", f"group-of-{topic}")
    header, figures = (line.split(", ") for line in said.splitlines()[:2])
    assert int(figures[header.index("data.consumed.in.nMsg")]) >= COUNT
