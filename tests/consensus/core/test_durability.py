"""Persist before answering: which message waits for which fsync, and what a crash in between leaves.

Requests promise nothing about the sender's disk and leave at once. Answers to appends and votes, the leader's own
acknowledgement and a candidate's own vote wait. (Figure 2: "updated on stable storage before responding".)
"""

from __future__ import annotations

import pytest

from quorate.consensus.core import Millis, Offset, Role, Term, Token, replica_id
from quorate.consensus.core.messages import Append, AppendAnswer, Heartbeat, HeartbeatAnswer, VoteAnswer, VoteRequest
from quorate.consensus.core.types import NO_REPLICA
from tests.consensus.core.lab import (
    Lab,
    Member,
    accepted,
    append,
    ask_vote,
    data,
    heartbeat,
    install,
    log_of,
    only,
    timeout_now,
    vote,
)


def test_an_append_answer_waits_for_the_fsync() -> None:
    member = Member(auto=False)
    assert member.hear(append(-1, 0, data(0, 1))) == []
    (answer,) = only(AppendAnswer, member.synced())
    assert (answer.match, answer.rejected) == (0, False)


def test_a_later_answer_waits_for_every_earlier_write() -> None:
    """The second append brings nothing new; its answer still promises what the first one is writing."""
    member = Member(auto=False)
    assert member.hear(append(-1, 0, data(0, 1))) == []
    assert member.hear(append(-1, 0, data(0, 1))) == []
    assert len(only(AppendAnswer, member.synced())) == 2


def test_an_answer_does_not_wait_when_all_is_durable() -> None:
    member = Member(log=log_of(1), term=1, auto=False)
    (answer,) = only(AppendAnswer, member.hear(append(0, 1)))
    assert answer.match == 0


def test_promises_of_one_turn_leave_as_one_answer() -> None:
    member = Member()
    answers = member.hear(append(-1, 0, data(0, 1)), append(0, 1, data(1, 1)), append(1, 1, data(2, 1)))
    assert [answer.match for answer in only(AppendAnswer, answers)] == [2]


@pytest.mark.parametrize("pre", [False, True])
def test_a_vote_answer_waits_for_the_fsync(pre: bool) -> None:
    member = Member(auto=False)
    member.hear(ask_vote(1))
    answers = member.hear(ask_vote(2, pre=pre))
    assert answers == []
    assert only(VoteAnswer, member.synced())[-1].granted


def test_a_vote_that_was_lost_in_a_crash_was_never_given() -> None:
    member = Member(auto=False)
    assert member.hear(ask_vote(1, sender=2)) == []
    member.crash()
    member.auto = True
    assert only(VoteAnswer, member.hear(ask_vote(1, sender=3)))[0].granted is True


def test_the_refusal_of_an_old_leader_waits_for_the_new_term() -> None:
    """It names the term: after a crash that forgot it, nobody may know it from us."""
    member = Member(auto=False)
    member.hear(ask_vote(5))
    assert member.hear(heartbeat(term=4, sender=3)) == []
    assert [answer.term for answer in only(HeartbeatAnswer, member.synced())] == [5]


def test_requests_for_votes_leave_before_the_candidates_own_fsync() -> None:
    member = Member(auto=False)
    member.campaign()
    requests = only(VoteRequest, member.hear(vote(1, pre=True)))
    assert [(m.to, m.pre, m.term) for m in requests] == [(replica_id(2), False, 1), (replica_id(3), False, 1)]
    assert member.disk.durable.hard_state.term == 0


def test_a_candidates_own_vote_waits_for_the_fsync() -> None:
    member = Member(auto=False)
    member.campaign()
    member.hear(vote(1, pre=True))
    member.hear(vote(1, sender=2))
    assert member.role() is Role.CANDIDATE, "one vote of three, and its own is not durable"
    member.synced()
    assert member.role() is Role.LEADER


def test_a_candidates_own_vote_does_not_count_with_an_older_write() -> None:
    member = Member(auto=False)
    member.hear(append(-1, 0, data(0, 1), term=1))
    member.hear(timeout_now(term=1))
    member.hear(vote(2, sender=2))
    assert (member.role(), len(member.waiting)) == (Role.CANDIDATE, 2)
    member.sync()
    assert member.role() is Role.CANDIDATE, "the first write holds no vote"
    member.sync()
    assert member.role() is Role.LEADER


def test_appends_leave_before_the_leaders_own_fsync() -> None:
    member = Member()
    member.lead(2)
    member.hear(accepted(0))
    member.auto = False
    member.raft.propose(b"x")
    member.run()
    (message,) = [m for m in only(Append, member.said()) if m.to == replica_id(2)]
    assert message.batches[0].base == 1
    assert member.disk.durable.last == 0


def test_the_leaders_own_acknowledgement_waits_for_the_fsync() -> None:
    member = Member()
    member.lead(2)
    member.hear(accepted(0))
    member.auto = False
    member.raft.propose(b"x")
    member.run()
    member.hear(accepted(1, sender=2))
    assert member.raft.log.commit == 0, "one of three"
    member.synced()
    assert member.raft.log.commit == 1


def test_two_followers_commit_without_the_leaders_disk_and_apply_waits_for_it() -> None:
    """Dissertation 10.2.1: the leader may commit what its own disk does not have yet. It is applied when it can be read."""
    member = Member()
    member.lead(2)
    member.hear(accepted(0))
    member.auto = False
    member.raft.propose(b"x")
    member.run()
    member.hear(accepted(1, sender=2), accepted(1, sender=3))
    assert member.raft.log.commit == 1
    assert member.applied[-1] == (0, 0)
    member.synced()
    assert member.applied[-1] == (1, 1)


def test_heartbeats_leave_at_once_and_so_do_their_answers_in_a_known_term() -> None:
    leader = Member()
    leader.lead(2)
    leader.auto = False
    leader.raft.propose(b"x")
    assert len(only(Heartbeat, leader.pass_time(60))) == 2
    follower = Member(term=1, auto=False)
    follower.hear(append(-1, 0, data(0, 1)))
    assert len(only(HeartbeatAnswer, follower.hear(heartbeat()))) == 1, "it promises nothing about the log"


def test_the_answer_to_a_heartbeat_of_a_new_term_waits_for_that_term() -> None:
    member = Member(auto=False)
    assert member.hear(heartbeat(term=3)) == []
    assert [m.term for m in only(HeartbeatAnswer, member.synced())] == [3]


def test_a_snapshot_is_acknowledged_when_it_is_durable() -> None:
    member = Member(auto=False)
    assert member.hear(install(9, 1)) == []
    assert [m.match for m in only(AppendAnswer, member.synced())] == [9]


def test_a_write_names_everything_in_one_piece() -> None:
    member = Member(log=log_of(1, 1, 1), term=1, auto=False)
    member.hear(append(0, 1, data(1, 2), data(2, 2), term=2, commit=0))
    (write,) = member.disk.pending
    assert (write.truncate, [batch.base for batch in write.batches], write.sync) == (0, [1, 2], True)
    assert write.hard_state is not None
    assert write.hard_state == (2, NO_REPLICA, 0)
    assert write.token == Token(1, Term(2), Offset(2), Term(2))


def test_a_conflict_among_batches_that_never_reached_the_disk_truncates_no_disk() -> None:
    member = Member(log=log_of(1), term=1)
    member.hear(append(0, 1, data(1, 1), term=1), append(0, 1, data(1, 2), term=2, sender=3))
    assert member.terms() == [1, 2]
    assert [effects.persist.truncate for effects in member.effects if effects.persist] == [None]


def test_a_commit_offset_alone_needs_no_write() -> None:
    member = Member()
    member.hear(append(-1, 0, data(0, 1)))
    member.hear(heartbeat(commit=0))
    assert member.effects[-1].persist is None
    member.crash()
    assert member.raft.log.commit == -1, "a hint: it is learned again"


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 0, 2], [0, 0, 1, 1, 2, 2]])
def test_completions_may_come_late_twice_or_for_several_writes_at_once(order: list[int]) -> None:
    member = Member(auto=False)
    for offset in range(3):
        member.hear(append(offset - 1, 1 if offset else 0, data(offset, 1)))
    tokens = [token for token, _ in member.waiting]
    stable = []
    for index in order:
        member.raft.persisted(tokens[index])
        member.raft.check_invariants()
        stable.append(member.raft.log.stable)
    assert stable == [max(order[: position + 1]) for position in range(len(order))]


def test_a_stale_completion_confirms_nothing_of_the_new_tail() -> None:
    member = Member(auto=False)
    member.hear(append(-1, 0, data(0, 1), data(1, 1), term=1))
    ((old, _),) = member.waiting
    member.hear(append(-1, 0, data(0, 2), data(1, 2), term=2, sender=3, commit=1))
    member.raft.persisted(old)
    member.run()
    assert (member.raft.log.stable, member.applied) == (-1, [])
    member.raft.persisted(member.waiting[-1][0])
    member.run()
    assert (member.raft.log.stable, member.applied) == (1, [(0, 1)])


def test_a_completion_from_before_a_cut_confirms_nothing_even_if_offset_and_term_are_the_same() -> None:
    """No leader of Raft gives two batches with one offset and one term. A peer that does must not pass for a disk."""
    member = Member(auto=False)
    member.hear(append(-1, 0, *(data(base, 1) for base in range(4)), term=2))
    ((old, _),) = member.waiting
    member.hear(append(0, 1, data(1, 2), term=2))
    member.hear(append(0, 1, data(1, 1), data(2, 1), data(3, 1), term=2))
    member.raft.persisted(old)
    member.raft.check_invariants()
    assert member.raft.log.stable == -1
    member.raft.persisted(member.waiting[-1][0])
    assert member.raft.log.stable == 3


def test_a_completion_from_before_a_snapshot_confirms_nothing_after_it() -> None:
    member = Member(auto=False)
    member.hear(append(-1, 0, *log_of(1, 1, 1, 2), term=3))
    ((old, _),) = member.waiting
    member.hear(install(2, 2, term=3))
    member.raft.step(append(2, 2, data(3, 2), term=3))
    member.raft.persisted(old)
    member.raft.check_invariants()
    assert (member.raft.log.last, member.raft.log.stable) == (3, 2)


def test_after_a_failed_fsync_the_replica_says_nothing_more() -> None:
    member = Member(auto=False)
    member.hear(append(-1, 0, data(0, 1)))
    member.raft.stop("fsync failed")
    assert member.hear(append(0, 1, data(1, 1)), ask_vote(9), heartbeat(term=9)) == []
    assert member.tick(100_000) == []
    assert (member.role(), member.raft.stop_reason, member.roles[-1].role) == (Role.STOPPED, "fsync failed", Role.STOPPED)
    member.raft.persisted(member.waiting[0][0])
    assert member.raft.log.stable == -1


def test_a_power_failure_of_all_loses_nothing_that_was_committed() -> None:
    lab = Lab()
    lab.elect(1)
    batches = [lab.propose(1, b"%d" % number) for number in range(5)]
    for node in (1, 2, 3):
        lab.members[node].auto = False
    lab[1].propose(b"not yet")
    lab.deliver(lambda m: isinstance(m, Append))
    lab.drop()
    for node in (1, 2, 3):
        lab.crash(node)
        lab.members[node].auto = True
    lab.advance(3000)
    (leader,) = lab.leaders()
    assert lab[leader].log.commit == 6, "five batches, the old no-op and the new one"
    for batch in batches:
        assert all(member.disk.durable.find(batch.base) == batch for member in lab.members.values())


def test_a_single_voter_commits_with_its_own_fsync() -> None:
    member = Member(voters=[1], auto=False)
    member.tick(1000)
    assert member.role() is Role.CANDIDATE
    member.synced()
    assert (member.role(), member.raft.log.commit) == (Role.LEADER, 0)
    member.raft.propose(b"x")
    member.run()
    assert member.raft.log.commit == 0
    member.synced()
    assert (member.raft.log.commit, member.applied[-1]) == (1, (1, 1))
    assert member.out == []


def test_a_single_voter_leads_again_after_a_restart_and_reads_alone() -> None:
    member = Member(voters=[1])
    member.tick(1000)
    member.raft.propose(b"x")
    member.run()
    member.crash()
    member.tick(3000)
    assert (member.role(), member.raft.term, member.raft.log.commit) == (Role.LEADER, 2, 2)
    read = member.raft.read_index()
    member.run()
    assert member.reads == [(read, 2)]
    member.raft.tick(Millis(60_000))
    assert member.role() is Role.LEADER, "it is its own quorum"
