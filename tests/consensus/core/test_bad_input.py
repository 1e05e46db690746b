"""Bad input: what cannot be right is ignored or refused, changes nothing, and nothing is ever raised out of `step`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorate.consensus.core import (
    BadRequest,
    Batch,
    BatchKind,
    Configuration,
    GroupId,
    Message,
    NotLeader,
    Offset,
    Refused,
    ReplicaId,
    Role,
    Stopped,
    Term,
    replica_id,
)
from quorate.consensus.core.messages import Append, HeartbeatAnswer
from quorate.consensus.core.types import NO_REPLICA
from tests.consensus.core.lab import (
    Member,
    accepted,
    append,
    ask_vote,
    data,
    heard,
    heartbeat,
    ids,
    install,
    log_of,
    only,
    rejected,
    timeout_now,
    vote,
)

HUGE = 1 << 60


def picture(member: Member) -> tuple[object, ...]:
    """Everything that a message could have changed."""
    raft = member.raft
    log = raft.log
    progress = tuple((p.replica, p.match, p.next, p.pace, p.round, p.commit) for p in raft.progress.values())
    return (
        (raft.role, raft.term, raft.vote, raft.leader, dict(raft.votes), raft.configuration),
        (log.start, log.last, log.last_term, log.commit, log.applied, log.terms.runs()),
        progress,
        member.disk.written.hard_state,
        len(member.disk.written.batches),
    )


def follower() -> Member:
    member = Member(log=log_of(1, 1, 2), term=2, commit=0)
    member.hear(heartbeat(term=2))
    return member


def pre_candidate() -> Member:
    member = Member(log=log_of(1, 1, 2), term=2, commit=0)
    member.campaign()
    return member


def candidate() -> Member:
    member = Member(log=log_of(1, 1), term=1, commit=0)
    member.campaign()
    member.hear(vote(2, pre=True))
    return member


def leader() -> Member:
    member = Member(log=log_of(1, 1), term=1, commit=0)
    member.lead(2)
    member.hear(accepted(2, term=2))
    return member


def stopped() -> Member:
    member = follower()
    member.raft.stop("the disk failed")
    member.run()
    return member


ROLES = [follower, pre_candidate, candidate, leader, stopped]
NOT_LEADING = [follower, pre_candidate, candidate]

ONE_OF_EACH: list[Message] = [
    append(2, 2, data(3, 2), term=2),
    accepted(0, term=2),
    rejected(0, -1, 0, term=2),
    heartbeat(term=2),
    heard(1, term=2),
    ask_vote(3, 9, 2),
    ask_vote(3, 9, 2, pre=True),
    vote(2),
    vote(3, pre=True),
    install(9, 2, term=2),
    timeout_now(term=2),
]


def name_of(value: object) -> str:
    return type(value).__name__ if isinstance(value, tuple) else getattr(value, "__name__", str(value))


# Calls.


@pytest.mark.parametrize("make", NOT_LEADING)
def test_only_the_leader_takes_requests_and_says_who_it_is(make: Callable[[], Member]) -> None:
    member = make()
    before = picture(member)
    calls: list[Callable[[], object]] = [
        lambda: member.raft.propose(b"x"),
        lambda: member.raft.change_members(ids(1, 2)),
        lambda: member.raft.transfer(replica_id(2)),
        lambda: member.raft.transfer(replica_id(1)),
        member.raft.read_index,
    ]
    for call in calls:
        with pytest.raises(NotLeader) as refusal:
            call()
        assert refusal.value.leader == (replica_id(2) if make is follower else NO_REPLICA)
        assert refusal.value.retriable
    member.run()
    assert picture(member) == before


def test_a_stopped_replica_refuses_everything_for_good() -> None:
    member = stopped()
    before = picture(member)
    calls: list[Callable[[], object]] = [
        lambda: member.raft.propose(b"x"),
        lambda: member.raft.change_members(ids(1, 2)),
        lambda: member.raft.transfer(replica_id(2)),
        member.raft.read_index,
    ]
    for call in calls:
        with pytest.raises(Stopped, match="the disk failed") as refusal:
            call()
        assert not refusal.value.retriable
    assert member.campaign() == []
    assert picture(member) == before


@pytest.mark.parametrize("count", [0, -1, -HUGE])
def test_a_batch_without_records_is_refused(count: int) -> None:
    member = leader()
    before = picture(member)
    with pytest.raises(BadRequest, match="at least one record"):
        member.raft.propose(b"x", count)
    member.run()
    assert picture(member) == before


def test_refusals_share_one_type() -> None:
    assert {error.__mro__[1] for error in (NotLeader, BadRequest, Stopped)} == {Refused}


# Addresses.


@pytest.mark.parametrize("make", ROLES)
@pytest.mark.parametrize("message", ONE_OF_EACH, ids=name_of)
def test_a_message_for_somebody_else_is_ignored_and_counted(make: Callable[[], Member], message: Message) -> None:
    """For another group, another replica, another incarnation of this node, or nobody."""
    member = make()
    before = picture(member)
    wrong = [
        message._replace(group=GroupId(2)),
        *(message._replace(to=to) for to in (replica_id(2), replica_id(1, 2), NO_REPLICA, ReplicaId(-1))),
    ]
    ignored = member.raft.ignored
    assert member.hear(*wrong) == []
    assert picture(member) == before
    assert member.raft.ignored == ignored + 5


@pytest.mark.parametrize("message", ONE_OF_EACH, ids=name_of)
def test_a_stopped_replica_hears_nothing(message: Message) -> None:
    member = stopped()
    before = picture(member)
    assert member.hear(message, message._replace(term=Term(99))) == []
    assert picture(member) == before


@pytest.mark.parametrize("sender", [replica_id(9), replica_id(2, 7), NO_REPLICA, ReplicaId(-5)])
def test_a_leader_ignores_answers_of_those_it_does_not_lead(sender: ReplicaId) -> None:
    """Strangers, members that were removed, other incarnations."""
    member = leader()
    before = picture(member)
    messages: list[Message] = [
        accepted(2, term=2),
        rejected(1, 0, 1, term=2),
        heard(9, term=2),
        vote(2),
        timeout_now(term=2),
    ]
    ignored = member.raft.ignored
    assert member.hear(*[message._replace(sender=sender) for message in messages]) == []
    assert picture(member) == before
    assert member.raft.ignored == ignored + 5


@pytest.mark.parametrize(("make", "pre", "term"), [(pre_candidate, True, 3), (candidate, False, 2)])
def test_votes_of_strangers_do_not_count(make: Callable[[], Member], pre: bool, term: int) -> None:
    member = make()
    before = picture(member)
    for sender in (replica_id(9), replica_id(2, 7), NO_REPLICA):
        member.hear(vote(term, pre=pre)._replace(sender=sender))
    assert picture(member) == before


def test_a_removed_member_is_a_stranger() -> None:
    member = Member(log=[Batch(Offset(0), Offset(0), Term(1), BatchKind.CONFIG, Configuration(voters=ids(1, 2)).encode())])
    member.campaign()
    member.hear(vote(1, pre=True, sender=3))
    assert member.role() is Role.PRE_CANDIDATE


@pytest.mark.parametrize("make", NOT_LEADING)
def test_answers_that_nobody_asked_for_are_ignored(make: Callable[[], Member]) -> None:
    member = make()
    before = picture(member)
    assert member.hear(accepted(0, term=2), rejected(0, -1, 0, term=2), heard(1, term=2)) == []
    assert picture(member) == before


# Old terms.


@pytest.mark.parametrize("make", [follower, pre_candidate, candidate, leader])
@pytest.mark.parametrize("message", ONE_OF_EACH, ids=name_of)
@pytest.mark.parametrize("term", [1, 0, -1, -HUGE])
def test_an_older_term_changes_nothing(make: Callable[[], Member], message: Message, term: int) -> None:
    member = make()
    before = picture(member)
    answers = member.hear(message._replace(term=Term(term)))
    assert picture(member) == before
    assert all(answer.term == 2 for answer in answers)
    if isinstance(message, Append):
        assert [type(answer) for answer in answers] == [HeartbeatAnswer]


# Offsets that do not join up.


def batch(base: int, last: int, term: int, kind: BatchKind = BatchKind.DATA, payload: bytes = b"") -> Batch:
    return Batch(Offset(base), Offset(last), Term(term), kind, payload)


DISJOINT = {
    "a gap after previous": append(2, 2, batch(4, 4, 2)),
    "an overlap with previous": append(2, 2, batch(2, 3, 2)),
    "a gap between batches": append(2, 2, batch(3, 3, 2), batch(5, 5, 2)),
    "an overlap between batches": append(2, 2, batch(3, 5, 2), batch(5, 6, 2)),
    "the same batch twice": append(2, 2, batch(3, 3, 2), batch(3, 3, 2)),
    "the wrong order": append(2, 2, batch(4, 4, 2), batch(3, 3, 2)),
    "terms that fall": append(2, 2, batch(3, 3, 3), batch(4, 4, 2)),
    "a term below previous": append(2, 2, batch(3, 3, 1)),
    "a term above the leader's": append(2, 2, batch(3, 3, 9)),
    "a later term above the leader's": append(2, 2, batch(3, 3, 3), batch(4, 4, 9)),
    "previous of a term above the leader's": append(2, 9),
    "last before base": append(2, 2, batch(3, 2, 2)),
    "last far before base": append(2, 2, batch(3, -HUGE, 2)),
    "a no-op that covers two offsets": append(2, 2, batch(3, 4, 2, BatchKind.NOOP)),
    "a configuration that covers two offsets": append(
        2, 2, batch(3, 4, 2, BatchKind.CONFIG, Configuration(voters=ids(1, 2)).encode())
    ),
    "a huge offset": append(2, 2, batch(HUGE, HUGE, 2)),
    "a negative offset": append(2, 2, batch(-3, -3, 2)),
}


@pytest.mark.parametrize("make", NOT_LEADING)
@pytest.mark.parametrize("why", DISJOINT)
def test_an_append_that_does_not_join_up_is_ignored_as_a_whole(make: Callable[[], Member], why: str) -> None:
    """Not even its term or its sender are believed."""
    member = make()
    before = picture(member)
    ignored = member.raft.ignored
    assert member.hear(DISJOINT[why]._replace(term=Term(3))) == []
    assert picture(member) == before
    assert member.raft.ignored == ignored + 1


GOOD = Configuration(voters=ids(1, 2, 3), learners=ids(4)).encode()
UNREADABLE = {
    "nothing": b"",
    "half a head": GOOD[:10],
    "a head alone": GOOD[:21],
    "one byte short": GOOD[:-1],
    "one id short": GOOD[:-8],
    "one byte too many": GOOD + b"\0",
    "one id too many": GOOD + bytes(8),
    "another version": b"\2" + GOOD[1:],
    "counts above what is there": GOOD[:5] + b"\xff\xff\xff\xff" + GOOD[9:],
    "a voter who is a learner too": GOOD[:-8] + GOOD[21:29],
    "noise": bytes(range(100)),
}


@pytest.mark.parametrize("why", UNREADABLE)
def test_a_configuration_that_cannot_be_read_is_ignored_with_its_append(why: str) -> None:
    member = follower()
    before = picture(member)
    broken = append(2, 2, data(3, 2), batch(4, 4, 2, BatchKind.CONFIG, UNREADABLE[why]), term=2)
    assert member.hear(broken) == []
    assert picture(member) == before
    with pytest.raises(ValueError, match=r"configuration|learner"):
        Configuration.decode(UNREADABLE[why])


# Absurd numbers.


@pytest.mark.parametrize("previous", [-2, -HUGE, HUGE])
def test_a_previous_that_is_nowhere(previous: int) -> None:
    member = follower()
    before = picture(member)
    (answer,) = member.hear(append(previous, 2, term=2))
    assert picture(member) == before
    assert answer.term == 2


@pytest.mark.parametrize("commit", [-1, -HUGE, 3, HUGE])
def test_a_heartbeat_with_an_absurd_commit_moves_nothing(commit: int) -> None:
    member = follower()
    before = picture(member)
    member.hear(heartbeat(commit, term=2))
    assert picture(member) == before


@pytest.mark.parametrize("commit", [-1, -HUGE])
def test_an_append_with_an_absurd_commit_moves_nothing(commit: int) -> None:
    member = follower()
    before = picture(member)
    member.hear(append(2, 2, term=2, commit=commit))
    assert picture(member) == before


@pytest.mark.parametrize(("offset", "term"), [(-1, 0), (-HUGE, 1), (9, 3), (9, HUGE)])
def test_a_snapshot_of_nothing_or_of_a_future_term_is_ignored(offset: int, term: int) -> None:
    member = follower()
    before = picture(member)
    assert member.hear(install(offset, term, term=2)) == []
    assert picture(member) == before


@pytest.mark.parametrize("match", [3, HUGE, -2, -HUGE])
def test_an_acknowledgement_of_what_is_not_there_commits_nothing(match: int) -> None:
    member = leader()
    commit = member.raft.log.commit
    member.hear(accepted(match, term=2, sender=3))
    assert member.raft.log.commit == commit
    assert member.raft.progress[replica_id(3)].match == -1


@pytest.mark.parametrize("match", [-HUGE, -1, 0, 1, 2, 3, HUGE])
@pytest.mark.parametrize("hint", [-HUGE, -1, 1, HUGE])
@pytest.mark.parametrize("hint_term", [-HUGE, 0, 2, HUGE])
def test_rejections_with_absurd_hints_are_survived(match: int, hint: int, hint_term: int) -> None:
    member = leader()
    for sender in (2, 3):
        member.hear(rejected(match, hint, hint_term, term=2, sender=sender))
    assert member.role() is Role.LEADER
    assert member.raft.progress[replica_id(2)].match == 2, "what was acknowledged stays acknowledged"


@pytest.mark.parametrize("number", [0, -1, -HUGE, 2, HUGE])
def test_rounds_that_never_were_confirm_nothing(number: int) -> None:
    member = leader()
    member.raft.read_index()
    member.run()
    member.hear(heard(number, term=2), heard(number, term=2, sender=3))
    assert member.reads == []


def test_an_absurd_commit_in_an_answer_is_cut_to_what_the_follower_has() -> None:
    member = leader()
    member.hear(heard(0, commit=HUGE, term=2), heard(0, commit=HUGE, term=2, sender=3))
    assert [p.commit for p in member.raft.progress.values()] == [2, -1]


# What the driver may get wrong.


def test_batches_and_snapshots_that_nobody_asked_for_are_ignored() -> None:
    for make in ROLES:
        member = make()
        before = picture(member)
        for to in (replica_id(2), replica_id(3), replica_id(9), NO_REPLICA):
            member.raft.supply(to, (data(0, 1),))
            member.raft.supply(to, ())
            member.raft.send_snapshot(to, b"state")
        member.said()
        member.run()
        assert only(Append, member.said()) == []
        assert picture(member) == before


def test_tokens_may_come_twice_and_out_of_order_and_never_go_back() -> None:
    member = Member(auto=False)
    for offset in range(3):
        member.hear(append(offset - 1, 1 if offset else 0, data(offset, 1)))
    first, second, third = (token for token, _ in member.waiting)
    for token, stable in ((second, 1), (first, 1), (second, 1), (third, 2), (first, 2)):
        member.raft.persisted(token)
        assert member.raft.log.stable == stable
        member.raft.check_invariants()


def test_compacting_what_is_not_there_is_refused_or_nothing() -> None:
    member = follower()
    for offset in (1, 2, 3, HUGE):
        with pytest.raises(BadRequest, match="applied"):
            member.raft.compact(Offset(offset))
    member.raft.compact(Offset(-1))
    member.raft.compact(Offset(-HUGE))
    assert member.raft.log.start == -1


def test_ids_must_name_a_node_and_an_incarnation() -> None:
    for node, incarnation in ((0, 1), (-1, 1), (1, 0), (1, -1), (1 << 32, 1), (1, 1 << 32)):
        with pytest.raises(ValueError, match="must be in"):
            replica_id(node, incarnation)
