"""Where replicas go, which ones move, and who should lead."""

from __future__ import annotations

from collections import Counter

import pytest

from quorate.broker.cluster import commands as c
from quorate.broker.cluster.directory import Directory, Health, Status
from quorate.broker.cluster.manager import leaving, transfers
from quorate.broker.cluster.placement import NoPlace, evening_moves, load_of, moves_off, place
from quorate.broker.cluster.state import ClusterState
from quorate.consensus.core import GroupId, Millis, NodeId, Term
from tests.broker.cluster.test_state import create, info

N = NodeId


def cluster(racks: dict[int, str]) -> ClusterState:
    state = ClusterState()
    for node, rack in racks.items():
        state.judge(c.RegisterNode(token="", node=info(node, rack)))
    return state


def placed(state: ClusterState, partitions: int, replication: int) -> c.Placement:
    return place(partitions, replication, state.nodes, list(state.nodes), load_of(state))


def test_replicas_and_leaders_are_even() -> None:
    placement = placed(cluster(dict.fromkeys(range(1, 6), "")), 20, 3)
    assert set(Counter(node for nodes in placement for node in nodes).values()) == {12}
    assert set(Counter(nodes[0] for nodes in placement).values()) == {4}


def test_racks_come_before_load() -> None:
    placement = placed(cluster({1: "a", 2: "a", 3: "a", 4: "b", 5: "c"}), 10, 3)
    for nodes in placement:
        assert len({"a" if node < 4 else node for node in nodes}) == 3


def test_drained_nodes_get_nothing_and_too_few_nodes_are_said() -> None:
    state = cluster(dict.fromkeys(range(1, 4), ""))
    state.judge(c.SetMembership(token="", node=3, membership="draining"))
    assert {node for nodes in placed(state, 5, 2) for node in nodes} == {1, 2}
    with pytest.raises(NoPlace, match="3 replicas need as many nodes, and 2"):
        placed(state, 1, 3)


def settle(state: ClusterState, reasons: dict[NodeId, str], usable: list[NodeId]) -> int:
    """Carry moves out until there are none; how many there were."""
    count = 0
    while moves := moves_off(state, reasons, usable, 4):
        assert len(moves) <= 4
        for move in moves:
            state.judge(c.BeginMove(token="", group=move.group, nodes=move.nodes))
        assert not {move.group for move in moves_off(state, reasons, usable, 4)} & {move.group for move in moves}
        for move in moves:
            state.judge(c.EndMove(token="", group=move.group))
        count += len(moves)
    return count


def test_a_leaving_node_loses_everything_and_no_partition_is_twice_on_one() -> None:
    state = cluster({1: "a", 2: "b", 3: "c", 4: "c", 5: ""})
    state.judge(create("q", placed(state, 12, 3)))
    held = load_of(state).replicas[N(3)]
    assert settle(state, {N(3): "because"}, [N(1), N(2), N(4), N(5)]) == held > 0
    for partition in state.queues["q"].partitions:
        assert len(set(partition.nodes)) == 3
        assert 3 not in partition.nodes


def test_without_a_place_nothing_moves() -> None:
    state = cluster(dict.fromkeys(range(1, 4), ""))
    state.judge(create("q", ((1, 2, 3),)))
    assert moves_off(state, {N(3): "gone"}, [N(1), N(2)], 4) == []


def test_evening_out_stops_when_it_is_even() -> None:
    state = cluster(dict.fromkeys(range(1, 4), ""))
    state.judge(create("q", placed(state, 9, 3)))
    state.judge(c.RegisterNode(token="", node=info(4)))
    moves = evening_moves(state, list(state.nodes))
    assert {move.to for move in moves} == {4}
    for move in moves:
        state.judge(c.BeginMove(token="", group=move.group, nodes=move.nodes))
        state.judge(c.EndMove(token="", group=move.group))
    loads = load_of(state).replicas
    assert max(loads.values()) - min(loads.values()) <= 1
    assert evening_moves(state, list(state.nodes)) == []


def test_partitions_that_are_twice_in_a_rack_are_spread() -> None:
    state = cluster({1: "a", 2: "a", 3: "b", 4: "", 5: "c"})
    state.judge(create("q", ((1, 2, 3), (2, 1, 4), (1, 3, 4))))
    moves = evening_moves(state, [N(1), N(2), N(3), N(4), N(5)])
    assert all("rack a" in move.reason for move in moves[:2])
    for move in moves:
        state.judge(c.BeginMove(token="", group=move.group, nodes=move.nodes))
        state.judge(c.EndMove(token="", group=move.group))
    for partition in state.queues["q"].partitions:
        assert len(set(partition.nodes) & {1, 2}) <= 1
    assert evening_moves(state, [N(1), N(2), N(3), N(4), N(5)]) == []
    assert evening_moves(cluster({1: "a", 2: "a"}), [N(1), N(2)]) == []


def test_with_fewer_racks_than_replicas_nothing_moves() -> None:
    state = cluster({1: "a", 2: "a", 3: "b"})
    state.judge(create("q", ((1, 2, 3),)))
    assert evening_moves(state, [N(1), N(2), N(3)]) == []


def test_leaders_go_to_the_first_replica_that_is_alive_and_stays() -> None:
    state = cluster(dict.fromkeys(range(1, 4), ""))
    state.judge(create("q", ((1, 2, 3), (2, 3, 1))))
    leaders = {GroupId(1): N(2), GroupId(2): N(2)}
    assert [(group, to >> 32) for group, to in transfers(state, leaders, [N(1), N(2), N(3)], 9)] == [(1, 1)]
    assert transfers(state, leaders, [N(2), N(3)], 9) == [], "the preferred one is not alive"
    state.judge(c.SetMembership(token="", node=2, membership="draining"))
    assert [to >> 32 for _, to in transfers(state, leaders, [N(1), N(2), N(3)], 9)] == [1, 3]


def test_silence_makes_suspects_and_then_the_dead() -> None:
    directory = Directory(N(1), Millis(0), suspect_ms=100, dead_ms=1000)
    state = cluster({1: "", 2: ""})
    directory.hear(N(2), Status(1, 0, 0, ((GroupId(5), Term(2)),)), Millis(50))
    assert directory.leader_of(GroupId(5), Millis(100)) == (2, 2)
    assert directory.health(N(2), Millis(150)) is Health.SUSPECT
    assert directory.leader_of(GroupId(5), Millis(150)) is None
    assert leaving(state, directory, Millis(1049)) == {}
    assert "silent for 1 s" in leaving(state, directory, Millis(1050))[N(2)]
    assert directory.health(N(1), Millis(10**6)) is Health.ALIVE, "this node is not silent to itself"


def test_an_older_term_does_not_replace_a_leader() -> None:
    directory = Directory(N(1), Millis(0), 100, 1000)
    directory.learn(GroupId(1), N(2), Term(5))
    directory.learn(GroupId(1), N(3), Term(4))
    assert directory.leaders[GroupId(1)] == (2, 5)


def test_a_status_survives_its_encoding_and_nonsense_is_refused() -> None:
    status = Status(3, 7, 1 << 40, ((GroupId(1), Term(2)), (GroupId(900), Term(1 << 40))))
    assert Status.decode(status.encode()) == status
    for nonsense in (b"", b"x", status.encode()[:-1], status.encode() + b"x", b"\x09" + status.encode()[1:]):
        with pytest.raises(ValueError, match="a status"):
            Status.decode(nonsense)
