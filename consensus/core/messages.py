"""What replicas of a group, and nodes, say to one another.

Messages are plain tuples: the transport encodes them, the simulator loses and doubles them. Each group message names both
replicas in full, so one that was meant for an earlier incarnation is recognized. A message's `term` is its sender's, except
where a pre-vote speaks of the term it would start.
"""

from __future__ import annotations

from typing import NamedTuple

from quorate.consensus.core.types import Batch, GroupId, NodeId, Offset, ReplicaId, Snapshot, Term


class Append(NamedTuple):
    """Batches that follow `previous`. Empty when the leader only probes where the logs agree."""

    group: GroupId
    sender: ReplicaId
    to: ReplicaId
    term: Term
    previous: Offset
    previous_term: Term
    commit: Offset
    batches: tuple[Batch, ...]


class AppendAnswer(NamedTuple):
    """`match`: this log is durable and equal to the leader's up to there.

    When `rejected`, `match` is the `previous` that did not fit, and (`hint`, `hint_term`) the best place to look next.
    """

    group: GroupId
    sender: ReplicaId
    to: ReplicaId
    term: Term
    match: Offset
    rejected: bool
    hint: Offset
    hint_term: Term


class Heartbeat(NamedTuple):
    """The leader is there. `commit` never passes what this follower is known to have. `round` 0 wants no answer."""

    group: GroupId
    sender: ReplicaId
    to: ReplicaId
    term: Term
    commit: Offset
    round: int


class HeartbeatAnswer(NamedTuple):
    """Heard `round`; `commit` is the follower's own."""

    group: GroupId
    sender: ReplicaId
    to: ReplicaId
    term: Term
    commit: Offset
    round: int


class VoteRequest(NamedTuple):
    """Asks for a vote in `term`, claiming only what is durable in the candidate's log.

    `pre`: would you vote for me? Binds nobody. `transfer`: the leader asked for this election, so hearing a leader is no
    reason to refuse.
    """

    group: GroupId
    sender: ReplicaId
    to: ReplicaId
    term: Term
    last: Offset
    last_term: Term
    pre: bool
    transfer: bool


class VoteAnswer(NamedTuple):
    """The answer to a vote request. A granted pre-vote carries the term that was asked about, not the voter's own."""

    group: GroupId
    sender: ReplicaId
    to: ReplicaId
    term: Term
    pre: bool
    granted: bool


class InstallSnapshot(NamedTuple):
    """The follower's log ends before the leader's begins: start over from here."""

    group: GroupId
    sender: ReplicaId
    to: ReplicaId
    term: Term
    snapshot: Snapshot


class TimeoutNow(NamedTuple):
    """You have everything: start an election at once (leadership transfer)."""

    group: GroupId
    sender: ReplicaId
    to: ReplicaId
    term: Term


Message = Append | AppendAnswer | Heartbeat | HeartbeatAnswer | VoteRequest | VoteAnswer | InstallSnapshot | TimeoutNow
"""What one replica of a group says to another."""


class Claim(NamedTuple):
    """One line of a beat: `sender` leads `group` in `term`, and `to` is its follower on the node that is told."""

    group: GroupId
    sender: ReplicaId
    to: ReplicaId
    term: Term


class Beat(NamedTuple):
    """One node's heartbeat to another, for all groups at once.

    `claims` lists every group that the sender leads and the receiver follows. They change rarely, so they have a number and
    are left out (None) once the receiver has said that it knows them.
    """

    sender: NodeId
    to: NodeId
    boot: int
    sequence: int
    version: int
    claims: tuple[Claim, ...] | None


class BeatAnswer(NamedTuple):
    """Heard beat `sequence` of `boot`. `known`: the claims of `version` are here; `refused` are those that do not hold.

    A refused claim comes with the receiver's own term in that group (0 if it has no such replica). `life` is the boot of
    the node that answers: after a restart its replicas may have forgotten what they had heard was committed.
    """

    sender: NodeId
    to: NodeId
    boot: int
    sequence: int
    version: int
    known: bool
    refused: tuple[tuple[GroupId, Term], ...]
    life: int


NodeMessage = Message | Beat | BeatAnswer
"""Whatever one node sends to another."""
