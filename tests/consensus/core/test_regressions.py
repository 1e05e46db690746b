"""Bugs that other Raft engines have had, by name. None of them may come back here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quorate.consensus.core import Millis, Offset, RaftSettings, Role, replica_id
from quorate.consensus.core.messages import (
    Append,
    AppendAnswer,
    Heartbeat,
    HeartbeatAnswer,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)
from quorate.consensus.core.progress import Pace
from tests.consensus.core.lab import (
    SETTINGS,
    Lab,
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
    vote,
)


def test_delayed_append_truncating_committed_data() -> None:
    """An old append that arrives again ends before the log does. That is no reason to cut the log there."""
    member = Member()
    first = append(-1, 0, data(0, 1), commit=-1)
    member.hear(first, append(0, 1, data(1, 1), data(2, 1), commit=2))
    assert member.applied[-1][1] == 2
    (answer,) = only(AppendAnswer, member.hear(first))
    assert (answer.rejected, answer.match) == (False, 2), "the leader is told how far it is known to be right"
    assert member.terms() == [1, 1, 1]
    late = append(0, 1, data(1, 1))
    uncommitted = Member(log=log_of(1, 1, 1), term=1)
    uncommitted.hear(late)
    assert uncommitted.terms() == [1, 1, 1], "not even what is uncommitted is cut without a conflict"


def test_compacted_prev_taken_as_a_conflict() -> None:
    """The term of `previous` is unknown because it was compacted, not because it differs."""
    member = Member()
    member.hear(install(9, 1))
    for previous in (0, 5, 8):
        batches = [data(offset, 1) for offset in range(previous + 1, 12)]
        (answer,) = only(AppendAnswer, member.hear(append(previous, 1, *batches)))
        assert (answer.rejected, answer.match) == (False, 9)
    assert member.raft.log.start == 9
    member.hear(append(9, 1, data(10, 1)))
    assert member.raft.log.last == 10


def test_late_write_event_confirming_a_newer_term() -> None:
    """The write of an old term's batch comes back when the offset belongs to a newer leader's batch."""
    member = Member(auto=False)
    member.hear(append(-1, 0, data(0, 1), term=1))
    ((old, _),) = member.waiting
    member.hear(append(-1, 0, data(0, 2), term=2, sender=3))
    member.raft.persisted(old)
    member.run()
    assert member.raft.log.stable == -1

    leader = Member(auto=False)
    leader.hear(append(-1, 0, data(0, 1), term=1))
    ((old, _),) = leader.waiting
    leader.raft.campaign()
    leader.raft.step(vote(2, pre=True))
    leader.run()
    leader.raft.persisted(old)
    assert leader.role() is Role.CANDIDATE, "it does not hold the vote"
    assert leader.raft.log.stable == -1, "the write of the new term will say it again"


def test_commit_past_the_validated_index() -> None:
    """The leader has committed 4, but this append only proves that we share 0 and 1 with it."""
    member = Member(log=log_of(1, 1, 1, 1, 1), term=1)
    member.hear(append(0, 1, data(1, 1), term=3, commit=4))
    assert member.raft.log.commit == 1
    member.hear(append(1, 1, term=3, commit=4))
    assert member.raft.log.commit == 1


def test_oversized_batch_wedging_a_follower() -> None:
    """A batch above every limit is sent alone; the follower must not wait for it for ever."""
    small = RaftSettings(max_append_bytes=100, max_inflight_bytes=100, tail_bytes=100)
    lab = Lab(settings=small)
    lab.elect(1)
    lab.isolate(3)
    for payload in (b"a", b"b" * 5000, b"c", b"d" * 5000):
        lab.propose(1, payload)
    lab.heal()
    lab.advance(5 * SETTINGS.heartbeat_ms)
    assert lab.members[3].disk.durable.batches == lab.members[1].disk.durable.batches


def test_pre_vote_deadlock_after_restart() -> None:
    """The replica with the longest log has the lowest term: it must still learn the others' term and win."""
    lab = Lab(logs={1: log_of(1, 1, 1), 2: log_of(1), 3: log_of(1)}, terms={1: 1, 2: 9, 3: 9})
    lab.isolate(3)
    lab.advance(20 * SETTINGS.election_ms)
    assert lab.leaders() == [1]
    assert lab[1].term > 9


def test_pre_vote_deadlock_after_restart_of_a_candidate() -> None:
    """A candidate whose newer term was never heard restarts beside a leader that is gone."""
    lab = Lab(terms={1: 5, 2: 3, 3: 4})
    lab.advance(20 * SETTINGS.election_ms)
    assert len(lab.leaders()) == 1


def test_learner_asked_to_vote() -> None:
    """A learner is no elector: it is not asked, and what it says does not count."""
    lab = Lab()
    lab.elect(1)
    new = lab.join(4, 2)
    lab[1].change_members(ids(1, 2, 3), [new])
    lab.settle()
    lab.isolate(1)
    lab[2].tick(Millis(1000))
    asked = {message.to for message in only(VoteRequest, lab.collect())}
    assert asked == ids(1, 3)
    role = lab.role(2)
    ignored = lab[2].ignored
    lab[2].step(VoteAnswer(lab[2].group, new, replica_id(2), lab[2].term, True, True))
    assert (lab.role(2), lab[2].ignored) == (role, ignored + 1)


def test_progress_stuck_in_probe_after_a_lost_answer() -> None:
    """The probe, or its answer, is lost: the next heartbeat's answer lets the leader try again."""
    for lost in (Append, AppendAnswer):
        lab = Lab()
        lab[1].campaign()
        while lab.role(1) is not Role.LEADER:
            lab.deliver()
        lab.drop(lambda m: type(m) is Append and m.to == replica_id(3))
        if lost is AppendAnswer:
            lab.deliver()
            lab.drop(lambda m: type(m) is AppendAnswer)
        lab.settle()
        assert lab[1].progress[replica_id(3)].pace is Pace.PROBE
        lab.advance(3 * SETTINGS.heartbeat_ms)
        assert lab[1].progress[replica_id(3)].pace is Pace.REPLICATE
        assert lab[3].log.commit == 0


def test_progress_stuck_when_a_supply_never_fits() -> None:
    """Batches that were read for an older position are thrown away, and the right ones are asked for."""
    member = Member(log=log_of(1, 1, 1), term=1)
    member.lead(3)
    member.raft.step(rejected(2, 0, 1, term=2))
    assert [read.first for read in member.raft.take().log_reads] == [1]
    member.raft.supply(replica_id(2), (data(2, 1),))
    assert [read.first for read in member.raft.take().log_reads] == [1]


def test_single_node_acknowledging_before_fsync() -> None:
    member = Member(voters=[1])
    member.tick(1000)
    member.auto = False
    member.raft.propose(b"x")
    member.run()
    assert (member.raft.log.commit, member.applied[-1]) == (0, (0, 0))
    assert all(effects.commit is None or effects.commit <= 0 for effects in member.effects)
    member.crash()
    assert member.raft.log.last == 0, "and so nothing acknowledged was lost"


def test_readindex_before_a_commit_in_the_term() -> None:
    """A new leader does not know yet what is committed; its commit offset may be behind what a client has seen."""
    lab = Lab()
    lab.elect(1)
    lab[1].propose(b"acknowledged")
    lab.deliver(lambda m: type(m) is Append)
    lab.deliver(lambda m: type(m) is AppendAnswer)
    lab.drop()
    assert (lab[1].log.commit, lab[2].log.commit) == (1, 0)
    lab.isolate(1)
    lab[3].tick(Millis(300))
    lab[2].tick(Millis(700))
    while lab.role(2) is not Role.LEADER:
        lab.deliver()
    lab[2].read_index()
    lab.drop(lambda m: type(m) is Append)
    lab.settle()
    assert lab.members[2].reads == []
    lab[2].tick(Millis(760))
    lab.settle()
    assert [state.offset >= 1 for state in lab.members[2].reads] == [True]


def test_transfer_to_a_lagging_node() -> None:
    """It would lose the election, or stop the group while it catches up: it is told when it has everything."""
    lab = Lab()
    lab.elect(1)
    lab.isolate(3)
    for _ in range(3):
        lab.propose(1)
    lab[1].transfer(replica_id(3))
    assert only(TimeoutNow, lab.drop()) == []
    lab.heal()
    lab.advance(3 * SETTINGS.heartbeat_ms)
    assert lab.leaders() == [3]
    assert lab[3].log.commit >= 3


def test_heartbeat_with_commit_beyond_the_log() -> None:
    """It was meant for a longer log, perhaps ours before a crash; obeying it would commit what is not there."""
    member = Member(log=log_of(1), term=1)
    answers = member.hear(heartbeat(commit=5))
    assert member.raft.log.commit == -1
    assert len(only(HeartbeatAnswer, answers)) == 1, "still, the leader is alive"
    assert member.raft.leader == replica_id(2)


def test_heartbeat_never_names_a_commit_that_the_follower_has_not_acknowledged() -> None:
    member = Member()
    member.lead(2)
    member.hear(accepted(0))
    beats = {m.to: m for m in only(Heartbeat, member.pass_time(60))}
    assert (beats[replica_id(2)].commit, beats[replica_id(3)].commit) == (0, -1)


def test_stale_ack_counted_in_a_new_term() -> None:
    member = Member(log=log_of(1, 1), term=1)
    member.lead(2)
    member.hear(accepted(2, term=1), accepted(2, term=1, sender=3))
    assert member.raft.log.commit == -1


def test_pre_vote_of_an_earlier_term_counted_for_a_later_one() -> None:
    """A grant names the term that was asked about. Left over from an earlier campaign it says nothing about this one."""
    member = Member(voters=range(1, 6), term=4)
    member.campaign()
    member.hear(vote(5, pre=True, sender=2), vote(5, pre=True, sender=3))
    assert (member.role(), member.raft.term) == (Role.CANDIDATE, 5)
    member.campaign()
    assert member.role() is Role.PRE_CANDIDATE, "asking about term 6"
    member.hear(vote(5, pre=True, sender=4), vote(5, pre=True, sender=5))
    assert (member.role(), member.raft.term) == (Role.PRE_CANDIDATE, 5)
    member.hear(vote(6, pre=True, sender=4), vote(6, pre=True, sender=5))
    assert (member.role(), member.raft.term) == (Role.CANDIDATE, 6)


def test_double_vote_after_restart() -> None:
    member = Member()
    member.hear(ask_vote(3, sender=2))
    member.crash()
    (answer,) = only(VoteAnswer, member.hear(ask_vote(3, sender=3)))
    assert answer.granted is False


def test_read_confirmed_by_answers_to_an_earlier_round() -> None:
    member = Member()
    member.lead(2)
    member.hear(accepted(0))
    member.tick(60)
    earlier = member.raft.reads.round
    member.raft.read_index()
    member.run()
    member.hear(heard(earlier), heard(earlier, sender=3))
    assert member.reads == []


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_pipeline_stuck_after_a_lost_append_in_the_middle(lost: int) -> None:
    """A gap is rejected, the follower is probed, and everything arrives once."""
    lab = Lab()
    lab.elect(1)
    for number in range(1, 5):
        lab[1].propose(b"%d" % number)
        lab.collect()
        if number == lost:
            lab.drop(lambda m: type(m) is Append and m.to == replica_id(2))
    lab.settle()
    lab.advance(3 * SETTINGS.heartbeat_ms)
    assert lab.members[2].disk.durable.batches == lab.members[1].disk.durable.batches
    assert lab[2].log.commit == lab[1].log.commit == Offset(4)


def test_a_lost_append_that_was_compacted_meanwhile_becomes_a_snapshot() -> None:
    """The pipeline is full of what was lost, and its previous offset is gone: no append can be sent any more."""
    member = Member(settings=replace(SETTINGS, max_inflight=1))
    member.lead(2)
    member.hear(accepted(0), accepted(0, sender=3))
    for _ in range(3):
        member.raft.propose(b"x")
        member.run()
    member.hear(accepted(3, sender=3))
    progress = member.raft.progress[replica_id(2)]
    assert (progress.match, progress.inflight) == (0, 1), "the first of the three was lost on its way to 2"
    member.raft.compact(Offset(3))
    member.run()
    member.raft.step(heard(0))
    assert member.turn().snapshots == [replica_id(2)]
