"""Section 5.1: terms are a logical clock. Newer ones are adopted, older ones are turned away."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorate.consensus.core import HardState, Message, Millis, Role, Term, replica_id
from quorate.consensus.core.messages import Append, AppendAnswer, Heartbeat, HeartbeatAnswer, VoteAnswer
from quorate.consensus.core.types import NO_REPLICA
from tests.consensus.core.lab import (
    Lab,
    Member,
    accepted,
    append,
    ask_vote,
    data,
    heard,
    heartbeat,
    install,
    log_of,
    only,
    rejected,
    timeout_now,
    vote,
)

NEWER: list[Message] = [
    append(-1, 0, term=5),
    append(-1, 0, data(0, 5), term=5),
    heartbeat(term=5),
    install(9, 4, term=5),
    accepted(0, term=5),
    rejected(0, -1, 0, term=5),
    heard(1, term=5),
    vote(5, granted=False),
    vote(5, granted=True),
    vote(5, granted=False, pre=True),
    timeout_now(term=5),
]


def follower() -> Member:
    return Member(term=2)


def pre_candidate() -> Member:
    member = Member(term=2)
    member.campaign()
    return member


def candidate() -> Member:
    member = Member(term=1)
    member.campaign()
    member.hear(vote(2, pre=True))
    return member


def leader() -> Member:
    member = Member(term=1)
    member.lead(2)
    return member


ROLES = [follower, pre_candidate, candidate, leader]


@pytest.mark.parametrize("make", ROLES)
@pytest.mark.parametrize("message", NEWER, ids=lambda message: type(message).__name__)
def test_5_1_a_newer_term_makes_anybody_a_follower_of_it(make: Callable[[], Member], message: Message) -> None:
    member = make()
    assert member.raft.term == 2
    member.hear(message)
    assert (member.raft.role, member.raft.term) == (Role.FOLLOWER, 5)
    assert member.disk.durable.hard_state[:2] == (5, NO_REPLICA)


@pytest.mark.parametrize("make", ROLES)
def test_5_1_only_a_leaders_message_names_the_leader(make: Callable[[], Member]) -> None:
    for message in NEWER:
        member = make()
        member.hear(message)
        named = replica_id(2) if isinstance(message, Append | Heartbeat) or hasattr(message, "snapshot") else NO_REPLICA
        assert member.raft.leader == named


@pytest.mark.parametrize("make", [follower, pre_candidate, candidate])
def test_5_1_a_vote_request_of_a_newer_term_is_adopted_when_no_leader_is_heard(make: Callable[[], Member]) -> None:
    member = make()
    member.hear(ask_vote(7, last=9, last_term=6))
    assert member.raft.term == 7
    assert member.disk.durable.hard_state == HardState(Term(7), replica_id(2))


def test_5_1_the_vote_is_free_again_in_a_newer_term() -> None:
    member = Member(term=2, vote=replica_id(3))
    assert only(VoteAnswer, member.hear(ask_vote(2, sender=2)))[0].granted is False
    assert only(VoteAnswer, member.hear(ask_vote(3, sender=2)))[0].granted is True


OLDER_FROM_LEADERS: list[Message] = [
    append(-1, 0, term=1),
    append(-1, 0, data(0, 1), term=1, commit=0),
    heartbeat(term=1),
    install(9, 1, term=1),
]


@pytest.mark.parametrize("make", ROLES)
@pytest.mark.parametrize("message", OLDER_FROM_LEADERS, ids=lambda message: type(message).__name__)
def test_5_1_an_old_leader_is_told_the_term_and_changes_nothing(make: Callable[[], Member], message: Message) -> None:
    member = make()
    before = (member.raft.role, member.raft.leader, member.raft.log.last, member.raft.log.commit)
    answers = member.hear(message)
    assert (member.raft.role, member.raft.leader, member.raft.log.last, member.raft.log.commit) == before
    assert [(type(answer), answer.term, answer.to) for answer in answers] == [(HeartbeatAnswer, 2, message.sender)]


@pytest.mark.parametrize("make", ROLES)
@pytest.mark.parametrize(
    "message",
    [
        accepted(0),
        rejected(0, -1, 0),
        heard(1),
        vote(1),
        vote(1, granted=False),
        vote(1, pre=True),
        timeout_now(),
    ],
    ids=lambda message: type(message).__name__,
)
def test_5_1_late_answers_of_an_old_term_are_only_counted(make: Callable[[], Member], message: Message) -> None:
    member = make()
    before = (member.raft.role, member.raft.term, member.raft.ignored)
    assert member.hear(message) == []
    assert (member.raft.role, member.raft.term, member.raft.ignored) == (*before[:2], before[2] + 1)


def test_5_1_an_old_vote_request_is_refused_with_the_current_term() -> None:
    member = follower()
    (answer,) = only(VoteAnswer, member.hear(ask_vote(1, last=50, last_term=1)))
    assert (answer.granted, answer.term) == (False, 2)


def test_5_1_an_old_leader_steps_down_when_it_hears_of_the_new_term() -> None:
    lab = Lab()
    lab.elect(1)
    lab.isolate(1)
    lab[3].tick(Millis(300))
    lab[2].tick(Millis(700))
    lab.settle()
    assert lab.leaders() == [1, 2], "nobody has told the old leader yet"
    lab.heal()
    lab[2].tick(Millis(760))
    lab.settle()
    assert lab.leaders() == [2]
    assert len({lab[node].term for node in (1, 2, 3)}) == 1


def test_5_1_terms_rise_by_one_with_each_campaign_that_is_run() -> None:
    member = Member(log=log_of(3), term=3)
    member.campaign()
    assert member.raft.term == 3, "a pre-vote starts no term"
    member.hear(vote(4, pre=True))
    assert (member.raft.role, member.raft.term) == (Role.CANDIDATE, 4)


def test_5_1_answers_carry_the_current_term() -> None:
    member = follower()
    answers = member.hear(append(-1, 0, data(0, 2), term=2)) + member.hear(heartbeat(term=2))
    assert [answer.term for answer in answers] == [2, 2]
    assert only(AppendAnswer, answers)[0].match == 0
