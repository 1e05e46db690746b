"""A node that starts: whoever can make it a leader finds its door open, and nobody is told what it does not know yet."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from quorate.broker.node.settings import Endpoint
from tests.support.node_processes import PATIENCE_S, Nodes


def _connect(to: Endpoint) -> bool:
    try:
        socket.create_connection((to.host, to.port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.timeout(180)
def test_clients_are_taken_before_other_nodes_are(tmp_path: Path) -> None:
    """A leader whose port is closed is worse than none: clients that are refused wait longer each time."""
    with Nodes(tmp_path) as nodes:
        listen = nodes.settings(3).listen
        for _ in range(3):
            nodes.kill(3)
            nodes.start(3)
            deadline = time.monotonic() + PATIENCE_S
            while not _connect(listen.peer):
                assert time.monotonic() < deadline, "it does not listen to other nodes"
                time.sleep(0.001)
            assert _connect(listen.kafka)
            nodes.await_ready(3)
