"""Raft without I/O: no clock, no disk, no network, no randomness of its own. Standard library only.

`Raft` is one replica of one group; `Node` is all groups of a node. `Effects` says what the driver has to do, in which order.
"""

from quorate.consensus.core.effects import Effects, LogRead, Persist, ReadState, Role, RoleChange
from quorate.consensus.core.errors import (
    BadRequest,
    ChangeInProgress,
    NotLeader,
    Overloaded,
    Refused,
    Stopped,
    Transferring,
)
from quorate.consensus.core.log import Restored, new_group, new_replica
from quorate.consensus.core.membership import Configuration
from quorate.consensus.core.messages import Message, NodeMessage
from quorate.consensus.core.node import Node, Turn
from quorate.consensus.core.raft import Raft
from quorate.consensus.core.replica import Clock
from quorate.consensus.core.settings import RaftSettings
from quorate.consensus.core.types import (
    Batch,
    BatchKind,
    GroupId,
    HardState,
    LogStart,
    Millis,
    NodeId,
    Offset,
    ReplicaId,
    Snapshot,
    Term,
    Token,
    incarnation_of,
    node_of,
    replica_id,
    show_replica,
)

__all__ = [
    "BadRequest",
    "Batch",
    "BatchKind",
    "ChangeInProgress",
    "Clock",
    "Configuration",
    "Effects",
    "GroupId",
    "HardState",
    "LogRead",
    "LogStart",
    "Message",
    "Millis",
    "Node",
    "NodeId",
    "NodeMessage",
    "NotLeader",
    "Offset",
    "Overloaded",
    "Persist",
    "Raft",
    "RaftSettings",
    "ReadState",
    "Refused",
    "ReplicaId",
    "Restored",
    "Role",
    "RoleChange",
    "Snapshot",
    "Stopped",
    "Term",
    "Token",
    "Transferring",
    "Turn",
    "incarnation_of",
    "new_group",
    "new_replica",
    "node_of",
    "replica_id",
    "show_replica",
]
