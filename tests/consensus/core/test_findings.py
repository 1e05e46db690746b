"""What the core once got wrong, each in the smallest test that shows it."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.consensus.core import (
    Configuration,
    Message,
    Millis,
    Node,
    NodeId,
    Offset,
    Raft,
    Role,
    Term,
    Token,
    new_group,
    replica_id,
)
from quorate.consensus.core.messages import Beat, BeatAnswer, Claim, TimeoutNow, VoteAnswer, VoteRequest
from tests.consensus.core.lab import (
    GROUP,
    SETTINGS,
    Lab,
    Member,
    accepted,
    append,
    data,
    heard,
    heartbeat,
    ids,
    install,
    log_of,
    vote,
)
from tests.consensus.core.test_fuzz import ACTIONS, messages, survive
from tests.consensus.core.town import Town


def test_nobody_leads_before_its_own_term_is_durable() -> None:
    """A candidate that wins with the votes of others only, and forgets its term in a crash, may win that term again."""
    member = Member()
    member.campaign()
    member.auto = False
    member.hear(vote(1, pre=True, sender=2))
    member.hear(vote(1, sender=2), vote(1, sender=3))
    assert member.role() is Role.CANDIDATE


def test_one_term_never_has_two_logs() -> None:
    """The same, to the end: loss, one crash and a repeated transfer are enough for two batches at one (offset, term)."""
    lab = Lab((1, 2, 3, 4, 5))
    lab.elect(5)
    first_life = lab.members[1]
    lab[5].transfer(replica_id(1))
    for now in (60, 120, 180, 240):  # the leader is well; only its TimeoutNow is slow
        for node in range(1, 6):
            lab[node].tick(Millis(now))
        lab.deliver(lambda m: type(m) is not TimeoutNow)
        lab.deliver(lambda m: type(m) is not TimeoutNow)
    first_life.auto = False
    lab.deliver(lambda m: type(m) is TimeoutNow)
    lab.drop(lambda m: m.to == replica_id(5))
    lab.deliver(lambda m: type(m) is VoteRequest)
    lab.deliver(lambda m: type(m) is VoteAnswer)
    if lab.role(1) is Role.LEADER:
        lab[1].propose(b"first")
        for _ in range(3):
            lab.deliver(lambda m: replica_id(2) in (m.to, m.sender))
    lab.drop()
    lab.crash(1)  # nothing of term 2 was durable
    first_life.auto = True
    lab[5].tick(Millis(310))  # the transfer is given up
    lab.deliver(lambda m: m.to == replica_id(1))
    lab.deliver(lambda m: m.sender == replica_id(1))
    lab.drop()
    lab[5].transfer(replica_id(1))
    lab.deliver(lambda m: type(m) is TimeoutNow)
    lab.drop(lambda m: m.to in (replica_id(2), replica_id(5)))
    lab.settle()
    if lab.role(1) is Role.LEADER:
        lab[1].propose(b"second")
    lab.settle()
    mine, other = (lab.members[node].disk.written.find(Offset(2)) for node in (1, 2))
    assert mine is None or other is None or mine.term != other.term or mine.data == other.data


def test_a_restarted_follower_of_a_quiet_leader_learns_what_is_committed() -> None:
    """Its commit offset was only a hint and is lost; the leader thinks that it knows, and its node's beats do not say it."""
    town = Town()
    town.lead(1)
    town.rafts[1].propose(b"x")
    town.advance(500)
    assert town.rafts[2].log.commit == town.rafts[1].log.commit == 1
    town.restart(2)
    town.advance(2000)
    assert town.rafts[1].role is Role.LEADER
    assert town.rafts[2].log.commit == 1


@pytest.mark.parametrize("message", [heartbeat(), append(0, 1), append(-1, 0, data(0, 1)), install(5, 1)])
def test_a_leader_ignores_another_leader_of_its_own_term(message: Message) -> None:
    """One term has one leader; a claim of another is ignored, as hear_claim does, and deposes nobody."""
    member = Member()
    member.lead(2)
    assert member.raft.term == 1
    member.hear(message)
    assert member.role() is Role.LEADER


def test_a_batch_that_reaches_past_its_twin_is_ignored() -> None:
    """Only bases are compared: a batch of the same base and term that ends elsewhere is acknowledged, and committed."""
    member = Member(log=[data(0, 1)], term=1)
    answers = member.hear(append(-1, 0, data(0, 1, count=6), commit=5))
    assert answers == []
    assert member.raft.log.commit == -1


def test_batches_that_overlap_the_log_do_not_raise() -> None:
    member = Member(log=[data(0, 1, count=6)], term=1)
    member.hear(append(-1, 0, data(0, 1, count=3), data(3, 1, count=5), data(8, 1)))
    assert member.raft.log.last == 5


def test_a_previous_inside_a_batch_truncates_nothing() -> None:
    member = Member(term=1)
    member.hear(append(-1, 0, data(0, 1, count=6)))
    member.hear(append(2, 1, data(3, 2), term=2, sender=3))
    assert member.raft.log.last == 5


def test_an_answer_to_a_round_that_never_began_confirms_no_read() -> None:
    member = Member()
    member.lead(2)
    member.hear(accepted(0))
    member.raft.read_index()
    member.run()
    member.hear(heard(member.raft.reads.round + 5))
    assert member.reads == []


def test_a_match_inside_a_batch_commits_nothing() -> None:
    member = Member()
    member.lead(2)
    member.raft.propose(b"x", count=10)
    member.run()
    member.hear(accepted(4))
    assert member.raft.log.commit in (-1, 0)


def test_decode_accepts_only_what_encode_writes() -> None:
    two = Configuration(voters=ids(1, 2)).encode()
    twice_one = two[:-8] + two[-16:-8]
    with pytest.raises(ValueError, match="configuration"):
        Configuration.decode(twice_one)


def test_a_token_that_was_never_taken_is_ignored() -> None:
    member = Member()
    member.raft.persisted(Token(99, Term(0), Offset(-1), Term(0)))
    member.raft.check_invariants()


def test_a_stopped_replica_writes_nothing_more() -> None:
    member = Member(log=log_of(1, 1), term=1, commit=1)
    member.run()
    member.raft.stop("the disk failed")
    member.raft.compact(Offset(1))
    assert member.raft.take().persist is None


def test_a_beat_that_no_longer_claims_a_group_is_no_sign_of_its_leader() -> None:
    """The signal is refreshed before the claims are read: a leader that was laid down is vouched for once more."""
    node = Node(NodeId(2), boot=1, beat_ms=50)
    raft = node.add(
        Raft(GROUP, replica_id(2), new_group(Configuration(voters=ids(1, 2, 3))), SETTINGS, Random(1), node.clock)
    )
    node.step(Beat(NodeId(1), NodeId(2), 1, 1, 1, (Claim(GROUP, replica_id(1), replica_id(2), Term(1)),)))
    node.tick(Millis(200))
    node.step(Beat(NodeId(1), NodeId(2), 1, 2, 2, ()))
    assert raft.heard_at == 0


def test_a_late_answer_to_a_beat_does_not_undo_a_newer_one() -> None:
    """Answers carry the number of their beat, but nobody looks at it."""
    town = Town()
    town.lead(1)
    town.advance(500)
    node, version = town.nodes[1], 1
    progress = town.rafts[1].progress[replica_id(2)]
    node.step(BeatAnswer(NodeId(2), NodeId(1), 1, 100, version, True, ((GROUP, Term(0)),), 1))
    refused = progress.signal
    node.step(BeatAnswer(NodeId(2), NodeId(1), 1, 99, version, True, (), 1))
    assert refused is progress.signal is None


def test_a_node_cannot_claim_for_a_replica_of_another_node() -> None:
    node = Node(NodeId(2), boot=1, beat_ms=50)
    raft = node.add(
        Raft(GROUP, replica_id(2), new_group(Configuration(voters=ids(1, 2, 3))), SETTINGS, Random(1), node.clock)
    )
    node.step(Beat(NodeId(1), NodeId(2), 1, 1, 1, (Claim(GROUP, replica_id(3), replica_id(2), Term(1)),)))
    assert raft.cover is None


def test_nobody_follows_itself() -> None:
    member = Member(term=1)
    member.hear(heartbeat(sender=1))
    assert member.raft.leader != member.id


def test_a_snapshot_whose_term_falls_is_ignored() -> None:
    """Terms never fall along a log: offset 9 cannot be of term 1 when offset 1 is committed in term 3."""
    member = Member(log=log_of(3, 3), term=3, commit=1)
    member.hear(install(9, 1, term=4))
    assert member.raft.log.last == 1


@settings(max_examples=1000)
@given(st.sampled_from(list(Role)), st.lists(st.tuples(messages(st.integers(0, 4)), ACTIONS), max_size=6), st.booleans())
def test_random_messages_with_batches_of_any_length_break_nothing(
    role: Role, steps: list[tuple[Message, int]], auto: bool
) -> None:
    survive(role, steps, auto)
