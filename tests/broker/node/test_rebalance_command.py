"""`quorate rebalance` against real processes: a new node gets its share, a few replicas at a time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.node_processes import Nodes, Producing

pytestmark = pytest.mark.timeout(180)


def test_a_new_node_gets_its_share_one_replica_at_a_time(tmp_path: Path) -> None:
    with Nodes(tmp_path, moves_at_once=1) as nodes:
        nodes.create("orders", 6)
        with Producing(nodes.bootstrap, "orders", 6) as producing:
            producing.await_progress()
            nodes.start(4, join=1)
            nodes.await_ready(4)
            planned = nodes.cli("rebalance", "--dry-run")
            assert planned.returncode == 0
            assert nodes.nodes()[4]["replicas"] == 0
            ended = nodes.cli("rebalance")
            assert ended.returncode == 0, ended.stderr
            assert "the cluster is balanced" in ended.stdout
            assert {int(count) for count in re.findall(r"(\d+) are under way", ended.stderr)} <= {0, 1}
            held = [one["replicas"] for one in nodes.nodes().values()]
            assert sum(held) == (6 + 2) * 3
            assert max(held) - min(held) <= 1
            assert "nothing to move" in nodes.cli("rebalance").stdout
            producing.await_progress()
        producing.check(nodes.bootstrap)
