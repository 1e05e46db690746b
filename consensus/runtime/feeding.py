"""From proposers into the core: each group may add so much per turn, and so much may wait for a quorum; the rest queues.

So a group that is flooded keeps its own proposers waiting, and nobody else's.
"""

from __future__ import annotations

from quorate.consensus.clock.hybrid import ClockUncertain
from quorate.consensus.core import GroupId, Refused, Role
from quorate.consensus.runtime.counters import Counters
from quorate.consensus.runtime.errors import Busy, NoRoom, NotLeading, OperationFailed, UncertainClock, translate
from quorate.consensus.runtime.group import Group
from quorate.consensus.runtime.proposals import Proposal
from quorate.consensus.runtime.settings import RuntimeSettings
from quorate.consensus.runtime.stamping import stamp_place, stamp_time


class Feeder:
    """Places the proposals of all groups of a node. `turn` is the number of the current turn of the loop."""

    __slots__ = ("_counters", "_hungry", "_settings", "turn")

    def __init__(self, settings: RuntimeSettings, counters: Counters) -> None:
        self.turn = 0
        self._settings = settings
        self._counters = counters
        self._hungry: dict[GroupId, Group] = {}
        """Groups whose queue is not empty, in the order in which they are served."""

    def submit(self, group: Group, proposal: Proposal) -> None:
        """Place a batch, or queue it. Raises OperationFailed; then nothing happened and `done` is never called."""
        if group.full:
            raise NoRoom("the disk is full")
        if not group.proposals.queue and self._may_place(group, len(proposal.data)):
            self._place(group, proposal)
        else:
            self._enqueue(group, proposal)

    def feed(self) -> None:
        """Serve the queues: each group its share of this turn, the one that was served first goes last next time."""
        for key, group in list(self._hungry.items()):
            del self._hungry[key]
            proposals = group.proposals
            while proposals.queue and self._may_place(group, len(proposals.queue[0].data)):
                proposal = proposals.dequeue()
                try:
                    self._place(group, proposal)
                except OperationFailed as error:
                    # What stands behind it must not overtake it: a producer's later batches would leave a gap.
                    for refused in (proposal, *proposals.drop_queue()):
                        self._counters.failed += 1
                        refused.done(error)
            if proposals.queue:
                self._hungry[key] = group

    def eager(self) -> bool:
        """Whether some queue could be served at once if there were another turn."""
        return any(
            group.proposals.queue and self._fits_window(group, len(group.proposals.queue[0].data))
            for group in self._hungry.values()
        )

    def forget(self, group: Group) -> None:
        """The group's queue was emptied by others."""
        self._hungry.pop(group.raft.group, None)

    def _enqueue(self, group: Group, proposal: Proposal) -> None:
        raft, proposals, settings = group.raft, group.proposals, self._settings
        if raft.role is not Role.LEADER:
            raise NotLeading(raft.leader)
        size = len(proposal.data)
        if len(proposals.queue) >= settings.queue_batches or (
            proposals.queue and proposals.queued_bytes + size > settings.queue_bytes
        ):
            raise Busy(f"{len(proposals.queue)} proposals of {proposals.queued_bytes} bytes are waiting already")
        proposals.enqueue(proposal)
        self._hungry[raft.group] = group

    def _may_place(self, group: Group, size: int) -> bool:
        """Whether the group may add `size` bytes in this turn: its share of the turn, and its window."""
        settings = self._settings
        if group.turn != self.turn:
            group.turn, group.turn_batches, group.turn_bytes = self.turn, 0, 0
        if group.turn_batches >= settings.turn_batches:
            return False
        if group.turn_bytes and group.turn_bytes + size > settings.turn_bytes:
            return False
        return self._fits_window(group, size)

    def _fits_window(self, group: Group, size: int) -> bool:
        uncommitted = group.raft.uncommitted_bytes
        return not uncommitted or uncommitted + size <= self._settings.window_bytes

    def _place(self, group: Group, proposal: Proposal) -> None:
        """Give a batch its time and its place in the log. Raises OperationFailed."""
        data, raft = proposal.data, group.raft
        if raft.role is not Role.LEADER:
            raise NotLeading(raft.leader)
        try:
            stamp = group.clock.stamp()
            checksum = stamp_time(data, proposal.count, stamp)
            batch = raft.propose(data, proposal.count)
        except Refused as error:
            raise translate(error) from error
        except ClockUncertain as error:
            raise UncertainClock(str(error)) from error
        stamp_place(data, batch, checksum)
        proposal.stamp = stamp
        proposal.base, proposal.last, proposal.term = batch.base, batch.last, batch.term
        group.proposals.place(proposal)
        group.turn_batches += 1
        group.turn_bytes += len(data)
        self._counters.proposals += 1
