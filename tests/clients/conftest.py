"""The cluster that the client tests share: Quorate, or with `--broker kafka` Apache Kafka, to prove the tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peers.apache_kafka import ApacheKafka
from bench.peers.api import NotHere, Peer
from bench.peers.quorate_up import QuorateUp
from tests.support.broker_cluster import BrokerCluster

# A dead node is noticed after 9 s as Kafka ships; the tests need not wait that long for it.
_BRISK = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


def make_peer(config: pytest.Config, folder: Path, nodes: int) -> Peer:
    if config.getoption("--broker") == "kafka":
        return ApacheKafka(folder, nodes, settings=_BRISK)
    return QuorateUp(folder, nodes)


def running(request: pytest.FixtureRequest, folder: Path, nodes: int) -> Iterator[BrokerCluster]:
    peer = make_peer(request.config, folder, nodes)
    failed = request.session.testsfailed
    try:
        yield BrokerCluster(peer)
    except NotHere as missing:
        if request.config.getoption("--broker") == "kafka":
            pytest.skip(f"Apache Kafka is not here: {missing}")
        raise
    finally:
        peer.stop()
        if request.session.testsfailed > failed:
            print(peer.log_tail())


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Three nodes, shared by all tests of the session."""
    yield from running(request, tmp_path_factory.mktemp("three"), 3)


@pytest.fixture
def five_nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BrokerCluster]:
    """Five nodes for one test."""
    yield from running(request, tmp_path, 5)


@pytest.fixture(scope="session")
def kill_rounds(request: pytest.FixtureRequest) -> int:
    """How often a test kills nodes under load."""
    rounds = request.config.getoption("--kill-rounds")
    assert isinstance(rounds, int)
    return rounds
