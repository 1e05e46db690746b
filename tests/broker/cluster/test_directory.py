"""What a node knows of the others: who leads, who is alive, and what it tells clients when it may be cut off itself."""

from __future__ import annotations

from quorate.broker.cluster.directory import Directory, Health, Leader, Status
from quorate.consensus.core import GroupId, Millis, NodeId, Term

ME, SECOND, THIRD = NodeId(1), NodeId(2), NodeId(3)
ALL = (ME, SECOND, THIRD)
GROUP = GroupId(5)


def directory() -> Directory:
    return Directory(ME, Millis(0), suspect_ms=100, dead_ms=1000)


def leads(*groups: tuple[int, int]) -> Status:
    return Status(1, 0, 0, tuple((GroupId(group), Term(term)) for group, term in groups))


def test_the_highest_term_is_right() -> None:
    here = directory()
    here.hear(SECOND, leads((5, 7)), Millis(0))
    here.hear(THIRD, leads((5, 6)), Millis(0))
    assert here.leader_of(GROUP, Millis(0)) == Leader(SECOND, Term(7))


def test_who_resigned_does_not_name_itself() -> None:
    """A leader that is cut off resigns, and hears of no other: it used to send clients to itself for as long."""
    here = directory()
    here.learn(GROUP, ME, Term(3))
    here.resign(GROUP)
    assert here.leader_of(GROUP, Millis(0)) is None
    here.learn(GROUP, SECOND, Term(4))
    here.hear(SECOND, leads(), Millis(0))
    here.resign(GROUP)
    assert here.leader_of(GROUP, Millis(0)) == Leader(SECOND, Term(4))


def test_clients_are_not_told_of_a_node_that_has_been_dead_for_long() -> None:
    here = directory()
    here.hear(SECOND, leads(), Millis(500))
    assert here.worth_trying(ALL, Millis(500)) == list(ALL)
    here.hear(SECOND, leads(), Millis(60_500))
    assert here.worth_trying(ALL, Millis(60_500)) == [ME, SECOND]


def test_clients_are_told_of_a_node_for_as_long_as_they_may_wait_for_its_answer() -> None:
    """librdkafka sends again what it had asked of a broker that is not named any more, though it may have been done."""
    here = directory()
    here.hear(SECOND, leads(), Millis(0))
    here.hear(THIRD, leads(), Millis(0))
    here.hear(SECOND, leads(), Millis(40_000))
    here.connected(THIRD, False, Millis(1_000))
    assert here.worth_trying(ALL, Millis(40_000)) == list(ALL)


def test_a_broken_connection_is_noticed_before_silence_is() -> None:
    here = directory()
    here.hear(SECOND, leads((5, 7)), Millis(0))
    here.connected(SECOND, False, Millis(10))
    assert here.leader_of(GROUP, Millis(10)) is None
    assert here.electing(GROUP, Millis(10))
    assert here.lost_lately(Millis(10))
    assert here.health(SECOND, Millis(10)) is Health.SUSPECT
    here.connected(SECOND, False, Millis(900))
    assert not here.electing(GROUP, Millis(1_010)), "that is no election, that is a lost majority"
    assert not here.lost_lately(Millis(1_010))


def test_who_is_back_or_heard_is_not_suspect() -> None:
    here = directory()
    here.hear(SECOND, leads((5, 7)), Millis(0))
    here.connected(SECOND, False, Millis(10))
    here.connected(SECOND, True, Millis(20))
    assert here.leader_of(GROUP, Millis(20)) == Leader(SECOND, Term(7))
    here.connected(SECOND, False, Millis(30))
    here.hear(SECOND, leads((5, 7)), Millis(40))
    assert here.leader_of(GROUP, Millis(40)) == Leader(SECOND, Term(7))


def test_an_election_ends_with_the_next_leader() -> None:
    here = directory()
    here.hear(SECOND, leads((5, 7)), Millis(0))
    here.connected(SECOND, False, Millis(10))
    here.hear(THIRD, leads((5, 8)), Millis(50))
    assert not here.electing(GROUP, Millis(50))
    assert here.leader_of(GROUP, Millis(50)) == Leader(THIRD, Term(8))
    assert not here.electing(GroupId(6), Millis(50)), "nobody is known to have led it"


def test_whoever_is_cut_off_still_tells_of_the_others() -> None:
    assert directory().worth_trying(ALL, Millis(500)) == list(ALL)
    assert directory().worth_trying((ME,), Millis(500)) == [ME]
    assert directory().cut_off(ALL, Millis(500))
    assert not directory().cut_off((ME,), Millis(500))
    assert [directory().guess(ALL, Millis(now)) for now in (0, 1_000, 2_000)] == [SECOND, THIRD, SECOND]
    assert directory().guess((ME,), Millis(0)) is None
