"""A broken connection with the leader's node: ask sooner, decide nothing; and not too many elections at once."""

from __future__ import annotations

from random import Random

from quorate.consensus.core import (
    Configuration,
    GroupId,
    Millis,
    Node,
    NodeId,
    Raft,
    RaftSettings,
    Role,
    Term,
    new_group,
    replica_id,
)
from quorate.consensus.core.messages import Heartbeat, VoteRequest
from quorate.consensus.core.types import NO_OFFSET

SETTINGS = RaftSettings(commit_news_ms=0)
VOTERS = frozenset(map(replica_id, (1, 2, 3)))


def followers(count: int, max_campaigns: int = 32) -> Node:
    """Node 1, whose groups all follow node 2 and have just heard of it."""
    node = Node(NodeId(1), boot=1, beat_ms=50, max_campaigns=max_campaigns)
    for number in range(1, count + 1):
        group = GroupId(number)
        start = new_group(Configuration(voters=VOTERS))
        node.add(Raft(group, replica_id(1), start, SETTINGS, Random(number), node.clock))
        node.step(Heartbeat(group, replica_id(2), replica_id(1), Term(1), NO_OFFSET, 0))
    node.take()
    return node


def test_the_leaders_silence_is_not_waited_out_when_its_connection_breaks() -> None:
    node = followers(1)
    node.lost(NodeId(2))
    assert node.next_deadline() <= SETTINGS.election_ms // 4
    node.tick(Millis(SETTINGS.election_ms // 4))
    raft = node.groups[GroupId(1)]
    assert raft.role is Role.PRE_CANDIDATE
    assert raft.term == 1
    asked = [message for _, effects in node.take().groups for message in effects.send]
    assert all(isinstance(message, VoteRequest) and message.pre for message in asked)


def test_another_nodes_connection_changes_nothing() -> None:
    node = followers(1)
    node.lost(NodeId(3))
    node.tick(Millis(SETTINGS.election_ms - 1))
    assert node.groups[GroupId(1)].role is Role.FOLLOWER


def test_the_next_sign_of_the_leader_ends_the_alarm() -> None:
    node = followers(1)
    node.lost(NodeId(2))
    node.tick(Millis(5))
    node.step(Heartbeat(GroupId(1), replica_id(2), replica_id(1), Term(1), NO_OFFSET, 0))
    node.tick(Millis(SETTINGS.election_ms // 4 + 5))
    raft = node.groups[GroupId(1)]
    node.tick(Millis(SETTINGS.election_ms // 4))
    assert raft.role in (Role.FOLLOWER, Role.PRE_CANDIDATE)
    node.step(Heartbeat(GroupId(1), replica_id(2), replica_id(1), Term(1), NO_OFFSET, 0))
    assert raft.role is Role.FOLLOWER
    assert raft.leader == replica_id(2)


def test_who_lost_touch_does_not_stand_in_the_way_of_others() -> None:
    node = followers(1)
    raft = node.groups[GroupId(1)]
    ask = VoteRequest(GroupId(1), replica_id(3), replica_id(1), Term(2), NO_OFFSET, Term(0), True, False)
    node.step(ask)
    assert not [m for _, effects in node.take().groups for m in (*effects.send, *effects.send_after_sync)]
    node.lost(NodeId(2))
    node.step(ask)
    answers = [m for _, effects in node.take().groups for m in (*effects.send, *effects.send_after_sync)]
    assert len(answers) == 1
    assert raft.term == 1


def test_only_so_many_elections_begin_at_once_and_all_begin_in_the_end() -> None:
    node = followers(100, max_campaigns=8)
    node.lost(NodeId(2))
    seen: set[GroupId] = set()
    now = SETTINGS.election_ms // 4
    for _ in range(400):
        node.tick(Millis(now))
        begun = {group for group, raft in node.groups.items() if raft.campaigning}
        fresh = begun - seen
        assert len(fresh) <= 8
        seen |= begun
        for group in fresh:
            # Somebody else wins: the campaign is over, and makes room for the next.
            node.step(Heartbeat(group, replica_id(3), replica_id(1), Term(5), NO_OFFSET, 0))
        node.take()
        now += 10
    assert len(seen) == 100


def test_campaigns_that_lead_nowhere_do_not_block_the_others_for_ever() -> None:
    node = followers(30, max_campaigns=4)
    node.lost(NodeId(2))
    seen: set[GroupId] = set()
    for now in range(0, 20_000, 10):
        node.tick(Millis(now))
        seen |= {group for group, raft in node.groups.items() if raft.campaigning}
        node.take()
    assert len(seen) == 30
