"""Section 6 and dissertation 4: joint consensus, learners, the automatic leave, leaders that go, rollback."""

from __future__ import annotations

import pytest

from quorate.consensus.core import (
    BadRequest,
    BatchKind,
    ChangeInProgress,
    Configuration,
    Millis,
    Offset,
    Role,
    new_group,
    replica_id,
)
from quorate.consensus.core.messages import Append, Heartbeat, TimeoutNow, VoteRequest
from quorate.consensus.core.progress import Pace
from tests.consensus.core.lab import (
    Lab,
    Member,
    accepted,
    append,
    config,
    data,
    ids,
    log_of,
    only,
    prepared,
    vote,
)


def joint(voters: tuple[int, ...], outgoing: tuple[int, ...]) -> Configuration:
    return Configuration(voters=ids(*voters), outgoing=ids(*outgoing))


def test_6_a_change_takes_effect_when_it_is_appended_not_when_it_is_committed() -> None:
    member = Member()
    member.lead(2)
    member.hear(accepted(0))
    member.raft.change_members(ids(1, 2))
    assert member.raft.configuration == joint((1, 2), (1, 2, 3))
    follower = Member()
    follower.hear(append(-1, 0, config(0, 1, joint((1, 2), (1, 2, 3)))))
    assert follower.raft.configuration.joint
    assert follower.raft.log.commit == -1


def test_6_a_change_goes_through_both_steps_by_itself() -> None:
    lab = Lab((1, 2, 3, 4, 5))
    lab.elect(1)
    lab[1].change_members(ids(1, 2, 3))
    lab.settle()
    kinds = [batch.kind for batch in lab.members[1].disk.durable.batches]
    assert kinds == [BatchKind.NOOP, BatchKind.CONFIG, BatchKind.CONFIG]
    assert lab[1].configuration == lab[3].configuration == Configuration(voters=ids(1, 2, 3))
    assert lab[1].log.commit == 2


def test_6_joint_decisions_need_a_majority_of_both_sets() -> None:
    member = Member(log=[config(0, 1, joint((1, 2, 3), (1, 4, 5)))], term=1)
    member.campaign()
    member.hear(vote(2, pre=True, sender=2), vote(2, pre=True, sender=3))
    assert member.role() is Role.PRE_CANDIDATE, "the outgoing set has not agreed"
    member.hear(vote(2, pre=True, sender=4))
    assert member.role() is Role.CANDIDATE
    member.hear(vote(2, sender=4), vote(2, sender=5))
    assert member.role() is Role.CANDIDATE, "the incoming set has not agreed"
    member.hear(vote(2, sender=2))
    assert member.role() is Role.LEADER
    member.hear(accepted(1, term=2, sender=2), accepted(1, term=2, sender=3))
    assert member.raft.log.commit == -1
    member.hear(accepted(1, term=2, sender=5))
    assert member.raft.log.commit >= 1


def test_6_candidates_ask_every_elector_of_both_sets_and_no_learner() -> None:
    mixed = Configuration(voters=ids(1, 2, 3), outgoing=ids(1, 4, 5), learners=ids(6))
    member = Member(log=[config(0, 1, mixed)], term=1)
    asked = {request.to for request in only(VoteRequest, member.campaign())}
    assert asked == ids(2, 3, 4, 5)


def test_6_a_new_leader_finishes_the_change_that_it_finds() -> None:
    lab = Lab((1, 2, 3, 4, 5))
    lab.elect(1)
    lab[1].change_members(ids(1, 2, 3))
    lab.deliver(lambda m: isinstance(m, Append))
    lab.drop()
    assert lab[2].configuration.joint
    lab.isolate(1)
    for node in (2, 3, 4, 5):
        lab[node].tick(Millis(300))
    lab[2].campaign()
    lab.settle()
    assert lab.role(2) is Role.LEADER
    lab.heal()
    lab.now = 300
    lab.advance(200)
    assert lab[2].configuration == Configuration(voters=ids(1, 2, 3))
    assert lab[2].log.commit == lab[2].log.last


def test_6_a_truncated_change_is_rolled_back() -> None:
    """A configuration counts as soon as it is in the log, and no longer than that."""
    old = Configuration(voters=ids(1, 2, 3))
    member = Member(log=log_of(1), term=1)
    member.hear(append(0, 1, config(1, 1, joint((1, 2), (1, 2, 3))), config(2, 1, Configuration(voters=ids(1, 2)))))
    assert member.raft.configuration == Configuration(voters=ids(1, 2))
    member.hear(append(1, 1, data(2, 2), term=2, sender=3))
    assert member.raft.configuration == joint((1, 2), (1, 2, 3))
    member.hear(append(0, 1, data(1, 3), term=3, sender=3))
    assert member.raft.configuration == old
    member.crash()
    assert member.raft.configuration == old


def test_6_a_configuration_survives_a_restart() -> None:
    member = Member()
    member.hear(append(-1, 0, config(0, 1, joint((1, 2), (1, 2, 3)))))
    member.crash()
    assert member.raft.configuration == joint((1, 2), (1, 2, 3))


def test_6_a_leader_that_is_not_in_the_new_set_leads_until_the_change_is_committed() -> None:
    lab = Lab()
    lab.elect(1)
    lab[1].change_members(ids(2, 3))
    lab.collect()
    assert lab.role(1) is Role.LEADER
    lab.settle()
    assert lab.role(1) is not Role.LEADER
    (leader,) = lab.leaders()
    assert leader in (2, 3), "the best of the others was told to go on at once"
    assert lab[leader].configuration == Configuration(voters=ids(2, 3))
    assert lab.propose(leader).last == lab[leader].log.commit


def test_6_a_leader_that_goes_does_not_count_itself() -> None:
    member = Member(log=[config(0, 1, Configuration(voters=ids(2, 3), outgoing=ids(1, 2, 3)))], term=1)
    member.lead(2, 3)
    member.hear(accepted(1, term=2, sender=2))
    assert member.raft.log.commit == -1, "the incoming set is 2 and 3: one of them is no majority"
    member.hear(accepted(1, term=2, sender=3))
    assert member.raft.log.commit == 1


def test_6_a_leader_that_goes_tells_what_is_committed_and_names_an_heir() -> None:
    member = Member()
    member.lead(2)
    member.hear(accepted(0), accepted(0, sender=3))
    member.raft.change_members(ids(2, 3))
    member.run()
    member.hear(accepted(1), accepted(1, sender=3))
    last = member.raft.log.last
    said = member.hear(accepted(last), accepted(last, sender=3))
    assert member.role() is Role.FOLLOWER
    assert {(m.to, m.commit) for m in only(Heartbeat, said)} >= {(replica_id(2), last)}
    assert len(only(TimeoutNow, said)) == 1


def test_6_a_removed_replica_never_campaigns_once_it_knows() -> None:
    member = Member()
    member.hear(append(-1, 0, config(0, 1, Configuration(voters=ids(2, 3))), commit=0))
    assert member.tick(100_000) == []
    assert member.campaign() == []
    assert (member.role(), member.raft.term) == (Role.FOLLOWER, 1)


def test_6_a_removed_replica_that_does_not_know_deposes_nobody() -> None:
    """Dissertation 4.2.3: disruptive servers."""
    lab = Lab()
    lab.elect(1)
    lab.isolate(3)
    lab[1].change_members(ids(1, 2))
    lab.settle()
    assert lab[1].configuration.voters == ids(1, 2)
    lab.heal()
    lab.advance(5000)
    assert lab.leaders() == [1]
    assert lab[1].term == 1


def test_4_1_one_change_at_a_time() -> None:
    member = Member(voters=range(1, 6))
    member.lead(2, 3)
    with pytest.raises(ChangeInProgress, match="has not committed"):
        member.raft.change_members(ids(1, 2, 3))
    member.hear(accepted(0), accepted(0, sender=3))
    member.raft.change_members(ids(1, 2, 3))
    member.run()
    for _ in ("joint", "leaving"):
        with pytest.raises(ChangeInProgress, match="not finished"):
            member.raft.change_members(ids(1, 2))
        following = member.raft.log.last
        member.hear(accepted(following), accepted(following, sender=3))
    assert not member.raft.configuration.joint


def test_4_2_1_new_replicas_come_as_learners_and_do_not_count() -> None:
    lab = Lab()
    lab.elect(1)
    new = lab.join(4, 2)
    with pytest.raises(BadRequest, match="start as learners"):
        lab[1].change_members([*ids(1, 2, 3), new])
    lab[1].change_members(ids(1, 2, 3), [new])
    lab.settle()
    assert lab[4].configuration.learners == {new}
    lab.isolate(2, 3)
    batch = lab.propose(1)
    assert lab[1].log.commit < batch.last, "two voters are away, a learner is no vote"
    assert lab[4].log.last == batch.last, "but it gets the log"


def test_4_2_1_a_learner_that_has_caught_up_is_promoted() -> None:
    lab = Lab()
    lab.elect(1)
    for _ in range(5):
        lab.propose(1)
    new = lab.join(4, 2)
    lab[1].change_members(ids(1, 2, 3), [new])
    with pytest.raises(ChangeInProgress):
        lab[1].change_members([*ids(1, 2, 3), new])
    lab.settle()
    lab[1].change_members([*ids(1, 2, 3), new])
    lab.settle()
    assert lab[4].configuration == lab[1].configuration == Configuration(voters=ids(1, 2, 3) | {new}, generation=2)
    lab.isolate(3)
    assert lab.propose(1).last == lab[1].log.commit, "three of four"


def test_4_2_1_a_learner_that_is_not_heard_cannot_be_promoted() -> None:
    lab = Lab()
    lab.elect(1)
    new = replica_id(4, 2)
    lab[1].change_members(ids(1, 2, 3), [new])
    lab.settle()
    assert lab[1].progress[new].pace is Pace.PROBE
    with pytest.raises(ChangeInProgress, match="catching up"):
        lab[1].change_members([*ids(1, 2, 3), new])


def test_4_2_1_a_learner_never_campaigns_but_answers_votes() -> None:
    """The candidate may know of a promotion that the learner has not heard of."""
    member = Member()
    member.hear(append(-1, 0, config(0, 1, Configuration(voters=ids(2, 3), learners=ids(1))), commit=0))
    assert member.tick(100_000) == []
    lab = Lab()
    lab.elect(1)
    new = lab.join(4, 2)
    lab[1].change_members(ids(1, 2, 3), [new])
    lab.settle()
    assert lab.members[4].campaign() == []


def test_4_2_2_a_leaving_voter_campaigns_until_the_change_is_committed() -> None:
    """Its log may be the only one that holds the change, and then nobody else can be elected. Its vote counts nothing."""
    member = Member(log=[config(0, 1, Configuration(voters=ids(2, 3), learners=ids(1)))], term=1)
    asked = member.tick(100_000)
    assert {(type(message), message.to) for message in asked} == {(VoteRequest, replica_id(2)), (VoteRequest, replica_id(3))}
    member.hear(vote(2, pre=True, sender=2))
    assert member.role() is Role.PRE_CANDIDATE, "one of the two voters is no majority"
    member.hear(vote(2, pre=True, sender=3))
    member.hear(vote(2, sender=2), vote(2, sender=3))
    assert member.role() is Role.LEADER
    member.hear(accepted(1, term=2, sender=2), accepted(1, term=2, sender=3))
    assert (member.role(), member.raft.log.commit) == (Role.FOLLOWER, 1)


def test_a_voter_can_become_a_learner() -> None:
    lab = Lab()
    lab.elect(1)
    lab[1].change_members(ids(1, 2), ids(3))
    assert lab[1].configuration.learners_next == ids(3)
    lab.settle()
    assert lab[3].configuration == Configuration(voters=ids(1, 2), learners=ids(3))
    assert lab.propose(1).last == lab[3].log.last


def test_a_leader_can_make_itself_a_learner() -> None:
    lab = Lab()
    lab.elect(1)
    lab[1].change_members(ids(2, 3), ids(1))
    lab.settle()
    (leader,) = lab.leaders()
    assert leader in (2, 3)
    lab.propose(leader)
    assert lab[1].log.last == lab[leader].log.last, "it still gets the log"
    assert lab.members[1].campaign() == []


def test_a_replica_id_is_never_used_again() -> None:
    """A disk that was lost must not vote twice under one name."""
    lab = Lab()
    lab.elect(1)
    lab[1].change_members(ids(1, 2))
    lab.settle()
    with pytest.raises(BadRequest, match="may have been used before"):
        lab[1].change_members(ids(1, 2), ids(3))
    lab[1].change_members(ids(1, 2), [replica_id(3, 2)])
    lab.settle()
    lab[1].change_members(ids(1, 2))
    lab.settle()
    for spent in (replica_id(3, 2), replica_id(4, 2), replica_id(4, 1)):
        with pytest.raises(BadRequest, match="incarnation above 2"):
            lab[1].change_members(ids(1, 2), [spent])


def test_changes_that_can_never_be_made_are_refused_and_change_nothing() -> None:
    member = Member()
    member.lead(2)
    member.hear(accepted(0))
    before = member.raft.log.last
    for voters, learners, why in [
        ((), (), "at least one voter"),
        (ids(1, 2, 3), (), "already"),
        (ids(1, 2), ids(2), "at once"),
        (ids(1, 2, 9), (), "not members yet: 9"),
    ]:
        with pytest.raises(BadRequest, match=why):
            member.raft.change_members(voters, learners)
    assert member.raft.log.last == before


def test_check_quorum_counts_both_sets_of_a_joint_change() -> None:
    member = Member(log=[config(0, 1, joint((1, 2, 3), (1, 4, 5)))], term=1)
    member.lead(2, 4)
    for now in range(50, 700, 50):
        member.tick(now)
        if member.role() is not Role.LEADER:
            break
        for sender in (2, 3):
            member.hear(accepted(0, term=2, sender=sender))
    assert member.role() is Role.FOLLOWER, "4 and 5 are silent"


def test_a_member_that_is_gone_is_no_longer_tracked_or_answered() -> None:
    lab = Lab()
    lab.elect(1)
    lab[1].change_members(ids(1, 2))
    lab.settle()
    assert set(lab[1].progress) == ids(2)
    ignored = lab[1].ignored
    lab[1].step(accepted(0, sender=3))
    assert lab[1].ignored == ignored + 1
    lab[1].propose(b"x")
    assert {m.to for m in lab.collect()} == ids(2)


def test_a_restarted_leader_finds_a_joint_change_in_its_snapshot_and_leaves_it() -> None:
    start = new_group(joint((1, 2), (1, 2, 3)))
    member = Member(disk=prepared(start, log_of(1), term=1, commit=0))
    member.lead(2, 3)
    member.hear(accepted(1, term=2), accepted(1, term=2, sender=3))
    batch = member.disk.durable.find(Offset(2))
    assert batch is not None
    assert Configuration.decode(batch.data) == Configuration(voters=ids(1, 2))
