"""The small values that everything in the core is made of: ids, batches, durable state.

All of them are ints, or tuples of ints and bytes. Distinct NewTypes keep a term from being used as an offset.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, NewType, Protocol

if TYPE_CHECKING:
    from quorate.consensus.core.membership import Configuration

Term = NewType("Term", int)
Offset = NewType("Offset", int)
NodeId = NewType("NodeId", int)
GroupId = NewType("GroupId", int)
ReplicaId = NewType("ReplicaId", int)
Millis = NewType("Millis", int)

Buffer = bytes | bytearray | memoryview
"""What a batch's bytes may live in. The core never looks inside, and never copies."""

NO_TERM = Term(0)
NO_REPLICA = ReplicaId(0)
NO_OFFSET = Offset(-1)
"""The offset before the first one: logs start at offset 0, as Kafka's do."""

NEVER = Millis(-(1 << 62))
"""A time before every other, for "not heard yet"."""
FAR = Millis(1 << 62)
"""A time after every other, for "no deadline"."""

_INCARNATION_BITS = 32
_INCARNATION_MASK = (1 << _INCARNATION_BITS) - 1


def replica_id(node: int, incarnation: int = 1) -> ReplicaId:
    """The id of one replica: a node, and which of its lives in this group. It is never used for another replica."""
    if not 0 < node <= _INCARNATION_MASK:
        raise ValueError(f"node must be in 1..{_INCARNATION_MASK}, not {node}")
    if not 0 < incarnation <= _INCARNATION_MASK:
        raise ValueError(f"incarnation must be in 1..{_INCARNATION_MASK}, not {incarnation}")
    return ReplicaId(node << _INCARNATION_BITS | incarnation)


def node_of(replica: ReplicaId) -> NodeId:
    """The node a replica lives on."""
    return NodeId(replica >> _INCARNATION_BITS)


def incarnation_of(replica: ReplicaId) -> int:
    """Which life of its node in the group a replica is; rises with every replica that is added."""
    return replica & _INCARNATION_MASK


def show_replica(replica: ReplicaId) -> str:
    """`2` for the first replica of node 2, `2/5` for a later incarnation, `-` for none."""
    if replica == NO_REPLICA:
        return "-"
    incarnation = incarnation_of(replica)
    return f"{node_of(replica)}" if incarnation == 1 else f"{node_of(replica)}/{incarnation}"


class BatchKind(IntEnum):
    """What a batch holds. The core gives meaning to the last two only."""

    DATA = 0
    NOOP = 1
    CONFIG = 2


class Batch(NamedTuple):
    """One Raft entry: a batch of records that covers offsets `[base, last]`. Control batches cover one offset."""

    base: Offset
    last: Offset
    term: Term
    kind: BatchKind
    data: Buffer

    @property
    def size(self) -> int:
        """Bytes that count against limits: the payload and a fixed share for its header."""
        return len(self.data) + BATCH_OVERHEAD


BATCH_OVERHEAD = 32


class HardState(NamedTuple):
    """What a replica must not forget. `commit` is only a hint: it saves work after a restart, safety never needs it."""

    term: Term = NO_TERM
    vote: ReplicaId = NO_REPLICA
    commit: Offset = NO_OFFSET


class LogStart(NamedTuple):
    """Where a log begins: everything up to `offset` was compacted; `configuration` was in force there."""

    offset: Offset
    term: Term
    configuration: Configuration


class Snapshot(NamedTuple):
    """A log start and the state machine's own state, for a follower whose log ends before it."""

    start: LogStart
    data: Buffer


class Token(NamedTuple):
    """Names one write. It comes back through `persisted` when the write is durable.

    `sequence` orders the writes of one replica. The rest says what the log looked like: a completion that no longer
    describes the log is ignored.
    """

    sequence: int
    term: Term
    last: Offset
    last_term: Term


class Randomness(Protocol):
    """The one thing the core asks of a random source; `random.Random` fits."""

    def randrange(self, start: int, stop: int, /) -> int:
        """An int in `start..stop-1`."""
