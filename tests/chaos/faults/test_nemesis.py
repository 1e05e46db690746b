"""Schedules: the same for the same seed, printable, and never too much at once."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from quorate.chaos.against import RunningCluster
from quorate.chaos.api import NodeUnderTest, PlannedFault
from quorate.chaos.cluster import ClusterUnderTest
from quorate.chaos.faults.api import minority
from quorate.chaos.nemesis import FAULTS, NAMES, NEMESES, BadNemesis, make_nemesis, plan_faults, show

SECONDS = 300.0


class Sketch(ClusterUnderTest):
    """A cluster that is only planned for."""

    def __init__(self, nodes: int) -> None:
        super().__init__(Path("/nonexistent"))
        self._count = nodes

    @property
    def nodes(self) -> dict[int, NodeUnderTest]:
        return {node: NodeUnderTest(kafka="", http="") for node in range(1, self._count + 1)}


def plan(names: list[str], seed: int, nodes: int = 3, seconds: float = SECONDS) -> list[PlannedFault]:
    return list(make_nemesis(names, seed, seconds, Sketch(nodes)).plan())


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_plans_the_same(name: str) -> None:
    first = plan([name], 7)
    assert first == plan([name], 7)
    assert bool(first) == (name != "none")
    if first:
        assert first != plan([name], 8)
        assert {one.kind for one in first} <= {fault.kind for faults in NEMESES.values() for fault in faults}


@pytest.mark.parametrize("name", NAMES)
def test_plans_can_be_printed_and_read_again(name: str) -> None:
    for one in plan([name], 3):
        assert json.loads(json.dumps(dict(one.parameters))) == one.parameters
        assert one.kind in show(one)
        assert 0 < one.at_s < one.until_s <= SECONDS


@pytest.mark.parametrize("nodes", [3, 5])
@pytest.mark.parametrize("names", [["mix"], ["partition", "kill"], ["kill", "pause", "disk-full", "asymmetric"]])
def test_never_more_than_a_minority_at_once(names: list[str], nodes: int) -> None:
    overlaps = 0
    for seed in range(30):
        planned = plan(names, seed, nodes)
        for moment in (one.at_s for one in planned):
            now = [one for one in planned if one.at_s <= moment < one.until_s]
            overlaps += len(now) > 1
            faults = [(FAULTS[one.kind], one.parameters) for one in now]
            hurt = {node for fault, said in faults if fault.fatal_to_majority for node in fault.victims(said)}
            assert len(hurt) <= minority(range(nodes))
            claims = [claim for fault, said in faults for claim in fault.claims(said)]
            assert len(claims) == len(set(claims)), "two faults at the same thing"
    assert overlaps, "faults of several nemeses overlap now and then"


def test_nobody_is_hurt_all_the_time() -> None:
    """Faults of one time share their victims. It used to be one node, for minutes."""
    for seed in range(30):
        for node in range(1, 4):
            begun, ended = -100.0, -100.0
            for one in plan(["partition", "kill"], seed):
                if node in FAULTS[one.kind].victims(one.parameters):
                    begun = one.at_s if one.at_s > ended + 3.0 else begun
                    ended = max(ended, one.until_s)
                    assert ended - begun < 35.0


def test_rot_stays_with_a_minority_for_the_whole_run() -> None:
    for seed in range(20):
        rotten = {node for one in plan(["corrupt"], seed) for node in one.parameters["nodes"]}  # type: ignore[attr-defined]
        assert len(rotten) == 1


def test_a_single_nemesis_has_one_fault_at_a_time() -> None:
    planned = plan(["kill"], 1)
    assert all(before.until_s < after.at_s for before, after in pairwise(planned))


def test_what_there_is_not() -> None:
    with pytest.raises(BadNemesis, match="there is no nemesis 'earthquake'; there are partition"):
        plan(["earthquake"], 1)


def test_a_running_cluster_is_only_approached_badly(tmp_path: Path) -> None:
    running = RunningCluster("127.0.0.1:1", tmp_path)
    running._clients = {1: "127.0.0.1:1"}
    planned = make_nemesis(["slow-net"], 1, SECONDS, running).plan()
    assert planned
    assert {tuple(link) for one in planned for link in one.parameters["links"]} == {(0, 1)}  # type: ignore[attr-defined]
    with pytest.raises(BadNemesis, match="kill needs a cluster that chaos has started itself"):
        make_nemesis(["kill"], 1, SECONDS, running)
    assert not make_nemesis(["none"], 1, SECONDS, running).plan()


def test_no_time_no_faults() -> None:
    assert plan_faults({"kill": NEMESES["kill"]}, 1, 0.5, [1, 2, 3]) == []
