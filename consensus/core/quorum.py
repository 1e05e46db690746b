"""Quorum arithmetic, plain and joint. Pure functions over sets of replicas; nothing here knows about Raft.

A joint configuration has two sets of voters and needs a majority of each. The outgoing set is empty outside of a change.
An empty voter set by itself can decide nothing: a replica that does not know its group must not elect itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import TypeVar

Member = TypeVar("Member")


class Outcome(Enum):
    """How a vote stands."""

    PENDING = "pending"
    WON = "won"
    LOST = "lost"


def majority(count: int) -> int:
    """How many of `count` voters are a majority."""
    return count // 2 + 1


def reached(voters: Collection[Member], value_of: Callable[[Member], int], floor: int) -> int:
    """The highest value that a majority of `voters` has reached; `floor` if there are no voters."""
    count = len(voters)
    if count == 0:
        return floor
    values = sorted(map(value_of, voters))
    return values[count - majority(count)]


def joint_reached(
    voters: Collection[Member], outgoing: Collection[Member], value_of: Callable[[Member], int], floor: int
) -> int:
    """The highest value that a majority of both sets has reached; an empty outgoing set does not count."""
    value = reached(voters, value_of, floor)
    return min(value, reached(outgoing, value_of, floor)) if outgoing else value


def tally(voters: Collection[Member], votes: Mapping[Member, bool]) -> Outcome:
    """How the vote stands among `voters`; votes of others do not count."""
    needed = majority(len(voters))
    granted = sum(1 for voter in voters if votes.get(voter) is True)
    refused = sum(1 for voter in voters if votes.get(voter) is False)
    if granted >= needed:
        return Outcome.WON
    if len(voters) - refused < needed:
        return Outcome.LOST
    return Outcome.PENDING


def joint_tally(voters: Collection[Member], outgoing: Collection[Member], votes: Mapping[Member, bool]) -> Outcome:
    """How the vote stands: won when won in both sets, lost when lost in either."""
    first = tally(voters, votes)
    if not outgoing:
        return first
    second = tally(outgoing, votes)
    if first is Outcome.LOST or second is Outcome.LOST:
        return Outcome.LOST
    return Outcome.WON if first is Outcome.WON and second is Outcome.WON else Outcome.PENDING
