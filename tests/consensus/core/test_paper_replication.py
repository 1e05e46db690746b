"""Section 5.3: replication and follower consistency, with Figure 7 and all six of its followers."""

from __future__ import annotations

import pytest

from quorate.consensus.core import Batch, BatchKind, Offset, Overloaded, RaftSettings, Role, replica_id
from quorate.consensus.core.messages import Append, AppendAnswer, Heartbeat
from quorate.consensus.core.progress import Pace
from tests.consensus.core.lab import (
    SETTINGS,
    Lab,
    Member,
    accepted,
    append,
    data,
    heard,
    heartbeat,
    log_of,
    only,
    rejected,
)

# Figure 7. The leader of term 8 has the first log; the others are what its followers may have.
FIGURE_7_LEADER = (1, 1, 1, 4, 4, 5, 5, 6, 6, 6)
FIGURE_7 = {
    "a": (1, 1, 1, 4, 4, 5, 5, 6, 6),
    "b": (1, 1, 1, 4),
    "c": (1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6),
    "d": (1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7),
    "e": (1, 1, 1, 4, 4, 4, 4),
    "f": (1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3),
}


@pytest.mark.parametrize("name", FIGURE_7)
def test_figure_7_every_follower_becomes_equal_to_the_leader(name: str) -> None:
    lab = Lab(logs={1: log_of(*FIGURE_7_LEADER), 2: log_of(*FIGURE_7[name]), 3: log_of(1)}, terms={1: 7, 2: 7, 3: 7})
    leader = lab.members[1]
    lab.net.extend(leader.lead(3))
    assert leader.raft.term == 8
    lab.settle()
    assert lab.members[2].terms() == [*FIGURE_7_LEADER, 8]
    assert lab.members[2].disk.durable.batches == leader.disk.durable.batches
    assert lab[2].log.commit == lab[1].log.commit == 10


@pytest.mark.parametrize("name", FIGURE_7)
def test_figure_7_finding_where_the_logs_agree_takes_a_round_trip_per_term_at_most(name: str) -> None:
    """The hints by term (end of section 5.3): not one message per offset."""
    lab = Lab(logs={1: log_of(*FIGURE_7_LEADER), 2: log_of(*FIGURE_7[name]), 3: log_of(1)}, terms={1: 7, 2: 7, 3: 7})
    lab.net.extend(lab.members[1].lead(3))
    probes = 0
    while lab.collect():
        probes += len([m for m in only(AppendAnswer, lab.net) if m.rejected and m.sender == replica_id(2)])
        lab.deliver()
    assert 1 <= probes <= 3 or name in "cd", "only c and d hold the whole of the leader's log"
    assert lab.members[2].terms() == [*FIGURE_7_LEADER, 8]


def test_5_3_the_leader_appends_replicates_commits_and_tells() -> None:
    lab = Lab()
    lab.elect(1)
    batch = lab.propose(1, b"hello", count=3)
    assert (batch.base, batch.last, batch.term) == (1, 3, 1)
    for node in (1, 2, 3):
        assert lab[node].log.commit == 3
        assert lab.members[node].disk.durable.find(Offset(2)) == batch
        assert lab.members[node].applied[-1][1] == 3


def test_5_3_applied_ranges_follow_each_other() -> None:
    lab = Lab()
    lab.elect(1)
    for count in (1, 5, 2):
        lab.propose(1, b"x", count)
    for member in lab.members.values():
        assert member.applied[0][0] == 0
        assert member.applied[-1][1] == 8
        assert [first for first, _ in member.applied[1:]] == [last + 1 for _, last in member.applied[:-1]]


def test_5_3_a_minority_of_slow_followers_delays_nobody() -> None:
    lab = Lab((1, 2, 3, 4, 5))
    lab.elect(1)
    lab.isolate(4, 5)
    assert lab.propose(1).last == lab[1].log.commit == lab[2].log.commit


def test_5_3_without_a_majority_nothing_is_committed() -> None:
    lab = Lab((1, 2, 3, 4, 5))
    lab.elect(1)
    lab.isolate(1, 2)
    assert lab.propose(1).last == 1
    assert lab[1].log.commit == 0


@pytest.mark.parametrize(
    ("log", "previous", "previous_term", "fits"),
    [
        ((), -1, 0, True),
        ((), 0, 1, False),
        ((1,), -1, 0, True),
        ((1,), 0, 1, True),
        ((1,), 0, 2, False),
        ((1,), 1, 1, False),
        ((1, 2), 0, 2, False),
        ((1, 2), 1, 2, True),
        ((1, 2, 2), 1, 1, False),
    ],
)
def test_5_3_an_append_is_refused_unless_the_previous_offset_has_the_previous_term(
    log: tuple[int, ...], previous: int, previous_term: int, fits: bool
) -> None:
    member = Member(log=log_of(*log), term=2)
    (answer,) = only(AppendAnswer, member.hear(append(previous, previous_term, term=2)))
    assert answer.rejected is not fits
    assert answer.match == previous
    assert member.terms() == list(log), "an empty append never changes a log"


@pytest.mark.parametrize(
    ("batches", "result"),
    [
        ([], (1, 1, 2)),
        ([data(1, 1)], (1, 1, 2)),
        ([data(1, 1), data(2, 2)], (1, 1, 2)),
        ([data(1, 1), data(2, 2), data(3, 3)], (1, 1, 2, 3)),
        ([data(1, 3)], (1, 3)),
        ([data(1, 1), data(2, 3)], (1, 1, 3)),
        ([data(1, 1), data(2, 3), data(3, 3)], (1, 1, 3, 3)),
    ],
)
def test_5_3_matching_batches_are_kept_and_only_a_conflict_truncates(batches: list[Batch], result: tuple[int, ...]) -> None:
    member = Member(log=log_of(1, 1, 2), term=3)
    (answer,) = only(AppendAnswer, member.hear(append(0, 1, *batches, term=3)))
    assert member.terms() == list(result)
    assert (answer.match, answer.rejected) == (batches[-1].last if batches else 0, False)
    assert [batch.term for batch in member.disk.durable.batches] == list(result)


def test_5_3_the_hint_skips_the_whole_conflicting_term() -> None:
    """The follower names the last offset whose term the leader's log can hold there."""
    member = Member(log=log_of(1, 1, 4, 4, 4), term=5)
    (answer,) = only(AppendAnswer, member.hear(append(4, 3, term=5)))
    assert (answer.rejected, answer.match, answer.hint, answer.hint_term) == (True, 4, 1, 1)


def test_5_3_the_hint_of_a_short_log_is_its_end() -> None:
    member = Member(log=log_of(1, 1), term=5)
    (answer,) = only(AppendAnswer, member.hear(append(90, 5, term=5)))
    assert (answer.hint, answer.hint_term) == (1, 1)


def test_5_3_the_leader_goes_back_over_terms_that_the_follower_lacks() -> None:
    member = Member(log=log_of(1, 1, 2, 2, 2, 5), term=5)
    member.lead(3)
    (probe,) = only(Append, member.hear(rejected(5, 4, 1, term=6)))
    assert (probe.previous, probe.previous_term) == (1, 1), "all of term 2 is skipped at once"


def test_5_3_a_commit_offset_is_taken_from_appends_but_never_past_what_they_checked() -> None:
    member = Member(log=log_of(1, 1, 1), term=1)
    member.hear(append(0, 1, data(1, 1), term=1, commit=9))
    assert member.raft.log.commit == 1


def test_5_3_duplicated_and_reordered_appends_end_in_the_same_log() -> None:
    first, second, third = append(-1, 0, data(0, 1)), append(0, 1, data(1, 1)), append(1, 1, data(2, 1), commit=1)
    member = Member()
    for message in (first, third, second, first, third, second, first):
        member.hear(message)
    assert member.terms() == [1, 1, 1]
    assert member.raft.log.commit == 1


def test_5_3_heartbeats_tell_the_commit_offset() -> None:
    member = Member()
    member.hear(append(-1, 0, data(0, 1), data(1, 1)))
    assert member.raft.log.commit == -1
    member.hear(heartbeat(commit=0))
    assert member.raft.log.commit == 0
    assert member.applied == [(0, 0)]


def test_5_3_a_commit_offset_never_falls() -> None:
    member = Member()
    member.hear(append(-1, 0, data(0, 1), data(1, 1), commit=1))
    member.hear(heartbeat(commit=0), append(1, 1, commit=0))
    assert member.raft.log.commit == 1


# Probe, replicate, and the bounds of the pipeline.


def leader_of(settings: RaftSettings = SETTINGS, acked: bool = True) -> Member:
    """A leader of nodes 2 and 3 whose follower 2 has the no-op."""
    member = Member(settings=settings)
    member.lead(2)
    if acked:
        member.hear(accepted(0))
    return member


def to_2(messages: list[Append]) -> list[Append]:
    return [message for message in messages if message.to == replica_id(2)]


def proposed(member: Member, *payloads: bytes) -> list[Append]:
    """What goes to follower 2 when these are proposed in one turn each."""
    member.said()
    for payload in payloads:
        member.raft.propose(payload)
        member.run()
    return to_2(only(Append, member.said()))


def test_a_probe_is_sent_once_until_there_is_a_sign() -> None:
    member = leader_of(acked=False)
    assert member.raft.progress[replica_id(2)].pace is Pace.PROBE
    assert proposed(member, b"a", b"b") == []
    assert len(to_2(only(Append, member.hear(accepted(0))))) == 1, "both batches in one append"


def test_appends_are_pipelined_without_waiting_for_answers() -> None:
    member = leader_of()
    sent = proposed(member, b"a", b"b", b"c")
    assert [(m.previous, [b.base for b in m.batches]) for m in sent] == [(0, [1]), (1, [2]), (2, [3])]


def test_batches_of_one_turn_travel_in_one_append() -> None:
    member = leader_of()
    for payload in (b"a", b"b", b"c"):
        member.raft.propose(payload)
    member.said()
    member.run()
    (message,) = to_2(only(Append, member.said()))
    assert [bytes(batch.data) for batch in message.batches] == [b"a", b"b", b"c"]


def test_the_pipeline_is_bounded_in_messages() -> None:
    member = leader_of(RaftSettings(max_inflight=3))
    assert len(proposed(member, *[b"x"] * 10)) == 3
    freed = to_2(only(Append, member.hear(accepted(1))))
    assert len(freed) == 1
    assert [batch.base for batch in freed[0].batches] == list(range(4, 11)), "what waited goes together"


def test_the_pipeline_is_bounded_in_bytes() -> None:
    member = leader_of(RaftSettings(max_inflight_bytes=1000))
    sent = proposed(member, *[b"x" * 400] * 6)
    assert len(sent) == 3, "the bound is passed by at most one append"
    assert member.raft.progress[replica_id(2)].inflight_bytes >= 1000
    assert to_2(only(Append, member.hear(accepted(1)))) != []


def test_an_append_holds_at_most_its_bytes_but_always_one_batch() -> None:
    member = leader_of(RaftSettings(max_append_bytes=300))
    for payload in (b"a" * 100, b"b" * 100, b"c" * 100, b"d" * 5000, b"e"):
        member.raft.propose(payload)
    member.said()
    member.run()
    sizes = [[len(batch.data) for batch in m.batches] for m in to_2(only(Append, member.said()))]
    assert sizes == [[100, 100], [100], [5000], [1]]


def test_a_batch_larger_than_every_bound_is_still_sent_and_committed() -> None:
    lab = Lab(
        settings=RaftSettings(
            commit_news_ms=0, max_append_bytes=10, max_inflight_bytes=10, max_uncommitted_bytes=10, tail_bytes=10
        )
    )
    lab.elect(1)
    assert lab.propose(1, b"x" * 10_000).last == lab[1].log.commit == lab[3].log.commit


def test_a_lost_append_is_noticed_by_the_next_heartbeat() -> None:
    lab = Lab()
    lab.elect(1)
    lab[1].propose(b"lost")
    lab.drop(lambda m: type(m) is Append and m.to == replica_id(3))
    lab.settle()
    assert lab[3].log.last == 0
    lab.advance(2 * SETTINGS.heartbeat_ms)
    assert lab[3].log.last == lab[3].log.commit == 1


def test_batches_that_left_memory_are_read_from_the_disk_and_supplied() -> None:
    lab = Lab(settings=RaftSettings(commit_news_ms=0, tail_bytes=64))
    lab.elect(1)
    lab.isolate(3)
    for number in range(10):
        lab.propose(1, b"%d" % number)
    assert lab[1].log.slice(Offset(2), 1000) is None, "no longer in memory"
    lab.heal()
    lab.advance(4 * SETTINGS.heartbeat_ms)
    assert lab.members[3].disk.durable.batches == lab.members[1].disk.durable.batches


def test_a_read_that_failed_is_asked_for_again_after_a_sign_of_the_follower() -> None:
    member = Member(log=log_of(1, 1, 1), term=1)
    member.lead(3)
    member.raft.step(rejected(2, 0, 1, term=2))
    wanted = member.raft.take().log_reads
    assert [(read.to, read.first) for read in wanted] == [(replica_id(2), 1)]
    member.raft.supply(replica_id(2), ())
    assert member.raft.take().log_reads == []
    member.raft.step(heard(0, term=2))
    assert [read.first for read in member.raft.take().log_reads] == [0]


def test_supplied_batches_that_are_not_this_log_are_not_sent() -> None:
    member = Member(log=log_of(1, 1, 1), term=1)
    member.lead(3)
    member.raft.step(rejected(2, 0, 1, term=2))
    member.raft.take()
    member.raft.supply(replica_id(2), (data(1, 2),))
    assert to_2(only(Append, member.raft.take().send)) == []


def test_a_commit_is_told_at_once_when_nothing_else_carries_it() -> None:
    member = leader_of()
    (news,) = [m for m in only(Heartbeat, member.hear(accepted(0), accepted(0, sender=3))) if m.to == replica_id(3)]
    assert (news.commit, news.round) == (0, 0)


def test_the_news_of_a_commit_waits_a_little_for_an_append_to_carry_it() -> None:
    member = leader_of(RaftSettings(commit_news_ms=5))
    assert not only(Heartbeat, member.hear(accepted(0), accepted(0, sender=3))), "nobody is told by itself at once"
    member.raft.propose(b"next")
    member.run()
    assert {m.commit for m in only(Append, member.said())} == {0}, "the next append tells"
    assert not only(Heartbeat, member.pass_time(5)), "so there is nothing left to tell"


def test_the_news_of_a_commit_is_told_when_no_append_came() -> None:
    member = leader_of(RaftSettings(commit_news_ms=5))
    member.hear(accepted(0), accepted(0, sender=3))
    assert not only(Heartbeat, member.pass_time(4))
    news = only(Heartbeat, member.pass_time(1))
    assert {(m.to, m.commit, m.round) for m in news} == {(replica_id(2), 0, 0), (replica_id(3), 0, 0)}
    assert not only(Heartbeat, member.pass_time(5)), "once"


def test_uncommitted_bytes_are_bounded_and_freed_by_commits() -> None:
    member = leader_of(RaftSettings(max_uncommitted_bytes=1000))
    member.raft.propose(b"x" * 900)
    last = member.raft.log.last
    with pytest.raises(Overloaded, match="wait for a quorum"):
        member.raft.propose(b"x" * 200)
    assert member.raft.log.last == last, "nothing happened"
    member.run()
    member.hear(accepted(1))
    assert member.raft.uncommitted_bytes == 0
    member.raft.propose(b"x" * 5000)
    with pytest.raises(Overloaded):
        member.raft.propose(b"")


def test_a_new_leader_begins_with_a_no_op_of_its_term() -> None:
    member = Member(log=log_of(1, 1), term=1)
    member.lead(2)
    batch = member.disk.durable.find(Offset(2))
    assert batch is not None
    assert (batch.kind, batch.term, batch.base, batch.last) == (BatchKind.NOOP, 2, 2, 2)
    assert member.role() is Role.LEADER
