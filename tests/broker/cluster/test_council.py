"""Who votes in `@cluster`: steps that end, that never lose more than one voter, and that never bring an id back."""

from __future__ import annotations

import random

import pytest

from quorate.broker.cluster import commands as c
from quorate.broker.cluster.council import MAX_VOTERS, next_members
from quorate.broker.cluster.state import ClusterState
from quorate.consensus.core import Configuration, NodeId, node_of, replica_id
from tests.broker.cluster.test_state import cluster, info

N = NodeId


def founders(count: int) -> Configuration:
    return Configuration(voters=frozenset(replica_id(node) for node in range(1, count + 1)))


def join(state: ClusterState, node: int) -> None:
    state.judge(c.RegisterNode(token="", node=info(node, incarnation=0)))


def settle(now: Configuration, state: ClusterState, dead: set[int] | None = None) -> Configuration:
    """Carry steps out until there is none."""
    gone = {N(node) for node in dead or ()}
    alive = [node for node in state.nodes if node not in gone]
    for _ in range(20):
        members = next_members(now, state, alive, gone)
        if members is None:
            return now
        changed = now.change(members.voters, members.learners)
        assert len(now.voters - members.voters) <= max(1, len([one for one in now.voters if node_of(one) in state.gone]))
        assert next_members(changed, state, alive, gone) is None or not changed.joint, "one change at a time"
        now = changed.leave() if changed.joint else changed
    raise AssertionError("it does not come to an end")


def voters(configuration: Configuration) -> set[int]:
    return {node_of(one) for one in configuration.voters}


def test_a_node_that_joins_learns_and_five_vote_at_most() -> None:
    state, now = cluster(3), founders(3)
    assert settle(now, state) == now
    for node in (4, 5, 6, 7):
        join(state, node)
        now = settle(now, state)
        assert len(now.members) == node
        assert len(now.voters) == (3 if node == 4 else MAX_VOTERS)
    assert replica_id(4, 2) in now.members


def test_a_draining_voter_is_replaced_and_a_removed_one_leaves() -> None:
    state, now = cluster(3), founders(3)
    join(state, 4)
    state.judge(c.SetMembership(token="", node=1, membership="draining"))
    now = settle(now, state)
    assert voters(now) == {2, 3, 4}
    assert now.learners == {replica_id(1)}, "it still has to apply the metadata"
    state.judge(c.RemoveNode(token="", node=1))
    assert settle(now, state).members == {replica_id(2), replica_id(3), replica_id(4, 2)}


def test_a_dead_voter_is_replaced_first_and_stays_where_nobody_can_take_its_place() -> None:
    state, now = cluster(3), founders(3)
    assert settle(now, state, {2}) == now
    join(state, 4)
    now = settle(now, state)
    state.judge(c.SetMembership(token="", node=1, membership="draining"))
    assert voters(settle(now, state, {2})) == {1, 3, 4}
    assert voters(settle(now, state, {4})) == {1, 2, 3}, "a dead learner takes nobody's place"


def test_a_removed_voter_leaves_even_if_nobody_takes_its_place() -> None:
    state = cluster(2)
    state.judge(c.RemoveNode(token="", node=1))
    assert voters(settle(founders(2), state)) == {2}


def test_a_member_that_the_metadata_does_not_know_yet_stays() -> None:
    now = Configuration(voters=founders(3).voters, learners=frozenset({replica_id(4, 2)}))
    assert settle(now, cluster(3)) == now


@pytest.mark.parametrize("seed", range(50))
def test_whatever_happens_it_settles_and_an_id_is_never_used_twice(seed: int) -> None:
    draw = random.Random(seed)
    state, now = cluster(3), founders(3)
    left: set[int] = set()
    for node in range(4, 16):
        before = now.members
        what = draw.random()
        if what < 0.5:
            join(state, node)
        elif what < 0.75:
            state.judge(c.SetMembership(token="", node=draw.choice(list(state.nodes)), membership="draining"))
        elif len(state.nodes) > 1:
            state.judge(c.RemoveNode(token="", node=draw.choice(list(state.nodes))))
        dead: set[int] = set(draw.sample(sorted(state.nodes), draw.randint(0, len(state.nodes) // 2)))
        now = settle(now, state, dead)
        left |= before - now.members
        assert not left & now.members
        assert {node_of(one) for one in now.members} == set(state.nodes)
        assert now.voters
