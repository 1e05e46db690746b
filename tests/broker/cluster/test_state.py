"""The replicated metadata: every command, its refusals, and that replayed state equals live state."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from quorate.broker.cluster import commands as c
from quorate.broker.cluster.state import ClusterState, Refused
from quorate.broker.cluster.values import NodeInfo
from quorate.broker.groups.logs import NO_LOG
from quorate.consensus.core import Batch, BatchKind, GroupId, NodeId, Offset, Term, node_of, replica_id
from quorate.consensus.core.types import incarnation_of


def info(node: int, rack: str = "", **changed: Any) -> NodeInfo:
    facts: dict[str, Any] = {
        "id": NodeId(node),
        "host": "h",
        "kafka_port": 9000 + node,
        "http_port": 1,
        "peer_host": "h",
        "peer_port": 2,
        "rack": rack,
    }
    return NodeInfo(**facts | changed)


def cluster(nodes: int = 4) -> ClusterState:
    state = ClusterState()
    for node in range(1, nodes + 1):
        state.judge(c.RegisterNode(token="", node=info(node)))
    return state


def create(
    name: str = "q", placement: c.Placement = ((1, 2, 3), (2, 3, 1)), settings: dict[str, str] | None = None
) -> c.CreateQueue:
    id_ = name.encode().hex().ljust(32, "0")[:32]
    return c.CreateQueue(token="", name=name, id=id_, placement=placement, settings=settings or {})


def test_a_queue_gets_groups_that_are_never_used_again() -> None:
    state = cluster()
    assert state.judge(create()) == 2
    assert [one.group for one in state.queues["q"].partitions] == [1, 2]
    assert state.by_group[GroupId(2)][1] == 1
    state.judge(c.DeleteQueue(token="", name="q"))
    assert not state.by_group
    assert not state.by_id
    state.judge(create())
    assert [one.group for one in state.queues["q"].partitions] == [3, 4]
    assert [state.log_of("q", index) for index in range(3)] == [3, 4, NO_LOG]
    assert state.log_of("other", 0) == NO_LOG
    assert [state.is_gone(log) for log in (NO_LOG, 0, 1, 2, 3, 4, 5)] == [False, False, True, True, False, False, False]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (create(), "queue-exists"),
        (create("a/b"), "bad-name"),
        (create("@mine"), "bad-name"),
        (create(".."), "bad-name"),
        (create("x", ()), "bad-partitions"),
        (create("x", ((1, 1),)), "bad-placement"),
        (create("x", ((9,),)), "changed-meanwhile"),
        (create("x", settings={"retention.ms": "soon"}), "bad-setting"),
        (create("x", settings={"cleanup.policy": "compact"}), "bad-setting"),
        (create("x", settings={"colour": "red"}), "bad-setting"),
        (c.DeleteQueue(token="", name="none"), "unknown-queue"),
        (c.DeleteQueue(token="", name="q", id="00" * 16), "unknown-queue"),
        (c.GrowQueue(token="", name="q", had=1, placement=((1,),)), "changed-meanwhile"),
        (c.SetSettings(token="", name="q", settings={"max.message.bytes": "-1"}), "bad-setting"),
        (c.SetMembership(token="", node=9, membership="draining"), "unknown-node"),
        (c.RemoveNode(token="", node=1), "node-not-empty"),
        (c.BeginMove(token="", group=77, nodes=(1,)), "unknown-queue"),
        (c.BeginMove(token="", group=1, nodes=(3, 2, 1)), "changed-meanwhile"),
        (c.EndMove(token="", group=1), "changed-meanwhile"),
        (c.TakeProducerIds(token="", count=0), "bad-count"),
    ],
)
def test_a_refused_command_changes_nothing(command: c.Command, code: str) -> None:
    state = cluster()
    state.judge(create())
    before = state.save()
    with pytest.raises(Refused) as refused:
        state.judge(command)
    assert refused.value.code == code
    assert state.save() == before


def test_a_removed_nodes_number_is_not_used_again() -> None:
    state = cluster()
    state.judge(c.RemoveNode(token="", node=4))
    with pytest.raises(Refused, match="another number"):
        state.judge(c.RegisterNode(token="", node=info(4)))


def test_a_node_that_joins_gets_an_incarnation_that_was_never_used() -> None:
    state = cluster(3)
    assert {node.incarnation for node in state.nodes.values()} == {1}
    assert state.judge(c.RegisterNode(token="", node=info(4, incarnation=0, storage="a" * 32))) == 2
    assert state.judge(c.RegisterNode(token="", node=info(5, incarnation=0, storage="b" * 32))) == 3
    again = info(4, host="elsewhere", incarnation=0, storage="a" * 32)
    assert state.judge(c.RegisterNode(token="", node=again)) == 2, "it was not told, and asks again"
    assert state.judge(c.RegisterNode(token="", node=info(4, incarnation=2, storage="a" * 32))) == 2
    state.judge(c.RemoveNode(token="", node=5))
    assert state.judge(c.RegisterNode(token="", node=info(6, incarnation=0, storage="c" * 32))) == 4
    assert [node.replica for node in state.nodes.values()] == [
        replica_id(n, i) for n, i in ((1, 1), (2, 1), (3, 1), (4, 2), (6, 4))
    ]


def test_a_node_on_another_storage_is_refused() -> None:
    state = cluster(1)
    state.judge(c.RegisterNode(token="", node=info(1, storage="a" * 32)))
    before = state.save()
    for other in (info(1, storage="b" * 32), info(1, storage=""), info(1, storage="b" * 32, incarnation=0)):
        with pytest.raises(Refused, match="Give it another number") as refused:
            state.judge(c.RegisterNode(token="", node=other))
        assert refused.value.code == "storage-changed"
    with pytest.raises(Refused, match="incarnation 1 of its number"):
        state.judge(c.RegisterNode(token="", node=info(1, storage="a" * 32, incarnation=2)))
    assert state.save() == before


def test_a_snapshot_of_the_first_format_is_read() -> None:
    state = cluster(3)
    state.judge(create())
    said = json.loads(state.save())
    said["format"] = 1
    for node in said["nodes"]:
        del node["storage"], node["incarnation"]
    for queue in said["queues"]:
        queue["partitions"] = [one[:4] for one in queue["partitions"]]
    other = ClusterState()
    other.load(Offset(7), json.dumps(said).encode())
    assert other.save() == state.save()
    with pytest.raises(ValueError, match="format 4"):
        other.load(Offset(7), b'{"format":4}')


def test_new_replicas_do_not_go_to_a_node_that_is_drained_and_old_ones_may_stay() -> None:
    state = cluster()
    state.judge(create())
    state.judge(c.SetMembership(token="", node=3, membership="draining"))
    for command in (
        create("x", ((3,),)),
        c.GrowQueue(token="", name="q", had=2, placement=((1, 2, 3),)),
        c.BeginMove(token="", group=2, nodes=(1, 2, 9)),
    ):
        with pytest.raises(Refused) as refused:
            state.judge(command)
        assert refused.value.code == "changed-meanwhile"
    state.judge(c.BeginMove(token="", group=1, nodes=(4, 2, 3)))
    state.judge(c.EndMove(token="", group=1))
    state.judge(c.BeginMove(token="", group=1, nodes=(4, 2, 1)))
    state.judge(c.EndMove(token="", group=1))
    with pytest.raises(Refused, match="is being drained"):
        state.judge(c.BeginMove(token="", group=1, nodes=(4, 2, 3)))


def test_a_cancelled_move_ends_either_way_and_no_other_is_cancelled_by_it() -> None:
    state = cluster()
    state.judge(create())
    group = GroupId(1)
    state.judge(c.BeginMove(token="", group=group, nodes=(4, 2, 3)))
    target = state.queues["q"].partitions[0].target
    assert target is not None
    with pytest.raises(Refused, match="was not cancelled"):
        state.judge(c.EndMove(token="", group=group, target=target, cancel=True))
    cancel = c.CancelMove(token="", group=group, target=target)
    state.judge(cancel)
    state.judge(cancel)
    assert state.queues["q"].partitions[0].cancelled
    state.judge(c.EndMove(token="", group=group, target=target))
    assert state.queues["q"].partitions[0].nodes == (4, 2, 3), "it was done before its leader heard of the cancelling"
    state.judge(c.BeginMove(token="", group=group, nodes=(1, 2, 3)))
    with pytest.raises(Refused, match="another move"):
        state.judge(cancel)


def test_the_last_node_stays() -> None:
    state = cluster(1)
    with pytest.raises(Refused) as refused:
        state.judge(c.RemoveNode(token="", node=1))
    assert refused.value.code == "last-node"


def test_a_node_that_registers_again_stays_drained() -> None:
    state = cluster()
    state.judge(c.SetMembership(token="", node=4, membership="draining"))
    state.judge(c.RegisterNode(token="", node=info(4, host="elsewhere")))
    assert state.nodes[NodeId(4)].host == "elsewhere"
    assert state.nodes[NodeId(4)].membership.value == "draining"


def test_a_move_gives_new_replicas_new_ids() -> None:
    state = cluster()
    state.judge(create())
    state.judge(c.BeginMove(token="", group=1, nodes=(4, 2, 3)))
    partition = state.queues["q"].partitions[0]
    assert partition.target == (replica_id(4, 2), replica_id(2), replica_id(3))
    assert set(map(node_of, partition.members)) == {1, 2, 3, 4}
    state.judge(c.EndMove(token="", group=1))
    state.judge(c.BeginMove(token="", group=1, nodes=(1, 2, 3)))
    back = state.queues["q"].partitions[0].target
    assert back is not None
    assert incarnation_of(back[0]) == 3, "node 1 comes back under an id that it never had"
    state.judge(c.CancelMove(token="", group=1, target=back))
    state.judge(c.EndMove(token="", group=1, cancel=True))
    assert state.queues["q"].partitions[0].nodes == (4, 2, 3)
    assert not state.queues["q"].partitions[0].cancelled


def test_producer_ids_are_given_out_once() -> None:
    state = cluster()
    assert [state.judge(c.TakeProducerIds(token="", count=10)) for _ in range(3)] == [1, 11, 21]


def test_a_command_survives_its_encoding() -> None:
    commands = [
        create("q", settings={"retention.ms": "5"}),
        c.RegisterNode(token="t", node=info(3, "r")),
        c.BeginMove(token="t", group=1, nodes=(1, 2)),
        c.SetSettings(token="t", name="q", settings={"retention.ms": None}),
    ]
    for command in commands:
        assert c.decode(c.encode(command)) == command
    for nonsense in (b"", b"{}", b"[]", b'{"kind":"dance"}', b'{"kind":"remove-node"}', b"\xff"):
        with pytest.raises(c.BadCommand):
            c.decode(nonsense)


def random_end(draw: random.Random, state: ClusterState) -> c.Command:
    """The end or the cancelling of a move, of one that is under way if there is one."""
    moving = [one for queue in state.queues.values() for one in queue.partitions if one.target is not None]
    target: tuple[int, ...] = (replica_id(1),)
    group = draw.randint(1, 20)
    if moving and draw.random() < 0.9:
        group, target = (one := draw.choice(moving)).group, one.target or ()
    if draw.random() < 0.4:
        return c.CancelMove(token="", group=group, target=target)
    return c.EndMove(token="", group=group, target=draw.choice([None, target]), cancel=draw.random() < 0.5)


def random_node(draw: random.Random) -> NodeInfo:
    storage, incarnation = draw.choice(["", "0" * 32, "1" * 32]), draw.choice([0, 0, 1, 2])
    return info(draw.randint(1, 7), storage=storage, incarnation=incarnation)


def random_command(draw: random.Random, state: ClusterState) -> c.Command:
    nodes = tuple(draw.sample(range(1, 6), draw.randint(1, 3)))
    name = draw.choice("abc")
    return draw.choice(
        [
            c.RegisterNode(token="", node=random_node(draw)),
            c.SetMembership(token="", node=draw.randint(1, 5), membership=draw.choice(["joined", "draining"])),
            c.RemoveNode(token="", node=draw.randint(1, 5)),
            create(name, (nodes,)),
            c.DeleteQueue(token="", name=name),
            c.GrowQueue(token="", name=name, had=draw.randint(1, 3), placement=(nodes,)),
            c.SetSettings(token="", name=name, settings={"retention.ms": draw.choice(["1", None, "x"])}),
            c.BeginMove(token="", group=draw.randint(1, 20), nodes=nodes),
            random_end(draw, state),
            c.TakeProducerIds(token="", count=draw.randint(0, 5)),
        ]
    )


@pytest.mark.parametrize("seed", range(30))
def test_replayed_state_equals_live_state_and_its_invariants_hold(seed: int) -> None:
    draw = random.Random(seed)
    live, other = ClusterState(), ClusterState()
    seen: dict[GroupId, int] = {}
    for offset in range(300):
        data = c.to_batch(random_command(draw, live), offset)
        batch = Batch(Offset(offset), Offset(offset), Term(1), BatchKind.DATA, data)
        live.apply([batch])
        if draw.random() < 0.05:
            restarted = ClusterState()
            restarted.load(other.applied, other.save())
            other = restarted
        other.apply([batch])
        assert other.save() == live.save()
        live.check_invariants()
        for group, used in live.incarnations.items():
            assert used >= seen.get(group, 0), "an incarnation is not used again"
        seen = dict(live.incarnations)
    assert live.version > 20
