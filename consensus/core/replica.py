"""The state of one replica, and the few moves that every part of the core makes on it.

The behaviour is in the layers above: `follower`, `leader`, `election`, and `raft`, which is the one to import.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

from quorate.consensus.core.effects import Effects, Role, RoleChange
from quorate.consensus.core.log import Log, Restored
from quorate.consensus.core.membership import Configuration
from quorate.consensus.core.messages import Message
from quorate.consensus.core.progress import Progress, Signal
from quorate.consensus.core.reads import Reads
from quorate.consensus.core.settings import RaftSettings
from quorate.consensus.core.types import (
    FAR,
    NEVER,
    NO_OFFSET,
    NO_REPLICA,
    NO_TERM,
    GroupId,
    HardState,
    Millis,
    Offset,
    Randomness,
    ReplicaId,
    Snapshot,
    Term,
)


class Clock:
    """The time of the current turn, shared by all groups of a node. Only `tick` moves it, and never back."""

    __slots__ = ("now",)

    def __init__(self, now: Millis = Millis(0)) -> None:
        self.now = now


class Replica(ABC):
    """One replica of one group: what it remembers, what it believes, what it is about to say."""

    __slots__ = (
        "_ack",
        "_awake",
        "_cut",
        "_durable",
        "_hard_state",
        "_heartbeat_due",
        "_moved_start",
        "_news_due",
        "_next_read",
        "_out",
        "_quorum_due",
        "_sequence",
        "_snapshot",
        "_snapshot_sequence",
        "_synced",
        "_told_commit",
        "_told_role",
        "_transfer_until",
        "_truncated",
        "_uncommitted",
        "_vote_sequence",
        "_wake",
        "claims_changed",
        "clock",
        "configuration",
        "cover",
        "deadline",
        "group",
        "heard_at",
        "ignored",
        "leader",
        "log",
        "progress",
        "random",
        "reads",
        "replica",
        "role",
        "settings",
        "stop_reason",
        "term",
        "term_start",
        "timeout_ms",
        "timer_from",
        "transfer_to",
        "uncommitted_bytes",
        "vote",
        "votes",
    )

    def __init__(
        self,
        group: GroupId,
        replica: ReplicaId,
        restored: Restored,
        settings: RaftSettings,
        random: Randomness,
        clock: Clock | None = None,
    ) -> None:
        self.group = group
        self.replica = replica
        self.settings = settings
        self.random = random
        self.clock = clock if clock is not None else Clock()
        self.log = Log(restored, settings.tail_bytes)
        self.configuration: Configuration = self.log.history.current

        # What must not be forgotten: term and vote never go back, and are durable before anybody relies on them.
        self.term: Term = restored.hard_state.term
        self.vote: ReplicaId = restored.hard_state.vote

        self.role = Role.FOLLOWER
        self.leader: ReplicaId = NO_REPLICA
        self.stop_reason: str | None = None
        self.ignored = 0
        """How many messages were ignored because they cannot be right."""

        # Time. A follower campaigns when max(timer_from, heard_at, cover.heard_at) + timeout_ms has passed.
        self.timer_from: Millis = self.clock.now
        self.heard_at: Millis = NEVER
        self.cover: Signal | None = None
        """Set while the leader's node vouches for the leader in its beats."""
        self.timeout_ms = 0
        self.deadline: Millis = FAR
        """When `tick` has work to do. It may be earlier than needed, never later."""

        # A candidate's.
        self.votes: dict[ReplicaId, bool] = {}
        self._vote_sequence = 0

        # A leader's.
        self.progress: dict[ReplicaId, Progress] = {}
        self.reads = Reads()
        self.term_start: Offset = NO_OFFSET
        """The no-op with which this leader's term begins: only a commit at or above it may be counted."""
        self.transfer_to: ReplicaId = NO_REPLICA
        self._transfer_until: Millis = FAR
        self._heartbeat_due: Millis = FAR
        self._quorum_due: Millis = FAR
        self._news_due: Millis = FAR
        self._uncommitted: deque[tuple[Offset, int]] = deque()
        self.uncommitted_bytes = 0
        self.claims_changed = False
        """Whom this replica leads has changed since the node last looked."""

        # What the next `take` hands out.
        self._out = Effects()
        self._ack: Offset | None = None
        self._hard_state = restored.hard_state
        self._truncated: Offset | None = None
        self._snapshot: Snapshot | None = None
        self._moved_start = False
        self._told_commit = self.log.commit
        self._told_role = RoleChange(self.role, self.term, self.leader)
        self._next_read = 0

        # Writes are numbered. _durable <= _synced <= _sequence once the disk is idle.
        self._sequence = 0
        """The newest write that was taken."""
        self._synced = 0
        """The newest write that somebody waits for."""
        self._durable = 0
        """The newest write that came back."""
        self._cut = 0
        """The newest write that had been taken when batches that it may hold were dropped."""
        self._snapshot_sequence = 0

        # After a restart there may be committed batches to apply.
        self._awake = self.log.applied < self.log.commit
        self._wake: list[Replica] | None = None
        self._reset_timer()

    # Moves that several layers make.

    def touch(self) -> None:
        """There may be something to take."""
        if not self._awake:
            self._awake = True
            if self._wake is not None:
                self._wake.append(self)

    def wake_into(self, queue: list[Replica]) -> None:
        """From now on put this replica into `queue` whenever there is something to take."""
        self._wake = queue
        if self._awake:
            queue.append(self)

    @property
    def awake(self) -> bool:
        """Whether there may be something to take."""
        return self._awake

    def _send(self, message: Message) -> None:
        """A request: it promises nothing about this disk, so it leaves at once."""
        self._out.send.append(message)

    def _send_durably(self, message: Message) -> None:
        """An answer that promises something about this disk: it waits for everything before it to be there."""
        self._out.send_after_sync.append(message)

    def _ignore(self) -> None:
        """The message cannot be right: nothing follows from it."""
        self.ignored += 1

    def _reset_timer(self) -> None:
        """Begin a new election timeout, of a new random length."""
        shortest = self.settings.election_ms
        self.timeout_ms = self.random.randrange(shortest, 2 * shortest)
        self.timer_from = self.clock.now
        if self.role is not Role.LEADER:
            self.deadline = Millis(self.clock.now + self.timeout_ms)

    def _last_sign(self) -> Millis:
        """When the leader was last heard of, directly or through its node."""
        if self.cover is not None and self.cover.heard_at > self.heard_at:
            return self.cover.heard_at
        return self.heard_at

    def _drop_cover(self) -> None:
        if self.cover is not None:
            self.heard_at = self._last_sign()
            self.cover.stale = True
            self.cover = None

    def _hears_leader(self) -> bool:
        """Whether a leader is known to be at work: then nobody needs an election."""
        if self.role is Role.LEADER:
            return True
        return self.leader != NO_REPLICA and self.clock.now - self._last_sign() < self.settings.election_ms

    def _write_pending(self) -> bool:
        """Whether term or vote have changed since they were last given to the disk."""
        return self.term != self._hard_state.term or self.vote != self._hard_state.vote

    def hard_state(self) -> HardState:
        """What must be durable now."""
        return HardState(self.term, self.vote, self.log.commit)

    def _durable_end(self) -> tuple[Offset, Term]:
        """Where the durable part of the log ends, and its term there."""
        term = self.log.terms.term_at(self.log.stable)
        return self.log.stable, term if term is not None else NO_TERM

    @abstractmethod
    def become_follower(self, term: Term, leader: ReplicaId) -> None:
        """Follow `leader` (or nobody yet) in `term`, which is not lower than the current one."""

    @abstractmethod
    def become_leader(self) -> None:
        """Lead the current term, having won its election."""

    @abstractmethod
    def _configured(self) -> None:
        """The configuration in force has changed: it was appended, rolled back, or came with a snapshot."""

    @abstractmethod
    def stop(self, reason: str) -> None:
        """Take no further part: a write failed, or continuing could break a promise."""
