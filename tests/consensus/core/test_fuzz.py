"""Random messages with random fields, into replicas of every role: nothing raises, and no invariant breaks.

Fields are small numbers around the truth, and now and then negative or huge ones. What is sent may contradict itself, the
log and everything that was said before: whoever sends it, a replica must survive it in one piece.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.consensus.core import (
    Batch,
    BatchKind,
    Configuration,
    Message,
    Millis,
    Offset,
    Refused,
    ReplicaId,
    Role,
    Snapshot,
    Term,
    replica_id,
)
from quorate.consensus.core.messages import (
    Append,
    AppendAnswer,
    Heartbeat,
    HeartbeatAnswer,
    InstallSnapshot,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)
from quorate.consensus.core.types import LogStart
from tests.consensus.core.lab import GROUP, Member, config, ids, log_of, timeout_now, vote

HUGE = 1 << 60
ABSURD = st.sampled_from([-HUGE, -2, HUGE])
OFFSETS = st.one_of(st.integers(-1, 8), ABSURD).map(Offset)
TERMS = st.one_of(st.integers(2, 3), st.integers(0, 5), ABSURD).map(Term)
PLACES = st.one_of(st.sampled_from([(0, 1), (1, 1), (2, 1), (3, 2), (4, 2)]), st.tuples(OFFSETS, TERMS))
"""Where an append joins: mostly where the log of `in_role` can have something."""
NUMBERS = st.one_of(st.integers(0, 5), ABSURD)
SENDERS = st.sampled_from([replica_id(2), replica_id(3), replica_id(4), replica_id(2, 2), ReplicaId(0)])
TO = st.just(replica_id(1))
CONFIGURATIONS = st.sampled_from(
    [
        Configuration(voters=ids(1, 2, 3)),
        Configuration(voters=ids(2, 3), outgoing=ids(1, 2, 3), learners_next=ids(1)),
        Configuration(voters=ids(2, 3), learners=ids(1)),
        Configuration(voters=ids(1)),
        Configuration(voters=frozenset()),
    ]
)


@st.composite
def batches(draw: st.DrawFn, count: st.SearchStrategy[int]) -> Batch:
    """A batch anywhere, of any kind; now and then one that ends before it begins."""
    base, kind = draw(OFFSETS), draw(st.sampled_from(list(BatchKind)))
    data = draw(CONFIGURATIONS).encode() if kind is BatchKind.CONFIG else draw(st.binary(max_size=4))
    if draw(st.integers(0, 9)) == 0:
        data = data[:-1]
    return Batch(base, Offset(base + draw(count) - 1), draw(TERMS), kind, data)


@st.composite
def appends(draw: st.DrawFn, count: st.SearchStrategy[int]) -> Append:
    """Mostly batches that follow each other, sometimes any batches at all."""
    previous, previous_term = draw(PLACES)
    parts = draw(st.lists(batches(count), max_size=3))
    if draw(st.integers(0, 4)):
        base, term, joined = previous + 1, max(0, min(previous_term, 5)), []
        for part in parts:
            last = base if part.kind is not BatchKind.DATA else base + max(1, draw(count)) - 1
            term += draw(st.sampled_from([0, 0, 1, 2]))
            joined.append(Batch(Offset(base), Offset(last), Term(term), part.kind, part.data))
            base = last + 1
        parts = joined
    return Append(
        GROUP, draw(SENDERS), draw(TO), draw(TERMS), Offset(previous), Term(previous_term), draw(OFFSETS), tuple(parts)
    )


def messages(count: st.SearchStrategy[int]) -> st.SearchStrategy[Message]:
    group, flag = st.just(GROUP), st.booleans()
    starts = PLACES.flatmap(
        lambda place: st.builds(LogStart, st.just(Offset(place[0])), st.just(Term(place[1])), CONFIGURATIONS)
    )
    snapshots = st.builds(Snapshot, starts, st.binary(max_size=4))
    return st.one_of(
        appends(count),
        st.builds(AppendAnswer, group, SENDERS, TO, TERMS, OFFSETS, flag, OFFSETS, TERMS),
        st.builds(Heartbeat, group, SENDERS, TO, TERMS, OFFSETS, NUMBERS),
        st.builds(HeartbeatAnswer, group, SENDERS, TO, TERMS, OFFSETS, NUMBERS),
        st.builds(VoteRequest, group, SENDERS, TO, TERMS, OFFSETS, TERMS, flag, flag),
        st.builds(VoteAnswer, group, SENDERS, TO, TERMS, flag, flag),
        st.builds(InstallSnapshot, group, SENDERS, TO, TERMS, snapshots),
        st.builds(TimeoutNow, group, SENDERS, TO, TERMS),
    )


def in_role(role: Role) -> Member:
    """A replica of three in this role, in term 2 (a pre-candidate in term 1), with a log of three offsets or four."""
    member = Member(log=[*log_of(1, 1), config(2, 1, Configuration(voters=ids(1, 2, 3), learners=ids(4)))], term=1, commit=0)
    if role is not Role.FOLLOWER:
        member.campaign()
    if role in (Role.CANDIDATE, Role.LEADER):
        member.hear(vote(2, pre=True))
    if role is Role.LEADER:
        member.hear(vote(2))
        member.raft.propose(b"x")
        member.raft.read_index()
    if role is Role.STOPPED:
        member.raft.stop("over")
    if role is Role.FOLLOWER:
        member.hear(timeout_now(term=2))
    member.run()
    return member


def poke(member: Member, action: int) -> None:
    """Something else that a driver does between messages."""
    try:
        if action == 0:
            member.raft.propose(b"y")
        elif action == 1:
            member.raft.read_index()
        elif action == 2:
            member.raft.tick(Millis(member.clock.now + 40))
        elif action == 3:
            member.raft.tick(Millis(member.clock.now + 700))
        elif action == 4:
            member.raft.transfer(replica_id(2))
        elif action == 5:
            member.raft.change_members(ids(1, 2))
        elif action == 6 and member.waiting:
            member.sync()
        elif action == 7:
            member.raft.campaign()
    except Refused:
        pass


ACTIONS = st.integers(0, 9)


def survive(role: Role, steps: list[tuple[Message, int]], auto: bool) -> None:
    member = in_role(role)
    member.auto = auto
    for message, action in steps:
        before = (member.raft.term, member.raft.log.commit, member.raft.vote)
        member.raft.step(message)
        member.raft.check_invariants()
        assert member.raft.term >= before[0]
        assert member.raft.log.commit >= before[1]
        assert member.raft.term > before[0] or before[2] in (0, member.raft.vote), "a vote is never taken back"
        poke(member, action)
        member.raft.check_invariants()
        if action != 8:
            member.run()


@settings(max_examples=300)
@given(st.sampled_from(list(Role)), st.lists(st.tuples(messages(st.integers(0, 1)), ACTIONS), max_size=6), st.booleans())
def test_random_messages_break_nothing(role: Role, steps: list[tuple[Message, int]], auto: bool) -> None:
    survive(role, steps, auto)
