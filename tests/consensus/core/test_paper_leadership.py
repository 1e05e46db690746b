"""Dissertation 3.10 (leadership transfer), 6.2 (check-quorum) and 6.4 (ReadIndex)."""

from __future__ import annotations

import pytest

from quorate.consensus.core import BadRequest, Millis, NotLeader, Role, Stopped, Transferring, replica_id
from quorate.consensus.core.messages import Append, Heartbeat, TimeoutNow, VoteAnswer, VoteRequest
from quorate.consensus.core.types import NO_REPLICA
from tests.consensus.core.lab import (
    SETTINGS,
    Lab,
    Member,
    accepted,
    append,
    ask_vote,
    config,
    heard,
    heartbeat,
    ids,
    log_of,
    only,
    timeout_now,
)

ELECTION = SETTINGS.election_ms


def settled_leader() -> Member:
    """A leader that has committed its no-op; follower 3 has not answered."""
    member = Member()
    member.lead(2)
    member.hear(accepted(0))
    assert member.raft.log.commit == 0
    return member


# 3.10 Leadership transfer.


def test_3_10_leadership_goes_to_the_chosen_follower_at_once() -> None:
    lab = Lab()
    lab.elect(1)
    lab.propose(1)
    lab[1].transfer(replica_id(3))
    lab.settle()
    assert lab.leaders() == [3]
    assert lab[3].term == 2
    assert lab.propose(3).last == lab[1].log.commit


def test_3_10_a_follower_that_lags_gets_everything_first() -> None:
    member = settled_leader()
    member.raft.transfer(replica_id(3))
    member.run()
    assert only(TimeoutNow, member.said()) == []
    said = member.hear(accepted(0, sender=3))
    assert [m.to for m in only(TimeoutNow, said)] == [replica_id(3)]


def test_3_10_proposals_and_changes_are_refused_meanwhile() -> None:
    member = settled_leader()
    member.raft.transfer(replica_id(3))
    before = member.raft.log.last
    for call in (
        lambda: member.raft.propose(b"x"),
        lambda: member.raft.change_members(ids(1, 2)),
        lambda: member.raft.transfer(replica_id(2)),
    ):
        with pytest.raises(Transferring) as refusal:
            call()
        assert refusal.value.to == replica_id(3)
        assert refusal.value.retriable
    assert member.raft.log.last == before


def test_3_10_a_transfer_that_takes_longer_than_an_election_time_is_given_up() -> None:
    member = settled_leader()
    member.raft.transfer(replica_id(3))
    for now in range(50, ELECTION, 50):
        member.tick(now)
        member.hear(heard(1))
    with pytest.raises(Transferring):
        member.raft.propose(b"x")
    member.tick(ELECTION)
    assert member.role() is Role.LEADER
    assert member.raft.propose(b"x").base == 1


def test_3_10_transferring_to_oneself_does_nothing() -> None:
    member = settled_leader()
    member.raft.transfer(member.id)
    assert member.raft.propose(b"x").base == 1


def test_3_10_only_a_voter_can_be_chosen_and_only_by_the_leader() -> None:
    member = settled_leader()
    for wrong in (replica_id(9), replica_id(2, 2), NO_REPLICA):
        with pytest.raises(BadRequest, match="not a voter"):
            member.raft.transfer(wrong)
    follower = Member()
    follower.hear(heartbeat())
    with pytest.raises(NotLeader) as refusal:
        follower.raft.transfer(replica_id(3))
    assert refusal.value.leader == replica_id(2)


def test_3_10_the_target_asks_without_pre_vote_and_voters_do_not_wait_for_silence() -> None:
    target = Member()
    target.hear(heartbeat())
    requests = only(VoteRequest, target.hear(timeout_now()))
    assert [(m.term, m.pre, m.transfer) for m in requests] == [(2, False, True)] * 2
    voter = Member(3)
    voter.hear(heartbeat(to=3))
    (answer,) = only(VoteAnswer, voter.hear(ask_vote(2, sender=1, to=3, transfer=True)))
    assert answer.granted


def test_3_10_an_order_from_anybody_but_the_leader_is_ignored() -> None:
    member = Member()
    member.hear(heartbeat(sender=2))
    assert member.hear(timeout_now(sender=3)) == []
    leader = settled_leader()
    assert leader.hear(timeout_now()) == []
    learner = Member()
    learner.hear(append(-1, 0, config(0, 1, learner.raft.configuration.change(ids(2, 3), ids(1)).leave()), commit=0))
    assert learner.hear(timeout_now()) == []
    assert (member.raft.term, leader.raft.term, learner.raft.term) == (1, 1, 1)


def test_3_10_a_target_that_leaves_the_group_ends_the_transfer() -> None:
    lab = Lab((1, 2, 3, 4))
    lab.elect(1)
    lab.isolate(4)
    lab[1].change_members(ids(1, 2, 3))
    lab[1].progress[replica_id(4)].match = lab[1].log.start
    lab.collect()
    with pytest.raises(BadRequest):
        lab[1].transfer(replica_id(4))


# 6.2 Check-quorum, and followers that hear a leader.


def test_6_2_a_leader_that_hears_no_quorum_steps_down_within_an_election_time() -> None:
    member = settled_leader()
    for now in range(50, ELECTION, 50):
        member.tick(now)
    assert member.role() is Role.LEADER
    member.tick(ELECTION)
    assert (member.role(), member.raft.term, member.raft.leader) == (Role.FOLLOWER, 1, NO_REPLICA)


@pytest.mark.parametrize("answer", [heard(1), accepted(0), accepted(-1)])
def test_6_2_any_answer_of_a_quorum_keeps_the_leader(answer: Append) -> None:
    member = settled_leader()
    for now in range(50, 10 * ELECTION, 50):
        member.tick(now)
        member.hear(answer)
    assert member.role() is Role.LEADER


def test_6_2_the_same_voter_twice_is_no_quorum() -> None:
    member = Member(voters=range(1, 6))
    member.lead(2, 3)
    for now in range(50, 2 * ELECTION, 50):
        member.tick(now)
        member.hear(heard(1), heard(2))
    assert member.role() is Role.FOLLOWER


def test_6_2_a_leader_that_is_cut_off_gives_up_and_the_rest_elects() -> None:
    lab = Lab()
    lab.elect(1)
    lab.isolate(1)
    lab.advance(ELECTION + 10)
    assert lab.role(1) is not Role.LEADER
    lab.advance(5 * ELECTION)
    (leader,) = lab.leaders()
    assert leader in (2, 3)


@pytest.mark.parametrize("pre", [False, True])
def test_6_2_followers_that_hear_a_leader_ignore_votes(pre: bool) -> None:
    member = Member()
    member.hear(heartbeat())
    member.tick(ELECTION - 1)
    assert member.hear(ask_vote(9, last=99, last_term=8, pre=pre, sender=3)) == []
    assert member.raft.term == 1
    member.tick(ELECTION)
    assert only(VoteAnswer, member.hear(ask_vote(9, last=99, last_term=8, pre=pre, sender=3)))[0].granted


def test_6_2_a_leader_ignores_votes_of_newer_terms_while_it_leads() -> None:
    member = settled_leader()
    assert member.hear(ask_vote(9, last=99, last_term=8, sender=3)) == []
    assert (member.role(), member.raft.term) == (Role.LEADER, 1)


def test_6_2_the_leader_itself_may_ask_its_followers_again() -> None:
    """It restarted: that its followers still hear of it is no reason to make it wait."""
    member = Member()
    member.hear(heartbeat(sender=2))
    assert only(VoteAnswer, member.hear(ask_vote(2, sender=2)))[0].granted


# 6.4 ReadIndex.


def test_6_4_a_read_waits_for_a_round_that_a_quorum_answers() -> None:
    member = settled_leader()
    read = member.raft.read_index()
    member.said()
    member.run()
    rounds = {(m.to, m.round) for m in only(Heartbeat, member.said())}
    ((_, number), _) = sorted(rounds)
    assert rounds == {(replica_id(2), number), (replica_id(3), number)}
    member.hear(heard(number - 1))
    assert member.reads == []
    member.hear(heard(number, sender=3))
    assert member.reads == [(read, 0)]


def test_6_4_a_read_is_served_at_the_commit_offset_of_its_round() -> None:
    member = settled_leader()
    read = member.raft.read_index()
    member.run()
    member.raft.propose(b"later")
    member.run()
    member.hear(accepted(1))
    assert member.raft.log.commit == 1
    member.hear(heard(member.raft.reads.round))
    assert member.reads == [(read, 0)]


def test_6_4_no_read_before_a_commit_in_this_term() -> None:
    member = Member(log=log_of(1), term=1, commit=0)
    member.lead(2)
    read = member.raft.read_index()
    member.run()
    member.hear(heard(1, term=2), heard(9, term=2, sender=3))
    assert member.reads == []
    said = member.hear(accepted(1, term=2))
    number = max(m.round for m in only(Heartbeat, said))
    assert member.reads == []
    member.hear(heard(number, term=2))
    assert member.reads == [(read, 1)]


def test_6_4_reads_of_one_turn_share_a_round_and_are_served_in_order() -> None:
    member = settled_leader()
    asked = [member.raft.read_index() for _ in range(3)]
    before = member.raft.reads.round
    member.run()
    assert member.raft.reads.round == before + 1
    member.hear(heard(before + 1))
    assert [read.id for read in member.reads] == asked


def test_6_4_answers_of_an_older_round_or_term_confirm_nothing() -> None:
    member = settled_leader()
    member.tick(60)
    old = member.raft.reads.round
    member.raft.read_index()
    member.run()
    member.hear(heard(old), heard(old, sender=3), heard(old + 1, term=0))
    assert member.reads == []


def test_6_4_a_lost_round_is_repeated_with_the_next_heartbeat() -> None:
    lab = Lab()
    lab.elect(1)
    read = lab[1].read_index()
    lab.drop()
    lab.advance(2 * SETTINGS.heartbeat_ms)
    assert [state.id for state in lab.members[1].reads] == [read]


def test_6_4_reads_fail_when_leadership_is_lost() -> None:
    member = settled_leader()
    waiting = member.raft.read_index()
    member.run()
    fresh = member.raft.read_index()
    member.hear(heartbeat(term=2, sender=3))
    assert (member.failed_reads, member.reads) == ([waiting, fresh], [])


def test_6_4_only_a_leader_reads() -> None:
    member = Member()
    member.hear(heartbeat())
    with pytest.raises(NotLeader) as refusal:
        member.raft.read_index()
    assert refusal.value.leader == replica_id(2)
    member.raft.stop("over")
    with pytest.raises(Stopped, match="over"):
        member.raft.read_index()


def test_6_4_a_deposed_leader_that_does_not_know_serves_no_read() -> None:
    """The reason for the round: the new leader may have committed something newer."""
    lab = Lab()
    lab.elect(1)
    lab.isolate(1)
    lab[3].tick(Millis(300))
    lab[2].tick(Millis(700))
    lab.settle()
    assert lab.leaders() == [1, 2]
    lab.propose(2, b"newer")
    read = lab[1].read_index()
    lab.settle()
    assert lab.members[1].reads == []
    lab.heal()
    lab[1].tick(Millis(60))
    lab.settle()
    assert (lab.members[1].reads, lab.members[1].failed_reads) == ([], [read])


def test_6_4_a_proposal_in_flight_does_not_delay_a_read() -> None:
    member = settled_leader()
    member.raft.propose(b"x")
    read = member.raft.read_index()
    member.run()
    member.hear(heard(member.raft.reads.round))
    assert member.reads == [(read, 0)]
