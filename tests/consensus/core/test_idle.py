"""A deadline that only moves on wakes nobody; one that finds something to do does."""

from random import Random

import pytest

from quorate.consensus.core import (
    Configuration,
    HardState,
    LogStart,
    Millis,
    Offset,
    Raft,
    RaftSettings,
    Restored,
    Role,
    Term,
    new_replica,
    replica_id,
)
from quorate.consensus.core.messages import AppendAnswer, Heartbeat, VoteAnswer
from quorate.consensus.core.types import NO_OFFSET, NO_TERM, GroupId

GROUP, TERM = GroupId(7), Term(1)
ME, OTHER, THIRD = (replica_id(node) for node in (1, 2, 3))
MEMBERS = Configuration(voters=frozenset((ME, OTHER, THIRD)))
SETTINGS = RaftSettings()


def restart(*, last: int, commit: int, members: Configuration = MEMBERS) -> Raft:
    """A replica that finds batches up to `last` on its disk, and was told that `commit` is decided."""
    runs = ((Offset(0), Offset(last), TERM),) if last >= 0 else ()
    hard_state = HardState(TERM, commit=Offset(commit))
    restored = Restored(hard_state, LogStart(NO_OFFSET, NO_TERM, members), runs)
    return Raft(GROUP, ME, restored, SETTINGS, Random(0))


def test_a_follower_whose_leader_was_heard_is_not_woken_by_its_timer() -> None:
    raft = restart(last=3, commit=-1)
    raft.tick(Millis(200))
    raft.step(Heartbeat(GROUP, OTHER, ME, TERM, NO_OFFSET, 0))
    raft.take()
    # The leader is heard once more, so the timer that began above runs out with nothing to do.
    raft.tick(Millis(raft.deadline - 1))
    raft.step(Heartbeat(GROUP, OTHER, ME, TERM, NO_OFFSET, 0))
    raft.take()
    before = raft.deadline
    raft.tick(before)
    assert raft.deadline > before
    assert not raft.awake
    assert raft.role is Role.FOLLOWER


def test_a_silent_leader_wakes_its_follower() -> None:
    raft = restart(last=3, commit=-1)
    raft.tick(raft.deadline)
    assert raft.awake
    assert raft.role is Role.PRE_CANDIDATE


def test_a_replica_that_may_not_lead_is_not_woken_to_try() -> None:
    raft = Raft(GROUP, replica_id(4, 2), new_replica(), SETTINGS, Random(0))
    raft.tick(raft.deadline)
    assert not raft.awake


def test_committed_batches_found_after_a_restart_are_applied_at_the_first_deadline() -> None:
    """By a learner, say, which no campaign wakes."""
    learning = Configuration(voters=frozenset((OTHER, THIRD)), learners=frozenset((ME,)))
    raft = restart(last=5, commit=4, members=learning)
    raft.tick(raft.deadline)
    assert raft.awake
    assert raft.role is Role.FOLLOWER
    assert raft.take().apply == (Offset(0), Offset(4))


@pytest.fixture
def leader() -> Raft:
    """A leader whose followers have everything and have said so."""
    raft = restart(last=-1, commit=-1)
    raft.tick(raft.deadline)
    raft.take()
    raft.step(VoteAnswer(GROUP, OTHER, ME, Term(raft.term + 1), True, True))
    raft.persisted(raft.take().persist.token)  # type: ignore[union-attr]
    raft.step(VoteAnswer(GROUP, OTHER, ME, raft.term, False, True))
    raft.persisted(raft.take().persist.token)  # type: ignore[union-attr]
    for follower in (OTHER, THIRD):
        raft.step(AppendAnswer(GROUP, follower, ME, raft.term, raft.log.last, False, raft.log.last, NO_TERM))
    raft.take()
    assert raft.role is Role.LEADER
    return raft


def test_a_leaders_heartbeats_wake_it(leader: Raft) -> None:
    leader.tick(leader.deadline)
    assert leader.awake
    assert [type(message) for message in leader.take().send] == [Heartbeat, Heartbeat]


def test_a_leader_that_lost_its_quorum_wakes_to_say_so(leader: Raft) -> None:
    while leader.role is Role.LEADER:
        leader.take()
        assert leader.clock.now <= 3 * SETTINGS.election_ms, "the leader does not notice"
        leader.tick(leader.deadline)
    assert leader.awake
    role = leader.take().role
    assert role is not None
    assert role.role is Role.FOLLOWER
