"""The runtime: many Raft groups of one node on one event loop, with their disks and their peers.

`MultiRaft` is the one to use. It is the only place that carries the core's effects out.
"""

from quorate.consensus.runtime.boot import next_boot
from quorate.consensus.runtime.errors import (
    BadInput,
    Busy,
    NoRoom,
    NoSuchGroup,
    NotLeading,
    OperationFailed,
    ReplicaStopped,
    Superseded,
    Uncertain,
)
from quorate.consensus.runtime.group import FollowerStatus, GroupStatus, StateMachine, Watcher
from quorate.consensus.runtime.loops import new_event_loop, tune_process
from quorate.consensus.runtime.multiraft import MultiRaft, NodeConfig
from quorate.consensus.runtime.proposals import Outcome, Proposed
from quorate.consensus.runtime.settings import RuntimeSettings

__all__ = [
    "BadInput",
    "Busy",
    "FollowerStatus",
    "GroupStatus",
    "MultiRaft",
    "NoRoom",
    "NoSuchGroup",
    "NodeConfig",
    "NotLeading",
    "OperationFailed",
    "Outcome",
    "Proposed",
    "ReplicaStopped",
    "RuntimeSettings",
    "StateMachine",
    "Superseded",
    "Uncertain",
    "Watcher",
    "new_event_loop",
    "next_boot",
    "tune_process",
]
