"""The groups of a node: deadlines in a heap, one beat per pair of nodes, claims, quiet leaders, restarts of either side."""

from __future__ import annotations

from random import Random

import pytest

from quorate.consensus.core import (
    Clock,
    Configuration,
    GroupId,
    Millis,
    Node,
    NodeId,
    NodeMessage,
    Raft,
    RaftSettings,
    Role,
    Term,
    new_group,
    replica_id,
)
from quorate.consensus.core.messages import Append, Beat, BeatAnswer, Claim, Heartbeat
from tests.consensus.core.lab import SETTINGS, append, data, heartbeat, ids
from tests.consensus.core.town import Town

BEAT = 50
ELECTION = SETTINGS.election_ms


def quiet_town(groups: int = 1) -> Town:
    """Node 1 leads every group, and everybody has everything."""
    town = Town(groups)
    town.lead(1)
    town.advance(10 * BEAT)
    assert all(raft.role is Role.LEADER for raft in town.nodes[1].groups.values())
    return town


def beats(messages: list[NodeMessage]) -> list[Beat]:
    return [message for message in messages if isinstance(message, Beat)]


def answers(messages: list[NodeMessage]) -> list[BeatAnswer]:
    return [message for message in messages if isinstance(message, BeatAnswer)]


def of_groups(messages: list[NodeMessage]) -> list[NodeMessage]:
    return [message for message in messages if not isinstance(message, Beat | BeatAnswer)]


def one_leader(town: Town) -> int:
    (leader,) = [number for number, raft in town.rafts.items() if raft.role is Role.LEADER]
    return leader


# Quiet leaders.


def test_one_beat_per_pair_of_nodes_serves_any_number_of_groups() -> None:
    few, many = quiet_town(1), quiet_town(40)
    for town in (few, many):
        sent = town.advance(10 * BEAT)
        assert of_groups(sent) == [], "quiet leaders send nothing of their own"
        assert len(beats(sent)) == len(answers(sent)) == 20, "ten beats to each of two nodes"
        assert all(beat.claims is None for beat in beats(sent)), "the claims are known"


def test_beats_keep_followers_from_campaigning_and_leaders_in_office() -> None:
    town = quiet_town(3)
    town.advance(20 * ELECTION)
    for number in (1, 2, 3):
        for raft in town.nodes[number].groups.values():
            assert (raft.term, raft.leader) == (1, replica_id(1))


def test_a_leader_has_something_to_say_again_when_there_is_news() -> None:
    town = quiet_town(2)
    town.rafts[1].propose(b"x")
    sent = of_groups(town.advance(10 * BEAT))
    assert any(isinstance(message, Append) for message in sent)
    assert {message.group for message in sent if not isinstance(message, Beat | BeatAnswer)} == {1}
    assert {raft.log.commit for raft in town.rafts.values()} == {1}
    assert of_groups(town.advance(10 * BEAT)) == [], "and is quiet again"


def test_a_lost_append_of_a_quiet_leader_is_noticed() -> None:
    town = quiet_town()
    town.rafts[1].propose(b"x")
    town.collect()
    town.net = [message for message in town.net if not isinstance(message, Append)]
    town.advance(10 * BEAT)
    assert {raft.log.commit for raft in town.rafts.values()} == {1}


def test_a_lost_commit_notice_of_a_quiet_leader_is_noticed() -> None:
    town = quiet_town()
    town.rafts[1].propose(b"x")
    for _ in range(2):
        town.deliver()
    town.net = [message for message in town.net if not isinstance(message, Heartbeat)]
    town.advance(10 * BEAT)
    assert {raft.log.commit for raft in town.rafts.values()} == {1}


def test_reads_of_a_quiet_leader_are_confirmed_by_a_round_of_their_own() -> None:
    """Beats vouch for a node, not for a moment: a read needs heartbeats of its group."""
    town = quiet_town()
    town.rafts[1].read_index()
    sent = town.advance(BEAT)
    assert len([message for message in sent if isinstance(message, Heartbeat) and message.round]) >= 2
    assert not town.rafts[1].reads.pending


# Failures.


def test_followers_elect_when_the_leaders_node_falls_silent() -> None:
    town = quiet_town(5)
    town.isolate(1)
    town.advance(10 * ELECTION)
    for group in town.groups:
        leaders = [n for n in (2, 3) if town.nodes[n].groups[group].role is Role.LEADER]
        assert len(leaders) == 1
        assert town.nodes[1].groups[group].role is not Role.LEADER, "it lost its quorum and stepped down"


def test_a_follower_campaigns_no_sooner_than_an_election_time_after_the_last_beat() -> None:
    town = quiet_town()
    last = town.nodes[2]._peers[NodeId(1)].in_signal.heard_at
    town.isolate(1)
    while town.rafts[2].role is Role.FOLLOWER and town.rafts[3].role is Role.FOLLOWER:
        town.advance(1, step=1)
    assert last + ELECTION <= town.now < last + 2 * ELECTION + BEAT


def test_the_old_leaders_node_learns_of_the_new_leader() -> None:
    town = quiet_town(3)
    town.isolate(1)
    town.advance(10 * ELECTION)
    town.heal()
    town.advance(4 * BEAT)
    for group in town.groups:
        terms = {node.groups[group].term for node in town.nodes.values()}
        leaders = {node.groups[group].leader for node in town.nodes.values()}
        assert len(terms) == len(leaders) == 1


def test_a_short_silence_changes_nothing() -> None:
    town = quiet_town(3)
    town.isolate(1)
    town.advance(4 * BEAT)
    town.heal()
    sent = town.advance(10 * BEAT)
    assert of_groups(sent) == []
    assert {raft.term for node in town.nodes.values() for raft in node.groups.values()} == {1}


def test_a_restarted_follower_is_told_the_claims_again() -> None:
    town = quiet_town(3)
    town.restart(2)
    sent = town.advance(4 * BEAT)
    told = [beat for beat in beats(sent) if beat.to == 2 and beat.claims is not None]
    assert len(told) == 1
    assert told[0].claims is not None
    assert len(told[0].claims) == 3
    assert {raft.leader for raft in town.nodes[2].groups.values()} == {replica_id(1)}
    assert of_groups(town.advance(20 * ELECTION)) == []


def test_a_restarted_leader_is_replaced_or_elected_again() -> None:
    town = quiet_town(3)
    town.restart(1)
    town.advance(10 * ELECTION)
    for group in town.groups:
        assert len({node.groups[group].leader for node in town.nodes.values()}) == 1
        assert {node.groups[group].term for node in town.nodes.values()} != {1}
    assert of_groups(town.advance(10 * BEAT)) == []


def test_all_nodes_restart_at_once() -> None:
    town = quiet_town(3)
    for number in (1, 2, 3):
        town.restart(number)
    town.advance(20 * ELECTION)
    for group in town.groups:
        assert len({node.groups[group].leader for node in town.nodes.values()} - {0}) == 1
    assert of_groups(town.advance(10 * BEAT)) == []


# Lost, late and doubled beats.


def test_a_claim_that_is_lost_is_said_again_until_it_is_known() -> None:
    town = Town()
    town.lead(1)
    for _ in range(3):
        town.now += BEAT
        town.nodes[1].tick(Millis(town.now))
        town.collect()
        assert all(beat.claims is not None for beat in beats(town.net))
        town.net = of_groups(town.net)
        town.settle()
    town.advance(2 * BEAT)
    assert all(beat.claims is None for beat in beats(town.advance(2 * BEAT)))


def test_late_and_doubled_beats_are_ignored() -> None:
    town = quiet_town()
    old = next(beat for beat in beats(town.log) if beat.to == 2)
    newest = [beat for beat in beats(town.log) if beat.to == 2][-1]
    heard_at = town.rafts[2]._last_sign()
    town.nodes[2].tick(Millis(town.now + 20))
    for late in (old, newest, newest):
        town.nodes[2].step(late)
    assert town.nodes[2].take().beats == []
    assert town.rafts[2]._last_sign() == heard_at


def test_a_beat_of_an_earlier_boot_is_late_however_high_its_number() -> None:
    node = Node(NodeId(2), boot=1, beat_ms=BEAT)
    raft = make(node)
    node.step(Beat(NodeId(1), NodeId(2), 2, 1, 1, ()))
    assert len(node.take().beats) == 1
    node.step(Beat(NodeId(1), NodeId(2), 1, 10**9, 1, (Claim(GroupId(1), replica_id(1), replica_id(2), Term(1)),)))
    assert node.take().beats == []
    assert raft.term == 0


def test_an_answer_of_another_version_or_boot_counts_for_nothing() -> None:
    town = quiet_town()
    node = town.nodes[1]
    signal = node._peers[NodeId(2)].out_signal
    before, unknown = signal.heard_at, node.unknown
    node.tick(Millis(town.now + 10))
    version = node._peers[NodeId(2)].out_version
    for boot, number in ((1, version + 1), (2, version), (0, version)):
        node.step(BeatAnswer(NodeId(2), NodeId(1), boot, 5, number, True, (), 1))
    node.step(BeatAnswer(NodeId(9), NodeId(1), 1, 5, version, True, (), 1))
    assert (signal.heard_at, node.unknown) == (before, unknown + 4)


def test_a_refused_claim_of_an_older_term_makes_the_leader_step_down() -> None:
    town = quiet_town()
    node = town.nodes[1]
    version = node._peers[NodeId(2)].out_version
    node.step(BeatAnswer(NodeId(2), NodeId(1), 1, 99, version, True, ((GroupId(1), Term(7)),), 1))
    assert (town.rafts[1].role, town.rafts[1].term) == (Role.FOLLOWER, 7)


def test_a_refused_claim_brings_the_groups_own_heartbeats_back() -> None:
    town = quiet_town(2)
    town.nodes[2].remove(GroupId(1))
    sent = town.advance(4 * BEAT)
    own = [message for message in sent if isinstance(message, Heartbeat)]
    assert {(message.group, message.to) for message in own} == {(1, replica_id(2))}
    assert town.nodes[2].unknown > 0


def test_a_group_that_is_added_later_is_covered_by_the_claims_already_known() -> None:
    node = Node(NodeId(2), boot=1, beat_ms=BEAT)
    claim = Claim(GroupId(1), replica_id(1), replica_id(2), Term(4))
    node.step(Beat(NodeId(1), NodeId(2), 1, 1, 1, (claim,)))
    raft = make(node)
    node.step(Beat(NodeId(1), NodeId(2), 1, 2, 1, None))
    assert (raft.leader, raft.term, raft.cover is not None) == (replica_id(1), 4, True)


def test_a_replica_starts_once_in_a_life_of_its_node() -> None:
    """Its leader relies on what it said of its commit offset until the node answers with another life."""
    town = quiet_town(2)
    node = town.nodes[2]
    raft = node.groups[GroupId(1)]
    node.remove(GroupId(1))
    restored = town.disks[2, GroupId(1)].restored()
    with pytest.raises(ValueError, match="replica 2 was here before"):
        node.add(Raft(GroupId(1), raft.replica, restored, town.settings, Random(5), node.clock))


def test_a_claim_for_another_incarnation_is_refused() -> None:
    node = Node(NodeId(2), boot=1, beat_ms=BEAT)
    make(node)
    node.step(Beat(NodeId(1), NodeId(2), 1, 1, 1, (Claim(GroupId(1), replica_id(1), replica_id(2, 9), Term(4)),)))
    (answer,) = node.take().beats
    assert isinstance(answer, BeatAnswer)
    assert (answer.known, answer.refused) == (True, ((1, 0),))
    assert node.groups[GroupId(1)].term == 0


def test_a_claim_while_we_lead_that_term_is_refused() -> None:
    town = quiet_town()
    claim = Claim(GroupId(1), replica_id(2), replica_id(1), Term(1))
    town.nodes[1].step(Beat(NodeId(2), NodeId(1), 1, 1, 1, (claim,)))
    assert town.rafts[1].role is Role.LEADER
    (answer,) = answers([*town.nodes[1].take().beats])
    assert answer.refused == ((1, 1),)


def test_a_claim_that_is_no_longer_made_covers_nobody() -> None:
    node = Node(NodeId(2), boot=1, beat_ms=BEAT)
    raft = make(node)
    node.step(Beat(NodeId(1), NodeId(2), 1, 1, 1, (Claim(GroupId(1), replica_id(1), replica_id(2), Term(1)),)))
    covered = raft.cover
    node.step(Beat(NodeId(1), NodeId(2), 1, 2, 2, ()))
    assert covered is not raft.cover is None


def test_a_beat_without_claims_from_a_stranger_asks_for_them() -> None:
    node = Node(NodeId(2), boot=1, beat_ms=BEAT)
    make(node)
    node.step(Beat(NodeId(1), NodeId(2), 1, 1, 3, None))
    (answer,) = node.take().beats
    assert isinstance(answer, BeatAnswer)
    assert answer.known is False


# Deadlines and the rest of the node.


def make(node: Node, group: int = 1, settings: RaftSettings = SETTINGS) -> Raft:
    restored = new_group(Configuration(voters=ids(1, 2, 3)))
    return node.add(Raft(GroupId(group), replica_id(node.node), restored, settings, Random(group), node.clock))


def test_no_group_is_ticked_before_its_deadline() -> None:
    node = Node(NodeId(1), boot=1, beat_ms=10_000)
    rafts = [make(node, group) for group in range(1, 30)]
    due = min(raft.deadline for raft in rafts)
    node.tick(Millis(0))
    assert node.next_deadline() == due
    node.tick(Millis(due - 1))
    assert node.take().groups == []
    node.tick(due)
    assert [raft.group for raft, _ in node.take().groups] == [raft.group for raft in rafts if raft.timer_from == due]


def test_every_group_campaigns_at_its_own_deadline() -> None:
    node = Node(NodeId(1), boot=1, beat_ms=10_000)
    rafts = [make(node, group) for group in range(1, 30)]
    due = {raft.group: raft.deadline for raft in rafts}
    started: dict[GroupId, int] = {}
    for now in range(2 * ELECTION):
        node.tick(Millis(now))
        for raft, _ in node.take().groups:
            started.setdefault(raft.group, now)
    assert started == due


def test_a_deadline_that_moved_back_costs_nothing_but_a_look() -> None:
    node = Node(NodeId(1), boot=1, beat_ms=10_000)
    raft = make(node)
    first = raft.deadline
    node.tick(Millis(first - 10))
    node.step(heartbeat())
    node.take()
    roles = []
    for now in (first, first - 10 + raft.timeout_ms):
        node.tick(Millis(now))
        roles.append(raft.role)
    assert roles == [Role.FOLLOWER, Role.PRE_CANDIDATE]


def test_a_clock_that_goes_back_stands_still() -> None:
    node = Node(NodeId(1), boot=1, beat_ms=BEAT)
    node.tick(Millis(1000))
    node.tick(Millis(10))
    assert node.clock.now == 1000


def test_what_is_not_for_this_node_or_its_groups_is_counted() -> None:
    node = Node(NodeId(1), boot=1, beat_ms=BEAT)
    node.step(append(-1, 0, data(0, 1)))
    node.step(Beat(NodeId(2), NodeId(3), 1, 1, 1, ()))
    node.step(Beat(NodeId(1), NodeId(1), 1, 1, 1, ()))
    assert (node.unknown, node.take().groups, node.take().beats) == (3, [], [])


def test_a_node_takes_only_replicas_of_its_own_and_each_group_once() -> None:
    node = Node(NodeId(1), boot=1, beat_ms=BEAT)
    make(node)
    with pytest.raises(ValueError, match="here already"):
        make(node)
    restored = new_group(Configuration(voters=ids(1, 2, 3)))
    for replica, clock in ((replica_id(2), node.clock), (replica_id(1), Clock())):
        with pytest.raises(ValueError, match="another node"):
            node.add(Raft(GroupId(2), replica, restored, SETTINGS, Random(1), clock))
    for boot, beat_ms in ((0, 50), (1, 0)):
        with pytest.raises(ValueError, match="at least 1"):
            Node(NodeId(1), boot=boot, beat_ms=beat_ms)


def test_a_removed_group_is_stopped_and_says_nothing_more() -> None:
    town = quiet_town(2)
    raft = town.rafts[1]
    raft.propose(b"x")
    town.nodes[1].remove(GroupId(1))
    assert raft.role is Role.STOPPED
    assert [taken.group for taken, _ in town.nodes[1].take().groups] == []
    town.nodes[1].tick(Millis(town.now + 10_000))


def test_leaders_on_different_nodes_beat_in_both_directions() -> None:
    town = Town(3)
    for number, group in zip((1, 2, 3), town.groups, strict=True):
        town.nodes[number].groups[group].campaign()
    town.settle()
    town.advance(10 * BEAT)
    sent = town.advance(10 * BEAT)
    assert of_groups(sent) == []
    assert len(beats(sent)) == 60


def test_a_transfer_moves_the_claim() -> None:
    town = quiet_town()
    town.rafts[1].transfer(replica_id(3))
    town.advance(10 * BEAT)
    assert one_leader(town) == 3
    sent = town.advance(10 * BEAT)
    assert of_groups(sent) == []
    assert {beat.sender for beat in beats(sent)} == {3}
