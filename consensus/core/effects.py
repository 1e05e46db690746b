"""What the core wants done. It never does any of it itself."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from quorate.consensus.core.messages import Message
from quorate.consensus.core.types import Batch, HardState, LogStart, Offset, ReplicaId, Snapshot, Term, Token


class Role(Enum):
    """What a replica is to its group at the moment."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"
    STOPPED = "stopped"


class Persist(NamedTuple):
    """One atomic write. Writes of a replica are carried out in the order in which they were taken.

    Within one write, in this order: `snapshot` replaces the log and all state; `truncate` drops every batch above that
    offset; `batches` follow; `start` moves the log's beginning up; `hard_state` is put beside them.
    """

    token: Token
    sync: bool
    """Whether the write must be on disk before its token comes back. Not so for a commit hint or a moved start."""
    hard_state: HardState | None = None
    snapshot: Snapshot | None = None
    truncate: Offset | None = None
    batches: tuple[Batch, ...] = ()
    start: LogStart | None = None


class ReadState(NamedTuple):
    """Read `id` is linearizable once the state machine has applied `offset`."""

    id: int
    offset: Offset


class LogRead(NamedTuple):
    """A follower needs batches that are no longer in memory: read them from `first` on and `supply` them."""

    to: ReplicaId
    first: Offset
    max_bytes: int


class RoleChange(NamedTuple):
    """Where the replica stands now: role, term, and the leader as far as it is known (0: unknown)."""

    role: Role
    term: Term
    leader: ReplicaId


class Effects:
    """Everything that follows from the inputs since the last `take`. The driver's order of work:

    1. Start `persist` (one queue of writes per replica, in order) and send `send` at the same time. Requests promise
       nothing about this replica's disk, so they need not wait for it; that hides one fsync behind one round trip.
    2. When the write is durable, and every earlier one is: send `send_after_sync`, *then* call `persisted(token)`. These
       messages promise that something is on disk: a matched log, a vote. With nothing to persist they wait for the earlier
       writes only. After a failed write none of them may ever leave: call `stop(reason)`.
    3. `commit` and `role` may be acted on at once. `apply` names batches that are committed *and* durable here, so they can
       be read back from the log. A `persist.snapshot` is loaded into the state machine before anything is applied after it.
    4. `log_reads` are answered by `supply` (with nothing, if they cannot be read), `snapshots` by `send_snapshot`, when
       they are ready. An unanswered snapshot is asked for again.

    Nothing in here may be dropped, except messages: a lost message costs time, nothing else.
    """

    __slots__ = (
        "apply",
        "commit",
        "failed_reads",
        "log_reads",
        "persist",
        "reads",
        "role",
        "send",
        "send_after_sync",
        "snapshots",
    )

    def __init__(self) -> None:
        self.persist: Persist | None = None
        self.send: list[Message] = []
        self.send_after_sync: list[Message] = []
        self.commit: Offset | None = None
        """The commit offset, if it rose. Proposals up to it are decided."""
        self.apply: tuple[Offset, Offset] | None = None
        """First and last offset to apply; ranges follow each other without gap or overlap."""
        self.reads: list[ReadState] = []
        self.failed_reads: list[int] = []
        """Reads that lost their leader: nothing was read, ask the new one."""
        self.log_reads: list[LogRead] = []
        self.snapshots: list[ReplicaId] = []
        """Followers that need a snapshot: answer with `send_snapshot`."""
        self.role: RoleChange | None = None
