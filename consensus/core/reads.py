"""Linearizable reads: which ones wait for which heartbeat round.

A read is served at the commit offset of the moment its round begins, once a quorum has answered that round or a later one:
then no newer leader can have committed anything before the read was asked for.
"""

from __future__ import annotations

from quorate.consensus.core.effects import ReadState
from quorate.consensus.core.types import Offset


class Reads:
    """Reads of one leader in one term. A read is new, then waits for its round, then is served or fails."""

    __slots__ = ("_new", "_waiting", "round")

    def __init__(self) -> None:
        self.round = 0
        """The number of the newest heartbeat round; it never falls while the replica lives."""
        self._new: list[int] = []
        self._waiting: list[tuple[int, Offset, int]] = []

    @property
    def pending(self) -> bool:
        return bool(self._new or self._waiting)

    @property
    def fresh(self) -> bool:
        """Whether some reads have no round yet."""
        return bool(self._new)

    def ask(self, read: int) -> None:
        self._new.append(read)

    def begin_round(self, commit: Offset | None) -> int:
        """A new heartbeat round; unless `commit` is None (not known yet), new reads are bound to it."""
        self.round += 1
        if commit is not None:
            self._waiting.extend((read, commit, self.round) for read in self._new)
            self._new.clear()
        return self.round

    def confirmed(self, quorum_round: int) -> list[ReadState]:
        """The reads whose round a quorum has answered, in order."""
        served = 0
        for _, _, bound in self._waiting:
            if bound > quorum_round:
                break
            served += 1
        states = [ReadState(read, offset) for read, offset, _ in self._waiting[:served]]
        del self._waiting[:served]
        return states

    def fail(self) -> list[int]:
        """All reads that are not served: leadership is lost."""
        failed = [read for read, _, _ in self._waiting] + self._new
        self._waiting.clear()
        self._new.clear()
        return failed
