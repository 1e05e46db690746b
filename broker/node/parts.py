"""What a node is put together from. In production always the defaults; a node under test may be given something else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from quorate.broker.groups.logs import Logs
from quorate.broker.node.coordination import Coordination
from quorate.broker.node.hosting import OpenLog
from quorate.broker.node.settings import NodeSettings
from quorate.broker.partition.partition import Partition
from quorate.broker.partition.settings import PartitionSettings
from quorate.consensus.clock.kernel import SystemTime, TimeSource
from quorate.consensus.core import GroupId
from quorate.consensus.runtime import MultiRaft, NodeConfig
from quorate.consensus.storage.api import LogStore
from quorate.consensus.storage.level import LevelLog

MakePartition = Callable[[MultiRaft, GroupId, LogStore, PartitionSettings, TimeSource], Partition]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """How the pieces of a node are made."""

    time: TimeSource = field(default_factory=SystemTime)
    """Where all wall-clock time of the node comes from."""
    open_log: OpenLog = LevelLog.open
    runtime: Callable[[NodeConfig], MultiRaft] = MultiRaft
    partition: MakePartition = Partition
    coordination: Callable[[MultiRaft, GroupId, Logs], Coordination] = Coordination


def system_time(settings: NodeSettings) -> SystemTime:
    """The machine's clock, as far off as the settings or the kernel say."""
    uncertainty_ms = settings.clock.uncertainty_ms
    return SystemTime(None if uncertainty_ms < 0 else uncertainty_ms)
