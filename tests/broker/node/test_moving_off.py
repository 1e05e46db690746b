"""Replicas leave nodes that are dead or drained, whatever happens on the way, as real processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.node_processes import Nodes, Producing, until

pytestmark = pytest.mark.timeout(180)


def on_their_way(nodes: Nodes) -> list[dict[str, object]]:
    return [one for one in nodes.partitions() if one["moving"]]


def settled_without(nodes: Nodes, node: int) -> bool:
    return all(node not in one["replicas"] and len(one["replicas"]) == 3 for one in nodes.partitions()) and not (
        on_their_way(nodes)
    )


def test_a_dead_nodes_replicas_are_built_anew_and_it_votes_no_more(tmp_path: Path) -> None:
    with Nodes(tmp_path, founders=3, dead_after_s=2) as nodes:
        nodes.start(4, join=1)
        nodes.await_ready(4)
        nodes.create("orders", 4)
        with Producing(nodes.bootstrap, "orders", 4) as producing:
            producing.await_progress()
            nodes.kill(2)
            until(lambda: settled_without(nodes, 2), "everything of node 2 is elsewhere")
            producing.await_progress()
            assert nodes.nodes()[2]["state"] == "dead"
            # `@cluster` has replaced it too: with another one gone, two of three voters are left.
            until(lambda: nodes.ask("/v1/cluster")["voters"] == [1, 3, 4], "`@cluster` has other voters")
            assert nodes.cli("remove", "2", node=4).returncode == 0
            nodes.kill(1)
            until(lambda: nodes.manager() in (3, 4), "the others can still decide")
            until(lambda: nodes.nodes()[1]["state"] != "alive", "nothing new is placed on node 1")
            nodes.create("later", 1, 2)
            nodes.start(1)
            nodes.await_ready(1)
            producing.await_progress()
        producing.check(nodes.bootstrap)


def test_a_move_whose_target_dies_is_cancelled_and_planned_anew(tmp_path: Path) -> None:
    # Node 4 must count as alive until the manager has chosen it, however busy this machine is.
    with Nodes(tmp_path, founders=3, suspect_after_ms=6_000, dead_after_s=7, moves_at_once=2) as nodes:
        nodes.create("orders", 4)
        with Producing(nodes.bootstrap, "orders", 4) as producing:
            producing.await_progress()
            nodes.start(4, join=1)
            nodes.await_ready(4)
            # It is alive as far as anybody knows, and takes nothing in: so no move to it can end.
            os.kill(nodes.running[4].pid, signal.SIGSTOP)
            nodes.ask("/v1/nodes/1/drain", "POST", node=2)
            until(lambda: len(on_their_way(nodes)) == 2, "two moves to node 4 have begun")
            nodes.start(5, join=2)
            nodes.await_ready(5)
            until(lambda: settled_without(nodes, 1), "node 1 holds nothing")
            for one in nodes.partitions():
                assert 4 not in one["replicas"]
            assert any("called off" in nodes.said(node) for node in (1, 2, 3)), "a move to node 4 was cancelled"
            os.kill(nodes.running[4].pid, signal.SIGCONT)
            logs = nodes.home(4) / "logs"
            until(lambda: {one.name for one in logs.glob("g[0-9]*")} == {"g0-2"}, "node 4 has thrown away what it began")
        producing.check(nodes.bootstrap)


def test_a_drain_goes_on_when_the_manager_is_killed(tmp_path: Path) -> None:
    with Nodes(tmp_path, founders=4, moves_at_once=1) as nodes:
        nodes.create("orders", 6)
        with Producing(nodes.bootstrap, "orders", 6) as producing:
            producing.await_progress()
            manager = nodes.manager()
            leaving = next(node for node in (1, 2, 3, 4) if node != manager)
            held = nodes.nodes()[leaving]["replicas"]
            other = next(node for node in (1, 2, 3, 4) if node not in (manager, leaving))
            nodes.ask(f"/v1/nodes/{leaving}/drain", "POST", node=other)
            until(lambda: 0 < nodes.ask_about(leaving, other)["replicas"] < held, "the drain is half done")
            nodes.kill(manager)
            nodes.start(manager)
            nodes.await_ready(manager)
            until(lambda: settled_without(nodes, leaving), "the drain is done")
            assert nodes.manager() != 0
        producing.check(nodes.bootstrap)
