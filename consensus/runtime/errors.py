"""What callers of the runtime are told when something cannot be done, or when it is not known whether it was.

`definite`: it has not happened and will not happen. `retriable`: the same call may succeed later (on the leader).
"""

from __future__ import annotations

from quorate.consensus.core import BadRequest, NotLeader, Refused, ReplicaId, Stopped, Transferring, show_replica


class OperationFailed(Exception):
    """Base of everything that the runtime's operations raise."""

    definite = True
    retriable = True


class NoSuchGroup(OperationFailed):
    """The group has no replica on this node."""

    retriable = False


class NotLeading(OperationFailed):
    """Only the leader can do this. `leader` is who leads as far as is known here, or 0."""

    def __init__(self, leader: ReplicaId) -> None:
        super().__init__(f"this replica does not lead; the leader is {show_replica(leader)}")
        self.leader = leader


class Busy(OperationFailed):
    """Too much is waiting already, or a change is being made: slow down and try again."""


class NoRoom(OperationFailed):
    """The disk is full. Reads go on, and appends are accepted again when there is room."""


class Superseded(OperationFailed):
    """Another leader's batches stand where this one was put: it did not happen."""


class Uncertain(OperationFailed):
    """Leadership was lost, or the replica stopped, before a majority confirmed it. It may still happen."""

    definite = False


class UncertainClock(OperationFailed):
    """This leader's clock may be further off than the group allows: nothing is stamped until it is synchronized."""


class BadInput(OperationFailed):
    """The request can never be granted as it is."""

    retriable = False


class ReplicaStopped(OperationFailed):
    """This replica takes no further part: a write failed, it was removed, or the node is shutting down."""

    retriable = False


def translate(error: Refused) -> OperationFailed:
    """The core's refusal in the runtime's words. All of the core's refusals are definite."""
    if isinstance(error, NotLeader):
        return NotLeading(error.leader)
    if isinstance(error, Transferring):
        return NotLeading(error.to)
    if isinstance(error, Stopped):
        return ReplicaStopped(str(error))
    if isinstance(error, BadRequest):
        return BadInput(str(error))
    return Busy(str(error))
