"""The replicas on this node: those that the metadata says it should have are started, the others are stopped and deleted.

A replica id is used once. Before a replica's folder is deleted its id goes into `gone/`, so that metadata from before, which
a restart may begin with, does not start it again with an empty log. Before a replica takes part its id goes into `made/`: if
its log is missing later, it was lost, and with it what the replica has promised.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from quorate.broker.cluster.state import ClusterState
from quorate.broker.cluster.values import CLUSTER_GROUP, PartitionInfo
from quorate.consensus.core import Configuration, GroupId, NodeId, ReplicaId, Restored, new_group, new_replica, node_of
from quorate.consensus.core.types import incarnation_of
from quorate.consensus.storage.api import StorageError, StorageFailed
from quorate.consensus.storage.folder import sync_folder
from quorate.consensus.storage.level import LevelLog
from quorate.consensus.storage.settings import StorageSettings

_log = logging.getLogger(__name__)
_AT_ONCE = 4
_FOLDER = re.compile(r"g(\d+)-(\d+)")


OpenLog = Callable[[Path, Restored, StorageSettings], LevelLog]


class Wanted(NamedTuple):
    """A replica that should run here."""

    group: GroupId
    replica: ReplicaId
    queue: str
    number: int
    """The partition's, in its queue."""
    partition: PartitionInfo


class Failed(NamedTuple):
    """A replica that should run here, and why it does not."""

    wanted: Wanted
    reason: str


def wanted_here(state: ClusterState, me: NodeId) -> dict[GroupId, Wanted]:
    """What should run on this node."""
    wanted = {}
    for group, (queue, index) in state.by_group.items():
        partition = queue.partitions[index]
        for replica in partition.members:
            if node_of(replica) == me:
                wanted[group] = Wanted(group, replica, queue.name, index, partition)
    return wanted


def is_over(state: ClusterState, me: NodeId, group: GroupId, incarnation: int) -> bool:
    """Whether the metadata knows this replica and does not want it any more. What is newer than the metadata is not over."""
    if group == CLUSTER_GROUP:
        return False
    found = state.by_group.get(group)
    if found is None:
        return group < state.next_group
    queue, index = found
    here = [incarnation_of(replica) for replica in queue.partitions[index].members if node_of(replica) == me]
    return incarnation not in here and incarnation <= state.incarnations[group]


class Room:
    """The replicas in a node's folder: `logs/` holds their logs, `made/` what was ever begun here."""

    def __init__(self, home: Path, me: NodeId, settings: StorageSettings, open_log: OpenLog = LevelLog.open) -> None:
        self._folder = folder = home / "logs"
        self._made = home / "made"
        self._open_log = open_log
        self._me = me
        self._settings = settings
        (folder / "gone").mkdir(parents=True, exist_ok=True)
        self._made.mkdir(exist_ok=True)
        sync_folder(home)
        for trash in folder.glob("trash-*"):
            shutil.rmtree(trash, ignore_errors=True)

    def path(self, group: GroupId, replica: ReplicaId) -> Path:
        return self._folder / f"g{group}-{incarnation_of(replica)}"

    def incarnation(self, group: GroupId) -> int | None:
        """The incarnation of the newest replica of a group that was ever begun here; None if there was none."""
        names = [path.name for folder in (self._folder, self._made) for path in folder.iterdir()]
        found = [match for match in map(_FOLDER.fullmatch, names) if match is not None and int(match[1]) == group]
        return max((int(match[2]) for match in found), default=None)

    def open(self, group: GroupId, replica: ReplicaId, first: tuple[ReplicaId, ...]) -> LevelLog | None:
        """The replica's log; None if the replica was deleted here before. Blocks. Raises StorageError."""
        path = self.path(group, replica)
        if (self._folder / "gone" / path.name).exists():
            return None
        made = self._made / path.name
        if made.exists() and not path.exists():
            raise StorageFailed(
                f"{path} is missing: the replica's log was lost, and with it its votes, so it is not begun anew."
                " Put the folder back, or drain this node, so that the partition gets another replica"
            )
        begins = new_group(Configuration(voters=frozenset(first))) if replica in first else new_replica()
        log = self._open_log(path, begins, self._settings)
        if not made.exists():
            # After the log, so that a crash in between leaves no replica that seems lost; before it takes part.
            _mark(made)
        return log

    def delete(self, path: Path) -> None:
        """Delete a replica's folder for good. Blocks."""
        _mark(self._folder / "gone" / path.name)
        trash = self._folder / f"trash-{path.name}"
        if path.exists():
            path.rename(trash)
        shutil.rmtree(trash, ignore_errors=True)

    def over(self, state: ClusterState) -> list[Path]:
        """Folders of replicas that are over."""
        found = []
        for path in self._folder.iterdir():
            match = _FOLDER.fullmatch(path.name)
            if match is not None and is_over(state, self._me, GroupId(int(match[1])), int(match[2])):
                found.append(path)
        return found


def _mark(marker: Path) -> None:
    """Leave an empty file, durably."""
    os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
    sync_folder(marker.parent)


Start = Callable[[Wanted, LevelLog], Awaitable[None]]
Stop = Callable[[GroupId], Awaitable[None]]


class Hosting:
    """Keeps what runs here in step with the metadata. Call `poke` after every change of it."""

    def __init__(self, state: ClusterState, me: NodeId, room: Room, start: Start, stop: Stop) -> None:
        self._state = state
        self._me = me
        self._room = room
        self._start = start
        self._stop = stop
        self.running: dict[GroupId, Wanted] = {}
        self.failed: dict[GroupId, Failed] = {}
        """Replicas that could not be started, and why. They are not tried again before the node starts again."""
        self._poked = asyncio.Event()

    def poke(self) -> None:
        """The metadata may have changed."""
        self._poked.set()

    async def run(self) -> None:
        """Follow the metadata for ever."""
        while True:
            await self._poked.wait()
            self._poked.clear()
            await self.reconcile()

    async def reconcile(self) -> None:
        """Stop and delete what is over, start what is missing."""
        wanted = wanted_here(self._state, self._me)
        for group, running in list(self.running.items()):
            if group not in wanted or wanted[group].replica != running.replica:
                del self.running[group]
                await self._stop(group)
        for path in await asyncio.to_thread(self._room.over, self._state):
            _log.info("deleting %s: the replica is not wanted here any more", path)
            await asyncio.to_thread(self._room.delete, path)
        for group, failed in list(self.failed.items()):
            if group not in wanted or wanted[group].replica != failed.wanted.replica:
                del self.failed[group]
        gate = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            for group, one in wanted.items():
                if group not in self.running and group not in self.failed:
                    tasks.create_task(self._begin(one, gate))

    async def _begin(self, wanted: Wanted, gate: asyncio.Semaphore) -> None:
        async with gate:
            try:
                log = await asyncio.to_thread(self._room.open, wanted.group, wanted.replica, wanted.partition.first)
                if log is None:
                    return
                if wanted.group not in self._state.by_group:
                    # Deleted while its log was being opened. There is another poke for that, which deletes the folder.
                    await asyncio.to_thread(log.close)
                    return
                await self._start(wanted, log)
            except (StorageError, OSError, ValueError) as error:
                # One damaged log, or state in it, must not keep the node's other replicas from starting.
                _log.error("replica of %s/%s cannot be started: %s", wanted.queue, wanted.number, error)
                self.failed[wanted.group] = Failed(wanted, str(error))
                return
        self.running[wanted.group] = wanted
