"""Quorum arithmetic, plain and joint, against the definition spelled out over all subsets; and configurations as values."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.consensus.core import BadRequest, Configuration, Offset, ReplicaId, incarnation_of, replica_id
from quorate.consensus.core.membership import History
from quorate.consensus.core.quorum import Outcome, joint_reached, joint_tally, majority, reached, tally

NODES = st.frozensets(st.integers(1, 7), max_size=7)
VALUES = st.dictionaries(st.integers(1, 7), st.integers(-1, 5))
VOTES = st.dictionaries(st.integers(1, 9), st.booleans())


def quorums(voters: frozenset[int]) -> list[frozenset[int]]:
    """Every set of voters that is more than half of them."""
    return [
        frozenset(chosen)
        for size in range(len(voters) + 1)
        for chosen in combinations(sorted(voters), size)
        if 2 * size > len(voters)
    ]


@given(st.integers(1, 1000))
def test_two_majorities_always_meet_and_one_less_is_none(count: int) -> None:
    assert 2 * majority(count) > count
    assert 2 * (majority(count) - 1) <= count


@given(NODES, VALUES, st.integers(-1, 5))
def test_reached_is_the_best_that_some_quorum_has(voters: frozenset[int], values: dict[int, int], floor: int) -> None:
    best = max((min(values.get(v, -1) for v in quorum) for quorum in quorums(voters)), default=floor)
    assert reached(voters, lambda v: values.get(v, -1), floor) == best


@given(NODES, NODES, VALUES)
def test_joint_reached_is_what_quorums_of_both_sets_have(
    voters: frozenset[int], outgoing: frozenset[int], values: dict[int, int]
) -> None:
    result = joint_reached(voters, outgoing, lambda v: values.get(v, -1), -1)
    have = frozenset(v for v in voters | outgoing if values.get(v, -1) >= result)
    more = frozenset(v for v in voters | outgoing if values.get(v, -1) > result)

    def both(members: frozenset[int]) -> bool:
        return members & voters in quorums(voters) and (not outgoing or members & outgoing in quorums(outgoing))

    assert both(have) or result == -1
    assert not both(more)


@given(NODES, VOTES)
def test_a_tally_is_won_lost_or_open_exactly_when_the_rest_cannot_change_it(
    voters: frozenset[int], votes: dict[int, bool]
) -> None:
    granted = frozenset(v for v in voters if votes.get(v) is True)
    possible = frozenset(v for v in voters if votes.get(v) is not False)
    if granted in quorums(voters):
        expected = Outcome.WON
    elif possible in quorums(voters):
        expected = Outcome.PENDING
    else:
        expected = Outcome.LOST
    assert tally(voters, votes) is expected


@given(NODES, NODES, VOTES)
def test_a_joint_tally_is_won_in_both_and_lost_in_either(
    voters: frozenset[int], outgoing: frozenset[int], votes: dict[int, bool]
) -> None:
    parts = {tally(voters, votes)} | ({tally(outgoing, votes)} if outgoing else set())
    outcome = joint_tally(voters, outgoing, votes)
    if Outcome.LOST in parts:
        assert outcome is Outcome.LOST
    else:
        assert outcome is (Outcome.WON if parts == {Outcome.WON} else Outcome.PENDING)


@given(NODES, NODES, st.sets(st.integers(1, 7)), st.sets(st.integers(1, 7)))
def test_two_winners_of_a_joint_election_share_a_voter_in_each_set(
    voters: frozenset[int], outgoing: frozenset[int], one: set[int], other: set[int]
) -> None:
    for supporters in (one, other):
        if joint_tally(voters, outgoing, dict.fromkeys(supporters, True)) is not Outcome.WON:
            return
    assert one & other & voters
    assert not outgoing or one & other & outgoing


def test_nobody_is_no_quorum() -> None:
    """A replica that does not know its group must not elect itself."""
    assert tally(frozenset[int](), {1: True}) is Outcome.LOST
    assert reached(frozenset[int](), lambda _: 9, -1) == -1


# Configurations.

REPLICAS = st.builds(replica_id, st.integers(1, 6), st.integers(1, 3))
SETS = st.frozensets(REPLICAS, max_size=6)


@st.composite
def configurations(draw: st.DrawFn) -> Configuration:
    voters, outgoing, learners = draw(SETS), draw(SETS), draw(SETS)
    leaving = sorted(outgoing - voters)
    learners_next = frozenset(draw(st.lists(st.sampled_from(leaving)))) if leaving else frozenset[ReplicaId]()
    return Configuration(
        voters=voters,
        outgoing=outgoing,
        learners=learners - voters - outgoing,
        learners_next=learners_next,
        generation=draw(st.integers(0, 9)),
    )


@given(configurations())
def test_encoding_is_reversible_and_canonical(configuration: Configuration) -> None:
    encoded = configuration.encode()
    for buffer in (encoded, bytearray(encoded), memoryview(encoded)):
        assert Configuration.decode(buffer) == configuration
    assert Configuration.decode(encoded).encode() == encoded


@given(st.binary(max_size=200))
def test_decoding_noise_raises_value_error_or_nothing(noise: bytes) -> None:
    try:
        Configuration.decode(noise)
    except ValueError:
        return


@given(configurations(), st.integers(0, 300), st.integers(0, 255))
def test_decoding_a_damaged_configuration_raises_value_error_or_nothing(
    configuration: Configuration, position: int, value: int
) -> None:
    damaged = bytearray(configuration.encode())
    damaged[position % len(damaged)] = value
    try:
        Configuration.decode(damaged)
    except ValueError:
        return


@given(configurations(), configurations())
def test_a_change_is_refused_or_leads_to_exactly_the_members_asked_for(old: Configuration, wanted: Configuration) -> None:
    voters, learners = wanted.voters, wanted.learners
    try:
        changed = old.change(voters, learners)
    except BadRequest:
        strangers = (voters | learners) - old.members
        fresh = all(incarnation_of(replica) > old.generation for replica in strangers)
        assert old.joint or not voters or voters - old.members or not fresh
        return
    settled = changed.leave()
    assert (settled.voters, settled.learners, settled.joint) == (voters, learners, False)
    # Without any voters nobody can lead, so nobody asks for a change from there.
    assert changed.joint is (voters != old.voters and bool(old.voters))
    assert changed.outgoing == (old.voters if changed.joint else frozenset())
    assert voters <= old.members, "nobody votes who was not a member before"
    assert settled.generation >= changed.generation >= old.generation


@given(configurations(), st.sets(st.integers(1, 6), min_size=1), st.sets(st.integers(1, 6), min_size=1))
def test_no_quorum_of_the_old_set_can_decide_without_the_joint_one(
    base: Configuration, old_quorum: set[int], joint_quorum: set[int]
) -> None:
    """The reason for joint consensus: at no moment can two disjoint majorities decide."""
    old = Configuration(voters=base.voters | {replica_id(1)}, learners=base.learners - {replica_id(1)})
    voters = sorted(old.members)[: 1 + len(old.members) // 2]
    changed = old.change(voters, ())
    one = {replica: True for replica in old.members if replica >> 32 in old_quorum}
    other = {replica: True for replica in old.members if replica >> 32 in joint_quorum}
    if old.tally(one) is Outcome.WON and changed.tally(other) is Outcome.WON:
        assert one.keys() & other.keys()
    if changed.tally(one) is Outcome.WON and changed.leave().tally(other) is Outcome.WON:
        assert one.keys() & other.keys()


def test_a_configuration_checks_itself_when_it_is_made() -> None:
    one, two = replica_id(1), replica_id(2)
    with pytest.raises(ValueError, match="voter and a learner"):
        Configuration(voters=frozenset({one}), learners=frozenset({one}))
    with pytest.raises(ValueError, match="leaving voter"):
        Configuration(voters=frozenset({one}), learners_next=frozenset({two}))
    assert Configuration(voters=frozenset({replica_id(1, 8)})).generation == 8
    text = str(Configuration(voters=frozenset({one}), outgoing=frozenset({one, two}), learners_next=frozenset({two})))
    assert text == "voters(1) outgoing(1 2) learners-next(2)"


# History, against a plain list of (offset, configuration).


@given(st.lists(st.tuples(st.sampled_from(["append", "truncate", "compact"]), st.integers(0, 12)), max_size=30))
def test_history_follows_the_log(steps: list[tuple[str, int]]) -> None:
    named = [Configuration(voters=frozenset({replica_id(number)})) for number in range(1, 50)]
    history, model = History(Offset(-1), named[0]), [(-1, named[0])]
    start, last, used = -1, -1, 1
    for action, number in steps:
        if action == "append":
            last += 1 + number % 3
            history.append(Offset(last), named[used])
            model.append((last, named[used]))
            used += 1
        elif action == "truncate":
            last = max(start, last - number)
            before = model[-1]
            kept = [entry for entry in model if entry[0] <= last] or model[:1]
            assert history.truncate(Offset(last)) is (kept[-1] != before)
            model = kept
        else:
            start = min(last, start + number)
            history.compact(Offset(start))
            below = [entry for entry in model if entry[0] <= start]
            model = below[-1:] + [entry for entry in model if entry[0] > start]
        assert (history.current_offset, history.current) == model[-1]
        for offset in range(start, last + 3):
            assert history.at(Offset(offset)) == [entry[1] for entry in model if entry[0] <= offset][-1]
