"""Nodes that join a running cluster, come back to it, and are refused, as real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.node_processes import Nodes, Producing, until

pytestmark = pytest.mark.timeout(180)


def test_a_node_joins_takes_its_share_and_another_one_leaves_while_producers_go_on(tmp_path: Path) -> None:
    with Nodes(tmp_path) as nodes:
        nodes.create("orders", 4)
        with Producing(nodes.bootstrap, "orders", 4) as producing:
            producing.await_progress()
            nodes.start(4, join=2)
            nodes.await_ready(4)
            assert nodes.nodes()[4]["replicas"] == 0
            moves = nodes.ask("/v1/rebalance", "POST", {"dry_run": False})["moves"]
            assert {move["to"] for move in moves} == {4}
            until(lambda: nodes.nodes()[4]["replicas"] == len(moves), "node 4 has its share")
            until(lambda: not any(one["moving"] for one in nodes.partitions()), "the moves are over")
            producing.await_progress()

            drained = nodes.cli("drain", "1", "--timeout", "50", node=2)
            assert drained.returncode == 0, drained.stderr
            assert "node 1 is drained" in drained.stdout
            assert "0 replicas left" in drained.stderr, "without a terminal there are lines"
            assert nodes.nodes()[1]["replicas"] == 0
            assert nodes.cli("remove", "1", node=2).returncode == 0
            assert nodes.await_end(1) == 1
            assert "node 1 was removed from the cluster" in nodes.said(1)
            producing.await_progress()
            assert all(1 not in one["replicas"] and len(one["replicas"]) == 3 for one in nodes.partitions())

            assert nodes.stop(4) == 0
            nodes.start(4, join=1)
            nodes.await_ready(4)
            assert (nodes.home(4) / "logs" / "g0-2").is_dir(), "a restart is no new node"
            producing.await_progress()
        producing.check(nodes.bootstrap)


def test_who_may_not_join_is_told_why(tmp_path: Path) -> None:
    with Nodes(tmp_path, founders=1) as nodes:
        nodes.start(2, join=1, cluster="another")
        assert nodes.await_end(2) == 1
        assert "this is cluster 'test', not 'another'" in nodes.said(2)

        nodes.start(3, join=1)
        nodes.await_ready(3)
        nodes.folder = tmp_path / "elsewhere"
        twin = nodes.running.pop(3)
        try:
            nodes.start(3, join=1, peer_of=4)
            assert nodes.await_end(3) == 1
            assert "its number is taken" in nodes.said(3)
        finally:
            twin.kill()
            twin.wait()

        until(lambda: nodes.cli("remove", "3").returncode == 0, "node 3 is removed")
        nodes.start(3, join=1)
        assert nodes.await_end(3) == 1
        assert "node 3 was removed from the cluster" in nodes.said(3)
        assert "ready" not in nodes.said(3).splitlines()


def test_a_joined_node_starts_again_while_those_that_let_it_in_are_down(tmp_path: Path) -> None:
    with Nodes(tmp_path) as nodes:
        nodes.start(4, join=1)
        nodes.await_ready(4)
        nodes.start(5, join=2)
        nodes.await_ready(5)
        until(lambda: {1, 2, 3, 4, 5} == set(nodes.nodes()), "all are known")
        for node in (4, 5):
            assert nodes.stop(node) == 0
        nodes.kill(1)
        for node in (5, 4):
            nodes.start(node, join=1)
        for node in (5, 4):
            nodes.await_ready(node)
