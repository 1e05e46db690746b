"""A snapshot of `@cluster` is loaded as a whole, or refused and then nothing has changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from quorate.broker.cluster import commands as c
from quorate.broker.cluster.snapshot import BadSnapshot
from quorate.broker.cluster.state import ClusterState
from quorate.consensus.core import Offset
from tests.broker.cluster.test_state import cluster, create


def whole() -> ClusterState:
    state = cluster()
    state.judge(create())
    state.judge(c.BeginMove(token="", group=1, nodes=(1, 2, 4)))
    return state


def test_an_earlier_format_is_read_with_its_defaults() -> None:
    said = json.loads(whole().save()) | {"format": 1}
    for node in said["nodes"]:
        del node["storage"], node["incarnation"]
    for queue in said["queues"]:
        queue["partitions"] = [one[:4] for one in queue["partitions"]]
    state = ClusterState()
    state.load(Offset(3), json.dumps(said).encode())
    state.check_invariants()
    assert all(node.incarnation == 1 for node in state.nodes.values())


CHANGES: list[Callable[[dict[str, Any]], Any]] = [
    lambda said: said.update(format=4),
    lambda said: said.pop("format"),
    lambda said: said.update(nodes=3),
    lambda said: said["nodes"].append(said["nodes"][0]),
    lambda said: said["nodes"][0].update(kafka_port=70_000),
    lambda said: said["nodes"][0].update(incarnation=9),
    lambda said: said.update(gone=[1]),
    lambda said: said.update(gone=["1"]),
    lambda said: said.update(next_group=1),
    lambda said: said.update(next_producer=-1),
    lambda said: said.update(incarnations=[]),
    lambda said: said.update(version=None),
    lambda said: said["queues"].append(said["queues"][0]),
    lambda said: said["queues"][0].update(id="ab"),
    lambda said: said["queues"][0].update(name="a/b"),
    lambda said: said["queues"][0].update(name=5),
    lambda said: said["queues"][0].update(partitions=[]),
    lambda said: said["queues"][0].update(settings={"retention.ms": 5}),
    lambda said: said["queues"][0]["partitions"][0].__setitem__(0, 2),
    lambda said: said["queues"][0]["partitions"][0].__setitem__(1, []),
    lambda said: said["queues"][0]["partitions"][0].__setitem__(1, [9 << 32 | 1]),
    lambda said: said["queues"][0]["partitions"][0].__setitem__(1, [1 << 32 | 1, 1 << 32 | 2]),
    lambda said: said["queues"][0]["partitions"][1].__setitem__(4, True),
    lambda said: said.update(staged=[]),
    lambda said: said["staged"].update(applications=[["a", 1, 5, 0]]),
    lambda said: said["staged"].update(pending=[["a", 1, [[1, [5]]]]]),
    lambda said: said["staged"].update(applications=[["a", 1, "d", 0]], pending=[["a", 1, [[9, [5]]]]]),
    lambda said: said["staged"].update(applications=[["a", 1, "d", 0]], pending=[["a", 1, []]]),
    lambda said: said["staged"].update(applications=[["a", 1, "d", 0]], pending=[["a", 1, [[1, [5]]]]], dropped=[[5, 0]]),
    lambda said: said["staged"].update(dropped=[[5, 9], [6, 8]]),
    lambda said: said["staged"].update(dropped=[["5", 9]]),
]


@pytest.mark.parametrize("change", CHANGES)
def test_what_does_not_fit_together_is_refused(change: Callable[[dict[str, Any]], Any]) -> None:
    state = whole()
    before = state.save()
    said = json.loads(before)
    change(said)
    with pytest.raises(BadSnapshot):
        state.load(Offset(7), json.dumps(said).encode())
    assert state.save() == before


@pytest.mark.parametrize("bad", [b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_what_is_no_snapshot_is_refused(bad: bytes) -> None:
    with pytest.raises(BadSnapshot):
        ClusterState().load(Offset(7), bad)
