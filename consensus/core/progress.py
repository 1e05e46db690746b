"""What a leader knows about one follower, and how much it may send to it.

probe: it is not known where the logs agree; one append at a time, until an answer or a heartbeat's answer.
replicate: it is known; appends are pipelined, bounded in messages and bytes.
snapshot: the follower needs what was compacted; nothing else is sent until it has it.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from quorate.consensus.core.types import NEVER, NO_OFFSET, Millis, Offset, ReplicaId


class Signal:
    """When a node was last heard of, shared by all groups that are vouched for by its beats.

    A beat refreshes this one field instead of a timer in each of a thousand groups.
    """

    __slots__ = ("heard_at", "stale")

    def __init__(self) -> None:
        self.heard_at: Millis = NEVER
        self.stale = False
        """A group that relied on this signal no longer does: the claims have to be looked at again."""


class Pace(Enum):
    """How a follower is fed."""

    PROBE = "probe"
    REPLICATE = "replicate"
    SNAPSHOT = "snapshot"


class Progress:
    """One follower as its leader sees it. Invariant: match < next; match never falls; inflight lies in (match, next)."""

    __slots__ = (
        "_inflight",
        "commit",
        "commit_round",
        "commit_sent",
        "heard_at",
        "inflight_bytes",
        "match",
        "next",
        "pace",
        "paused",
        "reading",
        "replica",
        "round",
        "signal",
        "snapshot_at",
    )

    def __init__(self, replica: ReplicaId, following: Offset) -> None:
        self.replica = replica
        self.pace = Pace.PROBE
        self.match: Offset = NO_OFFSET
        """The follower's log is durable and equal up to here."""
        self.next: Offset = following
        """The base of the next batch to send."""
        self.commit: Offset = NO_OFFSET
        """The highest commit offset that the follower said it has."""
        self.commit_round = -1
        """Only answers to later heartbeat rounds say anything about it: the follower has restarted since."""
        self.commit_sent: Offset = NO_OFFSET
        """The highest commit offset that the follower was told."""
        self.paused = False
        """An append is out in probe pace: wait for a sign before the next."""
        self.reading = False
        """The driver was asked for batches that are not in memory."""
        self.heard_at: Millis = NEVER
        self.round = 0
        """The newest heartbeat round that the follower answered in this term."""
        self.signal: Signal | None = None
        """Set while the follower's node confirms this leader in its beats."""
        self.snapshot_at: Millis = NEVER
        """When the snapshot was asked for or sent."""
        self._inflight: deque[tuple[Offset, int]] = deque()
        self.inflight_bytes = 0

    @property
    def inflight(self) -> int:
        """How many appends are unanswered."""
        return len(self._inflight)

    def last_heard(self) -> Millis:
        """The last sign of life, from this group or from the node as a whole."""
        if self.signal is not None and self.signal.heard_at > self.heard_at:
            return self.signal.heard_at
        return self.heard_at

    def sent(self, last: Offset, size: int) -> None:
        """An append with batches up to `last` left in replicate pace."""
        self._inflight.append((last, size))
        self.inflight_bytes += size
        self.next = Offset(last + 1)

    def acknowledged(self, match: Offset) -> bool:
        """The follower has everything up to `match`; whether that is news."""
        inflight = self._inflight
        while inflight and inflight[0][0] <= match:
            self.inflight_bytes -= inflight.popleft()[1]
        if self.next <= match:
            self.next = Offset(match + 1)
        if match <= self.match:
            return False
        self.match = match
        return True

    def probe(self, following: Offset) -> None:
        """Find out again where the logs agree, beginning with the append that starts at `following`."""
        self.pace = Pace.PROBE
        self.next = Offset(max(following, self.match + 1))
        self._idle()

    def replicate(self) -> None:
        """The logs are known to agree up to `match`: feed the pipeline from there."""
        self.pace = Pace.REPLICATE
        self.next = Offset(self.match + 1)
        self._idle()

    def need_snapshot(self, now: Millis) -> None:
        self.pace = Pace.SNAPSHOT
        self.snapshot_at = now
        self._idle()

    def forget_commit(self, round: int) -> None:
        """The follower restarted, and may know less than it said in answers up to this heartbeat round."""
        self.commit = NO_OFFSET
        self.commit_round = round

    def _idle(self) -> None:
        self.paused = False
        self.reading = False
        self._inflight.clear()
        self.inflight_bytes = 0

    def check_invariants(self) -> None:
        """Raise AssertionError if the fields contradict each other. Called by tests after every step."""
        assert self.match < self.next, "match < next"
        assert self.inflight_bytes == sum(size for _, size in self._inflight)
        assert all(self.match < last < self.next for last, _ in self._inflight), "inflight lies in (match, next)"
        if self.pace is not Pace.REPLICATE:
            assert not self._inflight, "only replicate pace has appends in flight"
