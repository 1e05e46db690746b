"""What can be no command is refused where it is made, before it stands in a log that every node has to apply."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quorate.broker.cluster import commands as c
from quorate.broker.cluster.queue_settings import BadSetting, check_settings
from quorate.broker.cluster.state import ClusterState, Refused
from quorate.broker.cluster.values import NodeInfo
from quorate.consensus.core import NodeId

ID = "0123456789abcdef" * 2


def node(number: int) -> NodeInfo:
    return NodeInfo(id=NodeId(number), host="h", kafka_port=1, http_port=2, peer_host="h", peer_port=3)


def with_queue() -> tuple[ClusterState, int]:
    state = ClusterState()
    for number in (1, 2, 3, 4):
        state.judge(c.RegisterNode(token="t", node=node(number)))
    state.judge(c.CreateQueue(token="t", name="q", id=ID, placement=((1, 2, 3),), settings={}))
    return state, state.queues["q"].partitions[0].group


GOOD_CREATE = {"kind": "create-queue", "token": "t", "name": "q", "id": ID, "placement": [[1, 2, 3]], "settings": {}}


@pytest.mark.parametrize(
    "said",
    [
        GOOD_CREATE | {"id": "zz"},
        GOOD_CREATE | {"id": "aa"},
        GOOD_CREATE | {"id": ID.upper()},
        GOOD_CREATE | {"name": None},
        GOOD_CREATE | {"placement": [[0, 1]]},
        GOOD_CREATE | {"placement": [["1"]]},
        GOOD_CREATE | {"placement": [[1 << 40]]},
        GOOD_CREATE | {"placement": [1]},
        GOOD_CREATE | {"placement": None},
        GOOD_CREATE | {"settings": []},
        GOOD_CREATE | {"token": 7},
        {"kind": "set-membership", "token": "t", "node": 1, "membership": "bogus"},
        {"kind": "delete-queue", "token": "t", "name": "q", "id": "zz"},
        {"kind": "take-producer-ids", "token": "t", "count": "x"},
        {"kind": "take-producer-ids", "token": "t", "count": True},
        {"kind": "remove-node", "token": "t", "node": -1},
        {"kind": "end-move", "token": "t", "group": 1, "target": ["x"]},
        {"kind": "begin-move", "token": "t", "group": 1, "nodes": None},
        {"kind": "register-node", "token": "t", "node": node(0).facts()},
        {"kind": "register-node", "token": "t", "node": 3},
        {"kind": "of a later release", "token": "t"},
        [],
        None,
    ],
)
def test_no_command(said: Any) -> None:
    with pytest.raises(c.BadCommand):
        c.decode(json.dumps(said).encode())


def test_a_good_one_passes() -> None:
    command = c.decode(json.dumps(GOOD_CREATE).encode())
    assert c.decode(c.encode(command)) == command


@pytest.mark.parametrize("value", [5, None, "--1", "-", "", "1.5", "٣", "9" * 40])
def test_a_setting_that_is_no_number_is_refused_whatever_it_is(value: Any) -> None:
    with pytest.raises(BadSetting, match=r"retention\.ms"):
        check_settings({"retention.ms": value})
    state, _ = with_queue()
    before = state.save()
    command = c.CreateQueue(token="t", name="other", id=ID[::-1], placement=((1,),), settings={"retention.ms": value})
    with pytest.raises(Refused) as caught:
        state.judge(command)
    assert caught.value.code == "bad-setting"
    assert state.save() == before


def test_the_end_of_one_move_that_comes_late_does_not_end_the_next() -> None:
    state, group = with_queue()

    def target() -> tuple[int, ...] | None:
        return state.queues["q"].partitions[0].target

    state.judge(c.BeginMove(token="t", group=group, nodes=(1, 2, 4)))
    ending = c.EndMove(token="t", group=group, target=target())
    assert c.decode(c.encode(ending)) == ending
    state.judge(ending)
    state.judge(c.BeginMove(token="t", group=group, nodes=(1, 2, 3)))
    before = state.save()
    with pytest.raises(Refused, match="another move"):
        state.judge(ending)
    assert state.save() == before
    state.judge(c.EndMove(token="t", group=group, target=target()))
    assert target() is None
