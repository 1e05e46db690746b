"""One replica as the runtime sees it: the core's part, its store, its state machine, and what is under way for it.

State and small decisions only; `multiraft` does the work.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from quorate.consensus.clock.hybrid import HybridClock
from quorate.consensus.core import (
    Batch,
    GroupId,
    Message,
    NodeId,
    Offset,
    Persist,
    Raft,
    ReplicaId,
    Role,
    RoleChange,
    Snapshot,
    Term,
    node_of,
)
from quorate.consensus.core.progress import Pace
from quorate.consensus.runtime.errors import OperationFailed
from quorate.consensus.runtime.proposals import Proposals
from quorate.consensus.storage.api import LogStore, StorageError


class StateMachine(Protocol):
    """What committed batches are for. All calls come from the event loop's thread, one at a time per group."""

    def apply(self, batches: Sequence[Batch]) -> Awaitable[None] | None:
        """Take these in, in order. The next ones come when this has returned, and its awaitable is done."""

    def save(self) -> bytes:
        """The state after everything that was applied."""

    def load(self, offset: Offset, state: bytes) -> None:
        """Start over from a state that reaches up to `offset`."""


class Watcher(Protocol):
    """Who wants to know at once where a replica stands. Called on the loop's thread, in the middle of a turn: be quick."""

    def committed(self, commit: Offset) -> None:
        """The commit offset rose. Proposers were told already; `apply` comes when it is durable here too."""

    def role_changed(self, change: RoleChange, term_start: Offset) -> None:
        """Role, term or leader changed. A leader's term begins with its no-op at `term_start`."""


class Write(NamedTuple):
    """A write that was taken from the core and is not durable yet, and what may be sent once it is."""

    persist: Persist
    after: list[Message]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """How a replica stands, for status pages and tests."""

    group: GroupId
    replica: ReplicaId
    role: Role
    term: Term
    leader: ReplicaId
    start: Offset
    commit: Offset
    stable: Offset
    last: Offset
    applied: Offset
    queued_bytes: int
    uncommitted_bytes: int
    writes_pending: int
    disk_full: bool
    stop_reason: str | None


class FollowerStatus(NamedTuple):
    """A follower as its leader sees it."""

    match: Offset
    """Its log is durable and equal up to here."""
    feeding: bool
    """It is known where the logs agree, and it is sent what follows."""
    silent_ms: int
    """How long ago it was last heard of."""


class Group:
    """One replica. Invariants: `writes` are in the order in which they were taken; applied <= apply_to <= commit."""

    __slots__ = (
        "applied",
        "apply_to",
        "applying",
        "clock",
        "full",
        "install",
        "machine",
        "proposals",
        "raft",
        "reads",
        "store",
        "submitted",
        "turn",
        "turn_batches",
        "turn_bytes",
        "uncertain",
        "waiting_reads",
        "watcher",
        "watchers",
        "writes",
        "written",
    )

    def __init__(
        self,
        raft: Raft,
        store: LogStore,
        machine: StateMachine | None,
        applied: Offset,
        clock: HybridClock,
        watcher: Watcher | None = None,
    ) -> None:
        self.raft = raft
        self.store = store
        self.machine = machine
        self.watcher = watcher
        self.proposals = Proposals()
        self.clock = clock
        """Stamps what this replica appends while it leads."""

        self.writes: deque[Write] = deque()
        self.submitted = 0
        """How many of `writes`, from the first on, the writer pool has."""
        self.written: Callable[[StorageError | None], None] = _nobody_waits
        """What the writer pool calls when one of `writes` came back; set by the driver, once."""
        self.full = False
        """The disk is full: nothing more is given to it until the first write has succeeded."""

        self.applied: Offset = applied
        self.apply_to: Offset = raft.log.applied
        self.applying = False
        self.install: Snapshot | None = None
        """A snapshot that the state machine has to start over from before it goes on."""

        self.reads: dict[int, Callable[[Offset | OperationFailed], None]] = {}
        self.waiting_reads: deque[tuple[Offset, Callable[[Offset | OperationFailed], None]]] = deque()
        """Reads that are linearizable once the state machine has come to their offset."""
        self.watchers: list[asyncio.Future[None]] = []
        """Whoever waits for the role, the term or the leader to change."""
        self.uncertain: asyncio.TimerHandle | None = None

        # How much this group has proposed in the current turn.
        self.turn = 0
        self.turn_batches = 0
        self.turn_bytes = 0

    @property
    def leads(self) -> bool:
        return self.raft.role is Role.LEADER

    def status(self) -> GroupStatus:
        raft, log = self.raft, self.raft.log
        return GroupStatus(
            group=raft.group,
            replica=raft.replica,
            role=raft.role,
            term=raft.term,
            leader=raft.leader,
            start=log.start,
            commit=log.commit,
            stable=log.stable,
            last=log.last,
            applied=self.applied if self.machine is not None else log.applied,
            queued_bytes=self.proposals.queued_bytes,
            uncommitted_bytes=raft.uncommitted_bytes,
            writes_pending=len(self.writes),
            disk_full=self.full,
            stop_reason=raft.stop_reason,
        )

    def followers(self) -> dict[ReplicaId, FollowerStatus]:
        """The other members, if this replica leads."""
        if not self.leads:
            return {}
        now = self.raft.clock.now
        return {
            replica: FollowerStatus(one.match, one.pace is Pace.REPLICATE, now - one.last_heard())
            for replica, one in self.raft.progress.items()
        }

    def heir(self, nodes: Collection[NodeId]) -> ReplicaId | None:
        """The follower on one of these nodes that is best placed to lead: a voter, heard of lately, with the longest log."""
        raft = self.raft
        now, patience = raft.clock.now, raft.settings.election_ms
        heirs = [
            progress
            for voter, progress in raft.progress.items()
            if voter in raft.configuration.voters and node_of(voter) in nodes and now - progress.last_heard() < patience
        ]
        best = max(heirs, key=lambda progress: progress.match, default=None)
        return best.replica if best is not None else None


def _nobody_waits(error: StorageError | None) -> None:
    raise RuntimeError("a write came back to a replica that is not running")
