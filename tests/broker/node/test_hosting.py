"""What runs on a node follows the metadata, also while it changes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from quorate.broker.cluster import commands as c
from quorate.broker.cluster.state import ClusterState
from quorate.broker.node.hosting import Hosting, Room, Wanted
from quorate.consensus.core import GroupId, NodeId, ReplicaId
from quorate.consensus.storage.level import LevelLog
from quorate.consensus.storage.settings import StorageSettings
from tests.broker.cluster.test_state import cluster, create

ME = NodeId(1)


class DeletingRoom(Room):
    """While it opens a log, the queue is deleted by somebody else."""

    def __init__(self, folder: Path, state: ClusterState) -> None:
        super().__init__(folder, ME, StorageSettings())
        self._cluster = state

    def open(self, group: GroupId, replica: ReplicaId, first: tuple[ReplicaId, ...]) -> LevelLog | None:
        log = super().open(group, replica, first)
        if "q" in self._cluster.queues:
            self._cluster.judge(c.DeleteQueue(token="", name="q"))
        return log


def test_a_queue_that_is_deleted_while_its_log_is_opened_is_not_started(tmp_path: Path) -> None:
    state = cluster()
    state.judge(create(placement=((1, 2, 3),)))
    started: list[str] = []

    async def start(wanted: Wanted, log: LevelLog) -> None:
        started.append(state.queues[wanted.queue].name)

    async def stop(group: GroupId) -> None:
        raise AssertionError("nothing runs")

    async def follow() -> None:
        hosting = Hosting(state, ME, DeletingRoom(tmp_path, state), start, stop)
        await hosting.reconcile()
        assert started == []
        assert not hosting.running
        await hosting.reconcile()

    asyncio.run(follow())
    assert [path.name for path in tmp_path.glob("g*-*")] == [], "its folder is deleted in the next round"


def test_a_replica_whose_state_cannot_be_read_fails_alone(tmp_path: Path) -> None:
    state = cluster()
    state.judge(create(placement=((1, 2, 3), (1, 2, 4))))
    logs: list[LevelLog] = []

    async def start(wanted: Wanted, log: LevelLog) -> None:
        logs.append(log)
        if wanted.group == 1:
            raise ValueError("a partition's state of 3 bytes ends too early")

    async def stop(group: GroupId) -> None:
        raise AssertionError("nothing is stopped")

    async def follow() -> None:
        hosting = Hosting(state, ME, Room(tmp_path, ME, StorageSettings()), start, stop)
        await hosting.reconcile()
        assert list(hosting.running) == [2]
        assert [(group, failed.reason) for group, failed in hosting.failed.items()] == [
            (1, "a partition's state of 3 bytes ends too early")
        ]

    asyncio.run(follow())
    for log in logs:
        log.close()
