"""Section 7: compaction, snapshots for followers that are too far behind, and what a crash leaves of them."""

from __future__ import annotations

import pytest

from quorate.consensus.core import BadRequest, Configuration, LogStart, Millis, Offset, RaftSettings, Role, Term, replica_id
from quorate.consensus.core.messages import Append, AppendAnswer, InstallSnapshot, VoteRequest
from quorate.consensus.core.progress import Pace
from tests.consensus.core.lab import (
    Lab,
    Member,
    accepted,
    append,
    config,
    data,
    heard,
    ids,
    install,
    log_of,
    only,
    rejected,
)

RETRY = RaftSettings().snapshot_retry_ms


def compacted_leader() -> Member:
    """Leader of term 2 whose log starts after offset 2; its followers are unknown to it."""
    member = Member(log=log_of(1, 1, 1, 1), term=1, commit=3)
    member.lead(3)
    member.disk.save_state(Offset(2), b"state at 2")
    member.raft.compact(Offset(2))
    member.run()
    return member


def wants_snapshot() -> Member:
    """The same leader, when follower 2 has said that its log is empty."""
    member = compacted_leader()
    member.raft.step(rejected(3, -1, 0, term=2))
    assert member.turn().snapshots == []
    member.raft.step(rejected(2, -1, 0, term=2))
    assert member.turn().snapshots == [replica_id(2)]
    return member


def test_7_compaction_keeps_the_term_of_the_start_and_the_log_above() -> None:
    member = compacted_leader()
    log = member.raft.log
    assert (log.start, log.last, log.terms.term_at(Offset(2)), log.terms.term_at(Offset(1))) == (2, 4, 1, None)
    assert member.disk.durable.start == LogStart(Offset(2), Term(1), Configuration(voters=ids(1, 2, 3)))
    member.crash()
    assert (member.raft.log.start, member.raft.log.last, member.raft.log.commit) == (2, 4, 3)


def test_7_compaction_needs_no_fsync() -> None:
    member = compacted_leader()
    writes = [effects.persist for effects in member.effects if effects.persist and effects.persist.start]
    assert [write.sync for write in writes] == [False]


def test_7_only_what_was_applied_is_compacted() -> None:
    member = Member(log=log_of(1, 1), term=1, commit=0)
    member.run()
    with pytest.raises(BadRequest, match="only 0 was applied"):
        member.raft.compact(Offset(1))
    member.raft.compact(Offset(0))
    member.raft.compact(Offset(0))
    member.raft.compact(Offset(-1))
    assert member.raft.log.start == 0


def test_7_the_configuration_in_force_at_the_start_is_kept() -> None:
    members = Configuration(voters=ids(1, 2))
    member = Member(log=[*log_of(1), config(1, 1, members), data(2, 1)], term=1, commit=2)
    member.run()
    member.disk.save_state(Offset(1), b"")
    member.raft.compact(Offset(1))
    member.run()
    member.crash()
    assert member.raft.configuration == members
    assert member.disk.durable.start.configuration == members


def test_7_a_follower_that_needs_what_was_compacted_gets_a_snapshot() -> None:
    member = wants_snapshot()
    member.raft.send_snapshot(replica_id(2), b"the state")
    (message,) = only(InstallSnapshot, member.turn().send)
    assert message.snapshot == (LogStart(Offset(2), Term(1), Configuration(voters=ids(1, 2, 3))), b"the state")
    member.raft.propose(b"x")
    member.said()
    member.run()
    assert [m for m in member.said() if m.to == replica_id(2)] == [], "nothing else until it has the snapshot"
    said = only(Append, member.hear(accepted(2, term=2)))
    assert [(m.previous, [b.base for b in m.batches]) for m in said] == [(2, [3]), (3, [4, 5])]
    assert member.raft.progress[replica_id(2)].pace is Pace.REPLICATE


def test_7_an_unanswered_snapshot_is_asked_for_again_after_a_while() -> None:
    member = wants_snapshot()
    member.raft.send_snapshot(replica_id(2), b"lost")
    member.run()
    member.raft.step(heard(0, term=2))
    assert member.turn().snapshots == [], "too early"
    member.clock.now = Millis(RETRY)
    member.raft.step(heard(0, term=2))
    assert member.turn().snapshots == [replica_id(2)]


def test_7_a_snapshot_that_the_driver_cannot_make_is_asked_for_again() -> None:
    member = wants_snapshot()
    member.clock.now = Millis(RETRY)
    member.raft.step(heard(0, term=2))
    assert member.turn().snapshots == [replica_id(2)]


def test_7_a_follower_starts_over_from_a_snapshot() -> None:
    members = Configuration(voters=ids(1, 2, 5))
    member = Member(log=log_of(1, 1), term=1)
    (answer,) = only(AppendAnswer, member.hear(install(9, 3, term=4, configuration=members, state=b"state at 9")))
    assert (answer.match, answer.rejected, answer.term) == (9, False, 4)
    log = member.raft.log
    assert (log.start, log.last, log.commit, log.applied) == (9, 9, 9, 9)
    assert member.raft.configuration == members
    assert (member.disk.durable.state, member.disk.durable.batches) == (b"state at 9", [])
    assert member.applied == [], "the state machine loads the snapshot; nothing is applied twice"
    member.hear(append(9, 3, data(10, 4), term=4, commit=10))
    assert member.applied == [(10, 10)]


def test_7_a_snapshot_of_what_is_already_committed_is_only_acknowledged() -> None:
    member = Member(log=log_of(1, 1, 1), term=1, commit=2)
    (answer,) = only(AppendAnswer, member.hear(install(1, 1)))
    assert answer.match == 2
    assert (member.raft.log.start, member.raft.log.last) == (-1, 2)


def test_7_a_snapshot_that_matches_the_log_keeps_the_log_and_commits() -> None:
    """Figure 13, step 6: the snapshot describes a prefix, so what follows it is retained."""
    member = Member(log=log_of(1, 1, 1), term=1)
    (answer,) = only(AppendAnswer, member.hear(install(1, 1)))
    assert (answer.match, member.raft.log.commit, member.raft.log.last, member.raft.log.start) == (1, 1, 2, -1)
    assert member.effects[-1].persist is None or member.effects[-1].persist.snapshot is None


def test_7_a_snapshot_and_the_append_behind_it_are_one_write() -> None:
    member = Member(log=log_of(1), term=1)
    member.hear(install(9, 1), append(9, 1, data(10, 1)))
    assert member.disk.durable.start.offset == 9
    assert [batch.base for batch in member.disk.durable.batches] == [10]


def test_7_nobody_campaigns_on_a_snapshot_that_is_not_durable() -> None:
    member = Member(log=log_of(1), term=1, auto=False)
    member.hear(install(9, 1))
    assert member.campaign() == []
    assert member.tick(100_000) == []
    member.synced()
    requests = only(VoteRequest, member.campaign())
    assert {(m.last, m.last_term) for m in requests} == {(9, 1)}


def test_7_a_crash_before_the_snapshot_is_durable_leaves_the_old_log() -> None:
    member = Member(log=log_of(1, 1), term=1, auto=False)
    member.hear(install(9, 1))
    member.crash()
    assert (member.raft.log.start, member.raft.log.last) == (-1, 1)


def test_7_a_follower_far_behind_catches_up_with_snapshot_and_log() -> None:
    lab = Lab()
    lab.elect(1)
    lab.isolate(3)
    for number in range(10):
        lab.propose(1, b"%d" % number)
    lab.members[1].disk.save_state(Offset(7), b"state at 7")
    lab[1].compact(Offset(7))
    lab.settle()
    lab.heal()
    lab.now = 0
    for _ in range(20):
        lab.advance(20)
        for effects in lab.members[1].effects:
            for follower in effects.snapshots:
                lab[1].send_snapshot(follower, b"state at 7")
            effects.snapshots.clear()
    assert (lab[3].log.start, lab[3].log.last, lab[3].log.commit) == (7, 10, 10)
    assert lab.members[3].disk.durable.state == b"state at 7"
    assert lab.role(1) is Role.LEADER


def test_7_an_append_that_joins_at_the_compacted_start_is_checked_against_its_term() -> None:
    member = Member()
    member.hear(install(9, 3, term=4))
    (answer,) = only(AppendAnswer, member.hear(append(9, 3, data(10, 4), term=4)))
    assert (answer.match, answer.rejected) == (10, False)


def test_7_a_snapshot_from_an_old_leader_changes_nothing() -> None:
    member = Member(term=5)
    member.hear(install(9, 3, term=4))
    assert (member.raft.log.last, member.raft.term) == (-1, 5)
