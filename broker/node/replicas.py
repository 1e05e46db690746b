"""The replicas that run on a node: partitions of queues and coordinators of groups, started and stopped as told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

from quorate.broker.cluster.queue_settings import effective
from quorate.broker.cluster.state import ClusterState
from quorate.broker.cluster.values import GROUPS_QUEUE
from quorate.broker.node.coordination import Coordination
from quorate.broker.node.hosting import Wanted
from quorate.broker.node.parts import Parts
from quorate.broker.partition.partition import Partition
from quorate.broker.partition.settings import PartitionSettings
from quorate.consensus.core import GroupId, Offset, Role, RoleChange, Term
from quorate.consensus.runtime import MultiRaft, OperationFailed, StateMachine, Watcher
from quorate.consensus.storage.api import StorageError
from quorate.consensus.storage.level import LevelLog

_FIRST_TRIES = 10
_FIRST_PAUSE_S = 0.02
"""The other replicas of a new group may not be there yet."""

RoleHeard = Callable[[GroupId, RoleChange], None]


class Herald:
    """Tells the node of a replica's roles, and the replica of everything. Commits go straight to the replica."""

    __slots__ = ("_group", "_inner", "_told", "committed")

    def __init__(self, group: GroupId, inner: Watcher, told: RoleHeard) -> None:
        self._group = group
        self._inner = inner
        self._told = told
        self.committed = inner.committed

    def role_changed(self, change: RoleChange, term_start: Offset) -> None:
        self._inner.role_changed(change, term_start)
        self._told(self._group, change)


class Silent:
    """The watcher of a replica that needs none."""

    def committed(self, commit: Offset) -> None:
        """Nobody here waits for it."""

    def role_changed(self, change: RoleChange, term_start: Offset) -> None:
        """The herald says it."""


class Replicas:
    """What runs here, and what of it leads."""

    def __init__(self, runtime: MultiRaft, state: ClusterState, on_role: RoleHeard, parts: Parts) -> None:
        self._parts = parts
        self._runtime = runtime
        self._state = state
        self._on_role = on_role
        self.partitions: dict[GroupId, Partition] = {}
        self.coordinations: dict[GroupId, Coordination] = {}
        self.led: dict[GroupId, Term] = {}
        """The groups that are led here, with their terms."""

    async def start(self, wanted: Wanted, log: LevelLog) -> None:
        """Run a replica on its log. Raises StorageError, and ValueError for a state that cannot be read."""
        group = wanted.group
        machine: StateMachine
        watcher: Watcher
        if wanted.queue == GROUPS_QUEUE:
            machine = watcher = self.coordinations[group] = self._parts.coordination(self._runtime, group, self._state)
        else:
            settings = partition_settings(self._state.queues[wanted.queue].settings)
            partition = self._parts.partition(self._runtime, group, log, settings, self._parts.time)
            machine = watcher = self.partitions[group] = partition
        fresh = log.last < 0
        try:
            await self._runtime.add_group(group, wanted.replica, log, machine, watcher=self.herald(group, watcher))
        except (StorageError, ValueError):
            self._forget(group)
            await asyncio.to_thread(log.close)
            raise
        if fresh and wanted.replica == wanted.partition.first[0]:
            self._lead_first(group, _FIRST_TRIES)

    def _lead_first(self, group: GroupId, tries: int) -> None:
        """A new group need not wait for silence: its preferred replica asks for votes until somebody leads."""
        try:
            self._runtime.campaign(group)
            if tries and not self._runtime.status(group).leader:
                asyncio.get_running_loop().call_later(_FIRST_PAUSE_S, self._lead_first, group, tries - 1)
        except OperationFailed:
            return  # it was stopped meanwhile

    def herald(self, group: GroupId, watcher: Watcher) -> Herald:
        """A watcher that tells the node too."""
        return Herald(group, watcher, self._heard)

    def _heard(self, group: GroupId, change: RoleChange) -> None:
        if change.role is Role.LEADER:
            self.led[group] = change.term
        else:
            self.led.pop(group, None)
        self._on_role(group, change)

    async def stop(self, group: GroupId) -> None:
        """Stop a replica; its log is closed."""
        self._forget(group)
        await self._runtime.remove_group(group)

    def _forget(self, group: GroupId) -> None:
        self.partitions.pop(group, None)
        coordination = self.coordinations.pop(group, None)
        if coordination is not None:
            coordination.close()
        self.led.pop(group, None)

    def refresh_settings(self) -> None:
        """The settings of queues may have changed."""
        for group, partition in self.partitions.items():
            found = self._state.by_group.get(group)
            if found is not None:
                settings = partition_settings(found[0].settings)
                if settings != partition.settings:
                    partition.settings = settings

    def forget_queue(self, name: str) -> None:
        """A queue was deleted: its consumers' offsets go too."""
        for coordination in self.coordinations.values():
            coordination.forget_queue(name)

    def __iter__(self) -> Iterator[GroupId]:
        return iter((*self.partitions, *self.coordinations))

    def close(self) -> None:
        """Whoever waits for a coordinator is told that it has moved."""
        for coordination in self.coordinations.values():
            coordination.close()


def partition_settings(settings: Mapping[str, str]) -> PartitionSettings:
    """A queue's settings as its partitions understand them."""
    retention_ms, retention_bytes = (int(effective(settings, name)) for name in ("retention.ms", "retention.bytes"))
    return PartitionSettings(
        max_message_bytes=int(effective(settings, "max.message.bytes")),
        retention_ms=None if retention_ms < 0 else retention_ms,
        retention_bytes=None if retention_bytes < 0 else retention_bytes,
        stage_expiry_ms=int(effective(settings, "stage.expiry.ms")),
    )
