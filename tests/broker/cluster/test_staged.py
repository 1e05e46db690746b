"""What `@cluster` decides about staged records: once per application and batch, and never against what was dropped."""

from __future__ import annotations

import json
import random

import pytest

from quorate.broker.cluster import commands as c
from quorate.broker.cluster.staged import BEFORE, BY_OTHERS, DROPPED_MS, NOW
from quorate.broker.cluster.state import ClusterState, Refused
from quorate.consensus.batch.header import stamp_append_time
from quorate.consensus.core import Batch, BatchKind, GroupId, Offset, Term
from tests.broker.cluster.test_state import cluster, create

LATER = 1 << 50
Parts = tuple[tuple[int, tuple[int, ...]], ...]


def commit(
    batch: int, parts: Parts = ((1, (7,)),), *, application: str = "a", digest: str = "", until_ms: int = LATER
) -> c.CommitStages:
    digest = digest or repr(parts)
    return c.CommitStages(token="", application=application, batch=batch, digest=digest, parts=parts, until_ms=until_ms)


def published(batch: int, *groups: int, application: str = "a") -> c.StagesPublished:
    return c.StagesPublished(token="", commits=((application, batch, groups),))


def drop(*producers: int) -> c.DropStages:
    return c.DropStages(token="", producers=producers)


def with_queue() -> ClusterState:
    state = cluster()
    state.judge(create())
    state.judge(c.TakeProducerIds(token="", count=1_000))
    return state


def code_of(state: ClusterState, command: c.Command) -> str:
    before = state.save()
    with pytest.raises(Refused) as refused:
        state.judge(command)
    assert state.save() == before, "a refused command changes nothing"
    return refused.value.code


def applied(state: ClusterState, command: c.Command, stamp: int) -> None:
    """As from the log, with its time."""
    data = c.to_batch(command, 1)
    stamp_append_time(data, stamp)
    state.apply([Batch(Offset(0), Offset(0), Term(1), BatchKind.DATA, data)])


def test_one_attempt_wins_and_knows_it_when_it_asks_again() -> None:
    state = with_queue()
    mine, other = ((1, (7,)), (2, (7, 8))), ((1, (9,)),)
    assert state.judge(commit(3, mine)) == NOW
    assert state.judge(commit(3, mine)) == BEFORE
    assert state.judge(commit(3, other)) == BY_OTHERS
    assert state.judge(commit(2, mine)) == BY_OTHERS, "an older batch: whose it was is not known any more"
    assert state.judge(commit(3, other, application="b")) == NOW
    assert [producers for _, producers in state.staged.of_group(GroupId(1))] == [(7,), (9,)], "in order"
    state.check_invariants()


def test_a_commit_is_over_when_all_its_groups_have_published() -> None:
    state = with_queue()
    state.judge(commit(0, ((1, (7,)), (2, (7,)))))
    assert not state.staged.is_published("a", 0)
    assert state.judge(published(0, 2)) == 0
    assert state.staged.groups() == {1}
    assert state.judge(published(0, 1, 2)) == 1
    assert state.staged.is_published("a", 0)
    assert not state.staged.is_published("a", 1)
    assert state.judge(published(0, 1)) == 0, "said twice"
    assert state.judge(commit(1, ())) == NOW
    assert state.staged.is_published("a", 1), "an empty batch"


def test_what_was_dropped_is_not_committed_and_what_is_committed_is_not_dropped() -> None:
    state = with_queue()
    assert state.judge(drop(7, 8)) == 2
    assert code_of(state, commit(0, ((1, (8,)),))) == "stage-dropped"
    assert state.judge(commit(0, ((1, (9,)),))) == NOW
    assert state.judge(drop(9, 10)) == 1
    assert set(state.staged.dropped) == {7, 8, 10}
    assert code_of(state, commit(1, ((2, (9,)),))) == "stage-committed"
    assert code_of(state, drop(1_001)) == "bad-producer"
    state.check_invariants()


def test_a_commit_that_is_judged_too_late_is_refused() -> None:
    state = with_queue()
    applied(state, commit(0, until_ms=5_000), 5_001)
    assert not state.staged.applications
    applied(state, commit(0, until_ms=5_000), 5_000)
    assert state.staged.applications["a"].batch == 0


def test_log_time_survives_a_snapshot() -> None:
    state, other = with_queue(), ClusterState()
    applied(state, drop(7), 1_000)
    other.load(Offset(0), state.save())
    assert (state.stamp, other.stamp) == (1_000, 1_000)


def test_drops_are_forgotten_after_a_while() -> None:
    state = with_queue()
    applied(state, drop(7), 1_000)
    applied(state, drop(8), 1_000 + DROPPED_MS)
    assert set(state.staged.dropped) == {7, 8}
    applied(state, drop(9), 1_001 + DROPPED_MS)
    assert set(state.staged.dropped) == {8, 9}


def test_a_queue_that_is_deleted_ends_what_was_to_be_published_there() -> None:
    state = with_queue()
    state.judge(create("other", ((1, 2, 3),)))
    state.judge(commit(0, ((1, (7,)), (3, (7,)))))
    state.judge(commit(1, ((2, (8,)),)))
    state.judge(c.DeleteQueue(token="", name="q"))
    assert state.staged.is_published("a", 1)
    assert state.staged.groups() == {3}
    assert code_of(state, commit(2, ((1, (9,)),))) == "unknown-queue"
    assert state.judge(published(0, 3)) == 1
    state.check_invariants()


def test_a_snapshot_of_the_second_format_is_read() -> None:
    state = with_queue()
    said = json.loads(state.save())
    said["format"] = 2
    del said["staged"]
    other = ClusterState()
    other.load(Offset(7), json.dumps(said).encode())
    assert other.save() == state.save()


@pytest.mark.parametrize(
    "said",
    [
        {"kind": "commit-stages", "application": "", "batch": 0, "digest": "", "parts": [], "until_ms": 0},
        {"kind": "commit-stages", "application": "a", "batch": -1, "digest": "", "parts": [], "until_ms": 0},
        {"kind": "commit-stages", "application": "a", "batch": 0, "digest": "", "parts": [[1]], "until_ms": 0},
        {"kind": "commit-stages", "application": "a", "batch": 0, "digest": "", "parts": [[1, ["x"]]], "until_ms": 0},
        {"kind": "commit-stages", "application": "a", "batch": 0, "digest": "", "parts": 5, "until_ms": 0},
        {"kind": "stages-published", "commits": [["a", 0]]},
        {"kind": "stages-published", "commits": [["a", 0, [-1]]]},
        {"kind": "drop-stages", "producers": [None]},
        {"kind": "drop-stages"},
    ],
)
def test_no_command(said: dict[str, object]) -> None:
    with pytest.raises(c.BadCommand):
        c.decode(json.dumps(said | {"token": "t"}).encode())


def random_command(rng: random.Random) -> c.Command:
    what = rng.randrange(10)
    groups, producers = rng.sample(range(1, 6), 2), [rng.randrange(1, 30) for _ in range(2)]
    if what < 5:
        parts = tuple((group, (producer,)) for group, producer in zip(groups, producers, strict=True))
        return commit(rng.randrange(8), parts[: rng.randrange(3)], application=rng.choice("ab"), until_ms=rng.randrange(60))
    if what < 8:
        return published(rng.randrange(8), *groups, application=rng.choice("ab"))
    if what < 9:
        return drop(*producers)
    return c.DeleteQueue(token="", name="q") if rng.random() < 0.3 else create()


@pytest.mark.parametrize("seed", range(20))
def test_replayed_equals_live(seed: int) -> None:
    rng = random.Random(seed)
    live, log = with_queue(), list[tuple[c.Command, int]]()
    start = live.save()
    for time in range(80):
        command = c.decode(c.encode(random_command(rng)))
        log.append((command, time))
        applied(live, command, time)
        live.check_invariants()
    replayed = ClusterState()
    replayed.load(Offset(0), start)
    for number, (command, time) in enumerate(log):
        applied(replayed, command, time)
        if number == seed * 3:
            again = ClusterState()
            again.load(Offset(0), replayed.save())
            replayed = again
    assert replayed.save() == live.save()
