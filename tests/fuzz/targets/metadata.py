"""The cluster's metadata: commands as they stand in the log of `@cluster`, and its snapshots."""

from __future__ import annotations

import json

from quorate.broker.cluster import commands as c
from quorate.broker.cluster.snapshot import BadSnapshot
from quorate.broker.cluster.state import ClusterState, Refused
from quorate.broker.cluster.values import NodeInfo
from quorate.consensus.core import NodeId, Offset, replica_id
from tests.fuzz.targets.changed import changed
from tests.fuzz.targets.expect import Broken, expect

_ID = "0123456789abcdef" * 2


def _node(number: int) -> NodeInfo:
    return NodeInfo(id=NodeId(number), host="h", kafka_port=1, http_port=2, peer_host="p", peer_port=3)


def small_cluster() -> ClusterState:
    """Four nodes, a queue of two partitions, one of which moves, and a commit that is not published."""
    state = ClusterState()
    for number in (1, 2, 3, 4):
        state.judge(c.RegisterNode(token="t", node=_node(number)))
    state.judge(c.CreateQueue(token="t", name="q", id=_ID, placement=((1, 2, 3), (2, 3, 1)), settings={}))
    state.judge(c.BeginMove(token="t", group=1, nodes=(1, 2, 4)))
    state.judge(c.TakeProducerIds(token="t", count=9))
    state.judge(c.CommitStages(token="t", application="b", batch=3, digest="d", parts=((2, (1, 2)),), until_ms=9))
    state.judge(c.DropStages(token="t", producers=(3, 4)))
    return state


_TARGET = (replica_id(1), replica_id(2), replica_id(4, 2))
COMMANDS: tuple[c.Command, ...] = (
    c.RegisterNode(token="t", node=NodeInfo(**_node(5).facts() | {"storage": "ab" * 16, "incarnation": 0})),
    c.SetMembership(token="t", node=4, membership="draining"),
    c.CreateQueue(token="t", name="x", id="ab" * 16, placement=((1, 2),), settings={"retention.ms": "5"}),
    c.GrowQueue(token="t", name="q", had=2, placement=((3, 2),)),
    c.SetSettings(token="t", name="q", settings={"retention.ms": None, "max.message.bytes": "9"}),
    c.BeginMove(token="t", group=2, nodes=(1, 3)),
    c.CancelMove(token="t", group=1, target=_TARGET),
    c.EndMove(token="t", group=1, target=_TARGET),
    c.TakeProducerIds(token="t", count=7),
    c.CommitStages(token="t", application="a", batch=1, digest="d", parts=((1, (5, 6)), (2, (5,))), until_ms=9),
    c.StagesPublished(token="t", commits=(("a", 1, (1, 2)),)),
    c.DropStages(token="t", producers=(7, 8)),
    c.RemoveNode(token="t", node=4),
    c.DeleteQueue(token="t", name="q"),
)
"""One of each kind, in an order in which each means something."""
_EACH = tuple(map(c.encode, COMMANDS))
_MOST = 6


def commands(data: bytes) -> None:
    """Commands, one per line: each is read or refused, judged or refused, and the state stays whole.

    After a zero byte: every seven bytes choose a good command, and change it (`changed`).
    """
    state = small_cluster()
    lines = data.split(b"\n")[:20]
    if data[:1] == b"\0":
        steps = [data[at : at + 7] for at in range(1, len(data), 7)][:_MOST]
        lines = [changed(_EACH[step[0] % len(_EACH)], step[1:]) for step in steps]
    for line in lines:
        try:
            command = c.decode(line)
        except c.BadCommand:
            continue
        expect(c.decode(c.encode(command)) == command, "what was read can be written")
        expect(len(c.from_batch(c.to_batch(command, 1_000))) == 1, "a command can be appended")
        before = state.save()
        try:
            state.judge(command)
        except Refused:
            expect(state.save() == before, "what is refused changes nothing")
        _check(state)


def cluster(data: bytes) -> None:
    """A snapshot of `@cluster`: loaded as a whole, or not at all. After a zero byte: a good one, changed."""
    state = small_cluster()
    before = state.save()
    if data[:1] == b"\0":
        data = changed(before, data[1:])
    try:
        state.load(Offset(9), data)
    except BadSnapshot:
        expect(state.save() == before, "a snapshot that cannot be read changes nothing")
        return
    _check(state)


def _check(state: ClusterState) -> None:
    try:
        state.check_invariants()
    except AssertionError as error:
        raise Broken(f"an invariant: {error}") from error
    saved = state.save()
    again = ClusterState()
    again.load(Offset(9), saved)
    expect(again.save() == saved, "what is saved can be loaded")
    said = json.loads(saved)
    json.dumps(said, ensure_ascii=False).encode()  # every text in it can be told to clients
