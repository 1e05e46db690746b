"""The proposals of one group: a bounded queue before the core, and those in the core that wait for their commit.

Decides which proposal has which outcome; the runtime tells the proposers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from quorate.consensus.core import Millis, Offset, Raft, Term
from quorate.consensus.core.types import NO_OFFSET, NO_TERM
from quorate.consensus.runtime.errors import OperationFailed, Superseded, Uncertain
from quorate.consensus.runtime.stamping import Writable


class Proposed(NamedTuple):
    """Where a committed batch stands: its first offset, its log-append time, its term."""

    offset: Offset
    timestamp: Millis
    term: Term


Outcome = Proposed | OperationFailed
Done = Callable[[Outcome], None]
OnLocal = Callable[[Proposed], None]
"""Told that a batch is on this leader's own disk, which promises less than a commit: it may still be lost."""


class Proposal:
    """One batch on its way. `base`, `last`, `term` and `stamp` are set when it enters the core."""

    __slots__ = ("base", "count", "data", "done", "last", "on_local", "stamp", "term")

    def __init__(self, data: Writable, count: int, done: Done, on_local: OnLocal | None = None) -> None:
        self.data = data
        self.count = count
        self.done = done
        self.on_local = on_local
        self.base: Offset = NO_OFFSET
        self.last: Offset = NO_OFFSET
        self.term: Term = NO_TERM
        self.stamp: Millis = Millis(-1)

    def proposed(self) -> Proposed:
        return Proposed(self.base, self.stamp, self.term)


class Proposals:
    """The proposals of one replica. Invariant: `placed` is in the order of offsets; `queued_bytes` counts `queue`;
    `local` are those of `placed`, in order, whose proposers want to know when they are on this disk."""

    __slots__ = ("local", "placed", "queue", "queued_bytes")

    def __init__(self) -> None:
        self.queue: deque[Proposal] = deque()
        self.queued_bytes = 0
        self.placed: deque[Proposal] = deque()
        self.local: deque[Proposal] = deque()

    def enqueue(self, proposal: Proposal) -> None:
        self.queue.append(proposal)
        self.queued_bytes += len(proposal.data)

    def dequeue(self) -> Proposal:
        proposal = self.queue.popleft()
        self.queued_bytes -= len(proposal.data)
        return proposal

    def place(self, proposal: Proposal) -> None:
        """It is in the core's log, above everything else that is placed."""
        self.placed.append(proposal)
        if proposal.on_local is not None:
            self.local.append(proposal)

    def stored(self, raft: Raft, stable: Offset) -> list[Proposal]:
        """Those that this leader's disk now has, that were not decided before, and whose proposers want to know."""
        local, stored = self.local, list[Proposal]()
        while local and local[0].last <= stable:
            proposal = local.popleft()
            if proposal.on_local is not None and proposal.term == raft.term:
                stored.append(proposal)
        return stored

    def committed(self, raft: Raft, commit: Offset) -> list[tuple[Proposal, Outcome]]:
        """The verdict on everything up to `commit`: it stands if its offset still has its term."""
        placed, verdicts = self.placed, list[tuple[Proposal, Outcome]]()
        terms = raft.log.terms
        while placed and placed[0].last <= commit:
            proposal = placed.popleft()
            proposal.on_local = None
            term = terms.term_at(proposal.last)
            if term == proposal.term:
                verdicts.append((proposal, proposal.proposed()))
            elif term is not None:
                verdicts.append((proposal, Superseded("another leader's batches stand at that offset")))
            else:
                # A snapshot jumped over the offset, so its term is not known here any more.
                verdicts.append((proposal, Uncertain("the log was replaced by a snapshot")))
        return verdicts

    def displaced(self, raft: Raft) -> list[Proposal]:
        """Proposals that this log no longer holds. They may live on in another replica's: nothing is decided yet."""
        placed, gone = self.placed, list[Proposal]()
        # Truncation takes the end of the log, so whatever is gone is at the end.
        while placed and raft.log.terms.term_at(placed[-1].last) != placed[-1].term:
            placed[-1].on_local = None
            gone.append(placed.pop())
        return gone

    def oldest_stamp(self) -> Millis | None:
        """The lowest stamp among those in the core; changes of members have none."""
        return next((proposal.stamp for proposal in self.placed if proposal.stamp >= 0), None)

    def drop_queue(self) -> list[Proposal]:
        """Everything that never reached the core."""
        dropped = list(self.queue)
        self.queue.clear()
        self.queued_bytes = 0
        return dropped

    def drop_placed(self) -> list[Proposal]:
        """Everything in the core that was not decided."""
        dropped = list(self.placed)
        self.placed.clear()
        self.local.clear()
        return dropped
