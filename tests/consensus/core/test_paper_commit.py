"""Section 5.4.2 (only the current term is counted, Figure 8) and 5.4.3 (what is committed stays)."""

from __future__ import annotations

import pytest

from quorate.consensus.core import Millis, Offset, Role, replica_id
from quorate.consensus.core.messages import Append
from tests.consensus.core.lab import Lab, Member, accepted, append, data, heartbeat, log_of, vote


def test_5_4_2_an_older_terms_batch_is_not_committed_by_counting() -> None:
    member = Member(log=log_of(1, 2), term=2)
    member.lead(2)
    member.hear(accepted(1, term=3), accepted(1, term=3, sender=3))
    assert member.raft.log.commit == -1, "everybody has it, and still it does not count"
    member.hear(accepted(2, term=3))
    assert member.raft.log.commit == 2, "with a batch of this term everything below is committed"


@pytest.mark.parametrize(
    ("size", "matches", "commit"),
    [
        (3, {2: 2}, 2),
        (3, {2: 1}, -1),
        (4, {2: 2}, -1),
        (4, {2: 2, 3: 2}, 2),
        (5, {2: 2, 3: 1}, -1),
        (5, {2: 3, 3: 2}, 2),
        (5, {2: 3, 3: 3}, 3),
        (5, {2: 3, 3: 3, 4: 2, 5: 2}, 3),
    ],
)
def test_5_4_2_commit_is_what_a_majority_has(size: int, matches: dict[int, int], commit: int) -> None:
    member = Member(voters=range(1, size + 1), log=log_of(1, 1), term=1)
    member.lead(*range(2, size + 1))
    member.raft.propose(b"x")
    member.run()
    assert (member.raft.term_start, member.raft.log.stable) == (2, 3)
    member.hear(*[accepted(match, term=2, sender=node) for node, match in matches.items()])
    assert member.raft.log.commit == commit


def figure_8_until_c() -> Lab:
    """S1 leads term 2, S5 term 3, S1 again term 4; the batch of term 2 at offset 1 is on S1, S2, S3 (c of the figure)."""
    lab = Lab(
        (1, 2, 3, 4, 5),
        logs={1: log_of(1, 2), 2: log_of(1, 2), 3: log_of(1), 4: log_of(1), 5: log_of(1, 3)},
        terms=dict.fromkeys(range(1, 6), 3),
    )
    lab.isolate(4, 5)
    lab[1].campaign()
    lab.deliver()
    lab.deliver()
    lab.deliver()
    lab.deliver()
    assert (lab.role(1), lab[1].term) == (Role.LEADER, 4)
    # S3 gets the batch of term 2 but nothing of term 4 arrives anywhere.
    only_old = append(0, 1, data(1, 2), term=4, sender=1, to=3)
    lab.drop()
    lab.members[3].hear(only_old)
    lab[1].step(accepted(1, term=4, sender=3))
    lab[1].step(accepted(1, term=4, sender=2))
    lab.drop()
    return lab


def test_figure_8_c_a_majority_with_an_old_batch_commits_nothing() -> None:
    lab = figure_8_until_c()
    assert [lab.members[node].terms()[:2] for node in (1, 2, 3)] == [[1, 2]] * 3
    assert lab[1].log.commit == -1


def test_figure_8_d_the_old_batch_may_still_be_overwritten() -> None:
    lab = figure_8_until_c()
    lab.isolate(1)
    lab.cut = {(a, b) for a, b in lab.cut if 1 in (a, b)}
    for node in (2, 3, 4, 5):
        lab[node].tick(Millis(300))
    lab[5].campaign()
    lab.settle()
    if lab.role(5) is not Role.LEADER:  # its first campaign only learned the term
        lab[5].campaign()
        lab.settle()
    assert lab.role(5) is Role.LEADER
    assert lab.members[2].terms()[:2] == lab.members[3].terms()[:2] == [1, 3]
    lab.heal()
    lab.now = 300
    lab.advance(100)
    assert lab.members[1].terms()[:2] == [1, 3]
    for member in lab.members.values():
        assert not any(first <= 1 <= last and member.raft.term < 5 for first, last in member.applied)


def test_figure_8_e_a_batch_of_the_current_term_protects_what_is_below() -> None:
    lab = figure_8_until_c()
    lab[1].propose(b"term 4")
    lab[1].tick(Millis(60))
    lab.settle()
    assert lab[1].log.commit == lab[1].log.last
    lab.heal()
    lab.isolate(1)
    lab[5].campaign()
    lab.settle()
    lab[5].campaign()
    lab.settle()
    assert lab.role(5) is not Role.LEADER, "S2 and S3 have something newer"


def test_5_4_3_a_new_leader_has_everything_that_was_committed() -> None:
    lab = Lab((1, 2, 3, 4, 5))
    lab.elect(1)
    lab.isolate(4, 5)
    batch = lab.propose(1, b"committed")
    assert lab[1].log.commit == batch.last
    lab.heal()
    lab.isolate(1)
    for node in (2, 3, 4, 5):
        lab[node].tick(Millis(300))
    for candidate in (5, 4):
        lab[candidate].campaign()
        lab.settle()
        assert lab.role(candidate) is not Role.LEADER
    lab[3].campaign()
    lab.settle()
    assert lab.role(3) is Role.LEADER
    assert lab.members[5].disk.durable.find(Offset(batch.base)) == batch


def test_5_4_3_nothing_at_or_below_commit_is_ever_truncated() -> None:
    """A leader that contradicts what is committed is broken, or we are: the replica stops rather than forget."""
    member = Member(log=log_of(1, 1, 1), term=1, commit=1)
    member.hear(append(0, 1, data(1, 2), term=2))
    assert member.terms() == [1, 1, 1]
    assert member.role() is Role.FOLLOWER
    member.hear(append(1, 1, data(2, 2), term=2))
    assert member.terms() == [1, 1, 2], "above commit it is an ordinary conflict"


def test_5_4_2_a_single_vote_more_after_winning_changes_nothing() -> None:
    member = Member()
    member.lead(2)
    before = member.raft.log.last
    member.hear(vote(1, sender=3), vote(1, sender=2))
    assert (member.role(), member.raft.log.last) == (Role.LEADER, before)


def test_5_4_2_the_leaders_commit_reaches_followers_with_the_next_append() -> None:
    member = Member()
    member.lead(2)
    member.hear(accepted(0))
    member.raft.propose(b"x")
    member.said()
    member.run()
    (message,) = [m for m in member.said() if isinstance(m, Append) and m.to == replica_id(2)]
    assert message.commit == 0


def test_5_4_2_followers_take_commit_of_old_terms_from_the_new_leader() -> None:
    member = Member(log=log_of(1, 1), term=1)
    member.hear(append(1, 1, data(2, 2), term=2, commit=2))
    assert member.raft.log.commit == 2
    assert member.applied == [(0, 1), (2, 2)], "what is durable already, then the rest after its fsync"
    member.hear(heartbeat(commit=2, term=2))
    assert len(member.applied) == 2, "nothing is applied twice"
