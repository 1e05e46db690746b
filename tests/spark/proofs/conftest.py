"""The cluster that the proofs share, and how many seeds they run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.peers.quorate_up import QuorateUp
from tests.support.broker_cluster import BrokerCluster


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Three nodes, of which proofs kill one at a time and bring it back."""
    peer = QuorateUp(tmp_path_factory.mktemp("proofs"), 3)
    failed = request.session.testsfailed
    try:
        yield BrokerCluster(peer)
    finally:
        peer.stop()
        if request.session.testsfailed > failed:
            print(peer.log_tail())
