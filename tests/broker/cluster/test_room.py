"""How many moves the manager has under way at a time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from quorate.broker.cluster import commands as c
from quorate.broker.cluster.directory import Directory
from quorate.broker.cluster.manager import Manager, ManagerSettings
from quorate.consensus.core import GroupId, Millis, NodeId, Term
from tests.broker.cluster.test_state import cluster, create

ME, MOVING = NodeId(1), GroupId(1)


class Time:
    """Set by the test."""

    ms = 0

    def __call__(self) -> Millis:
        return Millis(self.ms)


def test_a_group_that_changes_its_leader_still_moves_and_one_that_lost_its_majority_keeps_no_other() -> None:
    state, now = cluster(4), Time()
    state.judge(create())
    state.judge(c.BeginMove(token="", group=MOVING, nodes=(2, 3, 4)))
    directory = Directory(ME, now(), suspect_ms=1_000_000, dead_ms=2_000_000)
    metadata = cast(Any, SimpleNamespace(state=state))
    manager = Manager(metadata, cast(Any, None), directory, lambda: True, now, ManagerSettings(moves_at_once=1))
    directory.learn(MOVING, ME, Term(1))
    assert manager.room() == 0
    directory.resign(MOVING)
    for now.ms in range(1_000, 11_000, 250):
        assert manager.room() == 0, "the group's next leader is being elected"
    now.ms = 11_000
    assert manager.room() == 1, "nobody leads it any more"
    directory.learn(MOVING, ME, Term(2))
    assert manager.room() == 0
    directory.resign(MOVING)
    assert manager.room() == 0, "the time counts anew"
