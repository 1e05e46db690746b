"""What the core's callers are told when they ask for something that cannot be done now.

Every one of these is definite: the operation has not happened and will not happen. `step` and `tick` never raise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.consensus.core.types import show_replica

if TYPE_CHECKING:
    from quorate.consensus.core.types import ReplicaId


class Refused(Exception):
    """The request was refused and changed nothing. `retriable` says whether the same call may succeed later."""

    retriable = True


class NotLeader(Refused):
    """Only the leader can do this; `leader` is who leads as far as this replica knows, or 0."""

    def __init__(self, leader: ReplicaId) -> None:
        super().__init__(f"not the leader; the leader is {show_replica(leader)}")
        self.leader = leader


class Transferring(Refused):
    """Leadership is being handed over: ask the new leader in a moment."""

    def __init__(self, to: ReplicaId) -> None:
        super().__init__(f"leadership is being transferred to {show_replica(to)}")
        self.to = to


class Overloaded(Refused):
    """More bytes wait for a quorum than `max_uncommitted_bytes` allows: slow down."""


class ChangeInProgress(Refused):
    """An earlier configuration change, or the leader's first commit, is not finished yet."""


class BadRequest(Refused):
    """The request can never be granted as it is."""

    retriable = False


class Stopped(Refused):
    """This replica has stopped: a write failed, or its state broke an invariant."""

    retriable = False
