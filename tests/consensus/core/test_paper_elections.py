"""Section 5.2 (elections, split votes, random timeouts) and 5.4.1 (who may win), with pre-vote (dissertation 9.6)."""

from __future__ import annotations

import pytest

from quorate.consensus.core import Batch, BatchKind, HardState, Millis, RaftSettings, Role, Term, replica_id
from quorate.consensus.core.messages import Append, Heartbeat, VoteAnswer, VoteRequest
from quorate.consensus.core.types import NO_REPLICA
from tests.consensus.core.lab import (
    SETTINGS,
    Lab,
    Member,
    append,
    ask_vote,
    data,
    heartbeat,
    log_of,
    only,
    vote,
)

ELECTION = SETTINGS.election_ms


def granted(member: Member, request: VoteRequest) -> bool:
    (answer,) = only(VoteAnswer, member.hear(request))
    return answer.granted


def test_5_2_replicas_start_as_followers_of_nobody() -> None:
    member = Member(term=7)
    assert (member.raft.role, member.raft.term, member.raft.leader) == (Role.FOLLOWER, 7, NO_REPLICA)
    member.run()
    assert member.said() == []


def test_5_2_a_follower_that_hears_a_leader_stays_a_follower() -> None:
    member = Member()
    for now in range(50, 5000, 50):
        member.tick(now)
        member.hear(heartbeat(term=1))
    assert (member.raft.role, member.raft.term, member.raft.leader) == (Role.FOLLOWER, 1, replica_id(2))


def test_5_2_a_follower_that_hears_nothing_for_its_timeout_asks_for_votes() -> None:
    member = Member()
    due = member.raft.timeout_ms
    assert member.tick(due - 1) == []
    requests = member.tick(due)
    assert [(type(m), m.to) for m in requests] == [(VoteRequest, replica_id(2)), (VoteRequest, replica_id(3))]
    assert all(m.pre for m in only(VoteRequest, requests))


@pytest.mark.parametrize("sign", [heartbeat(term=1), append(-1, 0, term=1)])
def test_5_2_every_sign_of_the_leader_begins_the_timeout_again(sign: Append | Heartbeat) -> None:
    member = Member()
    member.tick(250)
    member.hear(sign)
    timeout = member.raft.timeout_ms
    assert member.tick(250 + timeout - 1) == []
    assert member.tick(250 + timeout) != []


def test_5_2_timeouts_are_random_between_one_and_two_election_times() -> None:
    member = Member()
    seen = set()
    for _ in range(400):
        member.campaign()
        seen.add(member.raft.timeout_ms)
    assert min(seen) >= ELECTION
    assert max(seen) < 2 * ELECTION
    assert len(seen) > 100, "each timeout is drawn anew"


def test_5_2_timeouts_of_different_replicas_rarely_collide() -> None:
    timeouts = [Member(node, voters=range(1, 8)).raft.timeout_ms for node in range(1, 8)]
    assert len(set(timeouts)) > 3


@pytest.mark.parametrize(
    ("size", "grants", "wins"),
    [
        (3, [2], True),
        (3, [], False),
        (4, [2], False),
        (4, [2, 3], True),
        (5, [2], False),
        (5, [2, 3], True),
        (5, [4, 5], True),
        (7, [2, 3], False),
        (7, [2, 3, 4], True),
    ],
)
def test_5_2_a_majority_of_all_voters_elects(size: int, grants: list[int], wins: bool) -> None:
    member = Member(voters=range(1, size + 1))
    member.campaign()
    member.hear(*[vote(1, pre=True, sender=node) for node in range(2, size + 1)])
    assert member.role() is Role.CANDIDATE
    member.hear(*[vote(1, sender=node) for node in grants])
    assert (member.role() is Role.LEADER) is wins


def test_5_2_one_voter_counts_once() -> None:
    member = Member(voters=range(1, 6))
    member.campaign()
    member.hear(*[vote(1, pre=True, sender=2)] * 5)
    assert member.role() is Role.PRE_CANDIDATE
    member.hear(vote(1, pre=True, sender=3))
    member.hear(*[vote(1, sender=2)] * 5)
    assert member.role() is Role.CANDIDATE


def test_5_2_a_refusal_is_not_taken_back_by_a_later_grant_of_the_same_voter() -> None:
    member = Member(voters=range(1, 6))
    member.campaign()
    member.hear(vote(1, pre=True, sender=2), vote(1, pre=True, sender=3))
    member.hear(vote(1, granted=False, sender=2), vote(1, sender=2), vote(1, sender=3))
    assert member.role() is Role.CANDIDATE


def test_5_2_a_lost_election_makes_a_follower() -> None:
    member = Member()
    member.campaign()
    member.hear(vote(1, pre=True))
    member.hear(vote(1, granted=False, sender=2), vote(1, granted=False, sender=3))
    assert (member.raft.role, member.raft.term) == (Role.FOLLOWER, 1)


def test_5_2_a_split_vote_is_decided_in_a_later_term() -> None:
    lab = Lab((1, 2, 3, 4))
    lab[1].campaign()
    lab[2].campaign()
    lab.deliver()
    lab.deliver()
    lab.deliver(lambda m: (m.sender, m.to) in ((replica_id(1), replica_id(3)), (replica_id(2), replica_id(4))))
    lab.settle()
    assert lab.leaders() == []
    assert {lab[1].term, lab[2].term} == {1}, "two candidates of one term, two votes each"
    lab.advance(5 * ELECTION)
    (winner,) = lab.leaders()
    assert lab[winner].term > 1
    assert {lab[node].leader for node in (1, 2, 3, 4)} == {replica_id(winner)}


def test_5_2_a_vote_is_given_once_in_a_term_first_come_first_served() -> None:
    member = Member(term=0)
    assert granted(member, ask_vote(1, sender=2)) is True
    assert granted(member, ask_vote(1, sender=3)) is False
    assert granted(member, ask_vote(1, sender=2)) is True, "the same candidate may ask again"
    assert member.disk.durable.hard_state == HardState(Term(1), replica_id(2))


def test_5_2_a_vote_survives_a_restart() -> None:
    member = Member()
    assert granted(member, ask_vote(1, sender=2))
    member.crash()
    assert granted(member, ask_vote(1, sender=3)) is False
    assert granted(member, ask_vote(1, sender=2)) is True


def test_5_2_no_vote_in_a_term_whose_leader_is_known() -> None:
    """Not even a free vote: whoever leads the term has won it."""
    member = Member()
    member.hear(heartbeat(term=1, sender=2))
    member.raft.tick(Millis(ELECTION + 1))
    assert granted(member, ask_vote(1, sender=3)) is False


def test_5_2_giving_a_vote_begins_the_timeout_again_refusing_does_not() -> None:
    member = Member(log=log_of(1), term=1)
    member.tick(200)
    member.hear(ask_vote(2, last=-1))
    assert member.raft.timer_from == 0
    member.hear(ask_vote(3, last=0, last_term=1))
    assert member.raft.timer_from == 200


def test_5_2_a_candidate_follows_a_leader_of_its_own_term() -> None:
    for sign in (heartbeat(term=1), append(-1, 0, term=1)):
        member = Member()
        member.campaign()
        member.hear(vote(1, pre=True))
        assert member.role() is Role.CANDIDATE
        member.hear(sign)
        assert (member.raft.role, member.raft.leader, member.raft.term) == (Role.FOLLOWER, replica_id(2), 1)


def test_5_2_a_leader_shows_itself_at_once_and_then_with_every_heartbeat() -> None:
    member = Member()
    first = member.lead(2)
    assert {(type(m), m.to) for m in first} == {(Append, replica_id(2)), (Append, replica_id(3))}
    assert [batch.kind for m in only(Append, first) for batch in m.batches] == [BatchKind.NOOP] * 2
    beats = member.pass_time(SETTINGS.heartbeat_ms)
    assert {(type(m), m.to) for m in beats} == {(Heartbeat, replica_id(2)), (Heartbeat, replica_id(3))}
    assert member.pass_time(SETTINGS.heartbeat_ms - 1) == []
    assert len(only(Heartbeat, member.pass_time(1))) == 2


@pytest.mark.parametrize(
    ("mine", "last", "last_term", "newer"),
    [
        (log_of(1), 0, 1, True),
        (log_of(1), 0, 2, True),
        (log_of(1), 1, 1, True),
        (log_of(1, 1), 0, 2, True),
        (log_of(1, 1), 0, 1, False),
        (log_of(2), 0, 1, False),
        (log_of(2), 5, 1, False),
        (log_of(1, 2), 0, 1, False),
        ([], -1, 0, True),
        ([data(0, 1, count=10)], 8, 1, False),
        ([data(0, 1, count=10)], 9, 1, True),
    ],
)
@pytest.mark.parametrize("pre", [False, True])
def test_5_4_1_the_vote_goes_only_to_a_log_at_least_as_new(
    mine: list[Batch], last: int, last_term: int, newer: bool, pre: bool
) -> None:
    """First the last term, then the length."""
    member = Member(log=mine, term=2)
    assert granted(member, ask_vote(3, last, last_term, pre=pre)) is newer


def test_5_4_1_what_is_still_being_written_counts_for_the_voter() -> None:
    member = Member(auto=False)
    member.hear(append(-1, 0, data(0, 1), term=1, sender=3))
    member.raft.tick(Millis(ELECTION + 1))
    member.hear(ask_vote(2, last=-1, last_term=0))
    assert only(VoteAnswer, member.synced())[-1].granted is False


def test_5_4_1_a_candidate_claims_only_what_is_durable_here() -> None:
    member = Member(log=log_of(1), term=1, auto=False)
    member.hear(append(0, 1, data(1, 1), term=1))
    requests = only(VoteRequest, member.tick(1000))
    assert {(m.last, m.last_term) for m in requests} == {(0, 1)}


def test_5_4_1_the_replica_with_the_newest_log_wins() -> None:
    lab = Lab(logs={1: log_of(1, 1), 2: log_of(1, 1, 1), 3: log_of(1)}, terms={1: 1, 2: 1, 3: 1})
    lab[3].campaign()
    lab.settle()
    assert lab.leaders() == []
    lab[2].campaign()
    lab.settle()
    assert lab.leaders() == [2]
    assert lab.members[3].terms() == [1, 1, 1, 2]


def test_9_6_a_pre_vote_changes_nothing_at_the_voter() -> None:
    member = Member(log=log_of(1), term=1)
    before = member.disk.durable.hard_state
    timer = (member.raft.timer_from, member.raft.timeout_ms)
    member.tick(100)
    assert granted(member, ask_vote(9, last=5, last_term=8, pre=True)) is True
    assert (member.raft.term, member.raft.vote, member.raft.role) == (1, NO_REPLICA, Role.FOLLOWER)
    assert (member.raft.timer_from, member.raft.timeout_ms) == timer
    assert member.disk.durable.hard_state == before


def test_9_6_a_pre_vote_asks_about_the_next_term_and_the_grant_repeats_it() -> None:
    asker, voter = Member(1, term=4), Member(2, term=3)
    (request, _) = only(VoteRequest, asker.campaign())
    assert (request.term, request.pre) == (5, True)
    (answer,) = only(VoteAnswer, voter.hear(request))
    assert (answer.term, answer.granted) == (5, True)
    asker.hear(answer)
    assert (asker.raft.role, asker.raft.term) == (Role.CANDIDATE, 5)


def test_9_6_a_refused_pre_vote_tells_the_voters_term() -> None:
    asker, voter = Member(1, term=4), Member(2, term=9)
    (request, _) = only(VoteRequest, asker.campaign())
    (answer,) = only(VoteAnswer, voter.hear(request))
    assert (answer.term, answer.granted) == (9, False)
    asker.hear(answer)
    assert (asker.raft.role, asker.raft.term) == (Role.FOLLOWER, 9)


def test_9_6_a_replica_that_was_cut_off_comes_back_without_a_new_term() -> None:
    lab = Lab()
    lab.elect(1)
    lab.isolate(3)
    lab.advance(20 * ELECTION)
    assert lab[3].term == 1, "it asks and asks and starts no term"
    lab.heal()
    lab.advance(2 * ELECTION)
    assert lab.leaders() == [1]
    assert {lab[node].term for node in (1, 2, 3)} == {1}


def test_9_6_a_campaign_that_is_not_answered_is_tried_again() -> None:
    member = Member()
    member.tick(member.raft.timeout_ms)
    again = member.pass_time(2 * ELECTION)
    assert [m.term for m in only(VoteRequest, again)] == [1, 1]
    assert member.role() is Role.PRE_CANDIDATE


def test_5_2_a_candidate_without_an_answer_asks_first_again() -> None:
    member = Member()
    member.campaign()
    member.hear(vote(1, pre=True))
    requests = only(VoteRequest, member.pass_time(2 * ELECTION))
    assert [(m.term, m.pre) for m in requests] == [(2, True), (2, True)]


def test_settings_keep_the_election_time_above_the_heartbeats() -> None:
    """Section 5.6: broadcast time << election timeout."""
    with pytest.raises(ValueError, match="at least twice"):
        RaftSettings(heartbeat_ms=50, election_ms=99)
    for bad in (0, -1, True, 1.5):
        with pytest.raises(ValueError, match="a whole number from 1 on"):
            RaftSettings(max_inflight=bad)  # type: ignore[arg-type]
