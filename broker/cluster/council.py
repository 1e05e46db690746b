"""Who votes in `@cluster`: every node applies it, and a few of them, that are alive and stay, decide. Pure functions."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from quorate.broker.cluster.state import ClusterState
from quorate.broker.cluster.values import Membership
from quorate.consensus.core import Configuration, NodeId, ReplicaId, node_of

MAX_VOTERS: Final = 5


class Members(NamedTuple):
    """What the members of `@cluster` should be next."""

    voters: frozenset[ReplicaId]
    learners: frozenset[ReplicaId]


def next_members(
    now: Configuration, state: ClusterState, alive: Collection[NodeId], dead: Collection[NodeId]
) -> Members | None:
    """The next change of `@cluster`'s members, one small step at a time; None if there is nothing to do.

    Whoever the metadata does not know yet stays: a member that left could come back only under another id. A suspect is
    neither replaced nor promoted.
    """
    if now.joint:
        return None
    voters = frozenset(one for one in now.voters if node_of(one) not in state.gone)
    learners = frozenset(one for one in now.learners if node_of(one) not in state.gone)
    known = {node_of(one) for one in voters | learners}
    fresh = frozenset(info.replica for node, info in state.nodes.items() if node not in known)
    if not voters:
        # All of them were removed: they decide on their heir before they go.
        heirs = sorted(one for one in learners if node_of(one) in alive)
        return Members(now.voters | {heirs[0]}, learners - {heirs[0]}) if heirs else None
    if fresh or voters != now.voters or learners != now.learners:
        return Members(voters, learners | fresh)
    return _better(voters, learners, state, alive, dead)


def _better(
    voters: frozenset[ReplicaId],
    learners: frozenset[ReplicaId],
    state: ClusterState,
    alive: Collection[NodeId],
    dead: Collection[NodeId],
) -> Members | None:
    """Replace a voter that is dead or leaves, or add some, if there are learners that can vote in its stead."""
    leaving = {node for node, info in state.nodes.items() if info.membership is not Membership.JOINED}
    heirs = sorted(one for one in learners if node_of(one) in alive and node_of(one) not in leaving)
    if not heirs:
        return None
    out = [one for one in sorted(voters) if node_of(one) in dead] or [
        one for one in sorted(voters) if node_of(one) in leaving
    ]
    if out:
        return Members(voters - {out[0]} | {heirs[0]}, learners - {heirs[0]} | {out[0]})
    staying = sum(1 for node in state.nodes if node not in leaving and node not in dead)
    # Odd, because one voter more would not let one more of them fail.
    promoted = frozenset(heirs[: max(0, min(MAX_VOTERS, staying - 1 + staying % 2) - len(voters))])
    return Members(voters | promoted, learners - promoted) if promoted else None
