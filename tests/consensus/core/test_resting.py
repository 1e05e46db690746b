"""Groups that only wait for silence are not looked at; whatever ends their rest, they are looked at in time."""

from __future__ import annotations

from collections import Counter

import pytest

from quorate.consensus.core import GroupId, Millis, Raft, Role
from tests.consensus.core.town import Town

QUIET_MS = 2_000
ELECTION_MS = Town().settings.election_ms


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Counter[GroupId]:
    """How often each group was looked at because of a deadline."""
    seen: Counter[GroupId] = Counter()
    tick = Raft.tick

    def counted(self: Raft, now: Millis) -> None:
        seen[self.group] += 1
        tick(self, now)

    monkeypatch.setattr(Raft, "tick", counted)
    return seen


def quiet_town(groups: int = 3) -> Town:
    """Node 1 leads every group, and nothing happens."""
    town = Town(groups)
    town.lead(1)
    town.advance(QUIET_MS)
    return town


def leaders(town: Town, group: GroupId) -> set[int]:
    return {number for number, node in town.nodes.items() if node.groups[group].role is Role.LEADER}


def test_nobody_looks_at_groups_that_rest(ticks: Counter[GroupId]) -> None:
    town = quiet_town()
    ticks.clear()
    town.advance(10 * ELECTION_MS)
    assert not ticks
    assert all(leaders(town, group) == {1} for group in town.groups)


def test_followers_notice_the_silence_of_their_leaders_node() -> None:
    town = quiet_town()
    town.isolate(1)
    town.advance(5 * ELECTION_MS)
    for group in town.groups:
        assert len(leaders(town, group)) == 1
        assert leaders(town, group) <= {2, 3}


def test_a_leader_notices_that_it_lost_its_quorum() -> None:
    town = quiet_town()
    town.isolate(1)
    # Not later than a leader that does not rest would notice it, but for the step in which time passes here.
    town.advance(ELECTION_MS + town.beat_ms + 10)
    assert not any(raft.role is Role.LEADER for raft in town.nodes[1].groups.values())


def test_a_leader_with_one_silent_follower_goes_on_leading() -> None:
    town = quiet_town()
    town.isolate(3)
    town.advance(5 * ELECTION_MS)
    assert all(1 in leaders(town, group) for group in town.groups)


def test_a_group_that_was_busy_rests_again(ticks: Counter[GroupId]) -> None:
    town = quiet_town()
    town.rafts[1].propose(b"x", 1)
    town.advance(QUIET_MS)
    ticks.clear()
    town.advance(10 * ELECTION_MS)
    assert not ticks
    assert town.rafts[3].log.commit == town.rafts[1].log.last


def test_one_group_that_changes_its_leader_does_not_keep_the_others_from_resting(ticks: Counter[GroupId]) -> None:
    town = quiet_town()
    moved, *others = town.groups
    town.nodes[1].groups[moved].transfer(town.nodes[2].groups[moved].replica)
    town.advance(QUIET_MS)
    assert leaders(town, moved) == {2}
    ticks.clear()
    town.advance(5 * ELECTION_MS)
    assert not ticks
    town.isolate(2)
    town.advance(5 * ELECTION_MS)
    assert len(leaders(town, moved) & {1, 3}) == 1
    assert all(leaders(town, group) == {1} for group in others)


def test_a_broken_connection_ends_the_rest_at_once() -> None:
    town = quiet_town()
    for number in (2, 3):
        town.nodes[number].lost(town.nodes[1].node)
        assert town.nodes[number].next_deadline() <= town.now + ELECTION_MS // 4


def test_a_group_that_is_removed_while_it_rests_is_not_called(ticks: Counter[GroupId]) -> None:
    town = quiet_town()
    gone = town.groups[0]
    town.nodes[2].remove(gone)
    ticks.clear()
    town.isolate(2)
    town.advance(QUIET_MS)
    assert gone not in town.nodes[2].groups
    assert len(leaders(town, town.groups[1])) == 1


def test_the_next_deadline_is_not_after_the_silence_counts() -> None:
    town = quiet_town()
    node = town.nodes[2]
    town.isolate(2)
    while node.next_deadline() < town.now + 2 * ELECTION_MS and not any(one.campaigning for one in node.groups.values()):
        town.now = int(node.next_deadline())
        node.tick(Millis(town.now))
        node.take()
    assert any(one.campaigning for one in node.groups.values())
