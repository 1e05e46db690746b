"""Disks that fail or fill up, peers that are slow, a group that floods its node: what the others notice."""

from __future__ import annotations

import asyncio
import time

import pytest

from quorate.consensus.core import Configuration, GroupId, NodeId, Role
from quorate.consensus.runtime import Busy, NoRoom, OperationFailed, Proposed, ReplicaStopped, RuntimeSettings, Uncertain
from quorate.consensus.storage.api import LogStore, StorageFailed, StorageFull
from tests.consensus.runtime.faulty import FaultyLog
from tests.consensus.runtime.test_three_nodes import run
from tests.support.cluster import G1, Cluster, until
from tests.support.record_batches import record_batch

G2 = GroupId(2)


class FaultyCluster(Cluster):
    """A cluster whose disks can be made to fail."""

    def __init__(self, groups: tuple[GroupId, ...] = (G1,), runtime: RuntimeSettings | None = None) -> None:
        self.disks: dict[tuple[NodeId, GroupId], FaultyLog] = {}
        super().__init__(groups=groups, store=self.disk, runtime=runtime)

    def disk(self, node: NodeId, group: GroupId, members: Configuration) -> LogStore:
        return self.disks.setdefault((node, group), FaultyLog(members))


def test_a_failed_sync_stops_that_replica_and_no_other() -> None:
    async def main() -> None:
        cluster = FaultyCluster((G1, G2))
        async with cluster:
            leader = await cluster.elected()
            node = cluster.leader()
            assert node is not None
            cluster.disks[node, G1].fault = StorageFailed("the disk said no")
            # The leader's own disk failed, but a majority may have it all the same: both outcomes are right.
            outcome = (await asyncio.gather(leader.propose(G1, record_batch(100), 1), return_exceptions=True))[0]
            assert isinstance(outcome, (Uncertain, Proposed))
            await until(lambda: leader.status(G1).role is Role.STOPPED, "the replica has stopped")
            assert cluster.stopped == [(node, G1, "a write failed: the disk said no")]
            assert leader.counters.replicas_stopped == 1
            with pytest.raises(OperationFailed):
                await leader.propose(G1, record_batch(100), 1)
            with pytest.raises(ReplicaStopped):
                await leader.read_index(G1)
            await cluster.append(G1)
            await cluster.append(G2)
            assert cluster.leader(G1) != node
            assert leader.status(G2).role is not Role.STOPPED

    run(main())


def test_a_full_disk_refuses_proposals_and_recovers_without_a_loss() -> None:
    async def main() -> None:
        cluster = FaultyCluster(runtime=RuntimeSettings(full_retry_ms=10))
        async with cluster:
            leader = await cluster.elected()
            node = cluster.leader()
            assert node is not None
            first = await leader.propose(G1, record_batch(100), 1)
            disk = cluster.disks[node, G1]
            disk.fault = StorageFull("no room")
            # The followers have room: a majority acknowledges what the leader itself cannot write yet.
            second = await leader.propose(G1, record_batch(100), 1)
            await until(lambda: leader.status(G1).disk_full, "it is noticed")
            with pytest.raises(NoRoom) as caught:
                await leader.propose(G1, record_batch(100), 1)
            assert caught.value.definite
            assert caught.value.retriable
            assert await leader.read_index(G1) >= second.offset
            await until(lambda: disk.refused > 3, "it is tried again")
            assert leader.status(G1).role is Role.LEADER
            disk.fault = None
            await until(lambda: not leader.status(G1).disk_full, "there is room again")
            third = await leader.propose(G1, record_batch(100), 1)
            assert [first.offset, second.offset] == [third.offset - 2, third.offset - 1]
            await until(lambda: disk.last == third.offset, "everything is on that disk too")

    run(main())


def test_a_follower_with_a_full_disk_catches_up_when_there_is_room() -> None:
    async def main() -> None:
        cluster = FaultyCluster(runtime=RuntimeSettings(full_retry_ms=10))
        async with cluster:
            leader = await cluster.elected()
            node = next(node for node in cluster.ids if cluster.running[node] is not leader)
            disk = cluster.disks[node, G1]
            disk.fault = StorageFull("no room")
            proposed = [await cluster.append() for _ in range(20)]
            await until(lambda: cluster.running[node].status(G1).disk_full, "it is noticed")
            disk.fault = None
            await until(lambda: disk.last >= proposed[-1].offset, "it has caught up")

    run(main())


def test_a_hot_group_does_not_starve_the_others() -> None:
    async def main() -> None:
        settings = RuntimeSettings(turn_bytes=256 * 1024, window_bytes=1 << 20)
        async with Cluster(groups=(G1, G2), runtime=settings) as cluster:
            leader = await cluster.elected(G1)
            quiet = await cluster.elected(G2)
            if quiet is not leader:
                await quiet.transfer(G2, leader.status(G2).replica)
            flood = [asyncio.ensure_future(leader.propose(G1, record_batch(60_000), 1)) for _ in range(500)]
            await until(lambda: leader.status(G1).queued_bytes > 0, "the hot group queues")
            waits: list[float] = []
            while not flood[-1].done() and len(waits) < 20:
                begin = time.monotonic()
                await leader.propose(G2, record_batch(100), 1)
                waits.append(time.monotonic() - begin)
            took_all = [proposed.offset for proposed in await asyncio.gather(*flood)]
            assert took_all == sorted(took_all)
            assert len(waits) >= 3, "the quiet group waited for the hot one to finish"

    run(main())


def test_queues_are_bounded() -> None:
    async def main() -> None:
        settings = RuntimeSettings(window_bytes=1000, queue_batches=10, queue_bytes=5_000)
        async with Cluster(runtime=settings) as cluster:
            leader = await cluster.elected()
            outcomes = await asyncio.gather(
                *(leader.propose(G1, record_batch(400), 1) for _ in range(50)), return_exceptions=True
            )
            refused = [outcome for outcome in outcomes if isinstance(outcome, Busy)]
            accepted = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
            assert len(refused) + len(accepted) == 50
            assert refused
            assert len(accepted) >= 10
            assert all(error.definite and error.retriable for error in refused)

    run(main())


def test_a_slow_disk_on_one_follower_slows_nobody_down() -> None:
    async def main() -> None:
        cluster = FaultyCluster()
        async with cluster:
            leader = await cluster.elected()
            node = next(node for node in cluster.ids if cluster.running[node] is not leader)
            # A store that waits would hold the loop of all nodes of this process if it were written to on its thread.
            big = RuntimeSettings().write_here_bytes + 1
            await cluster.append(size=big)
            disk = cluster.disks[node, G1]
            disk.gate.clear()
            proposed = [await leader.propose(G1, record_batch(big), 1) for _ in range(20)]
            assert cluster.running[node].status(G1).stable < proposed[-1].offset
            disk.gate.set()
            await until(lambda: disk.last >= proposed[-1].offset, "it has caught up")

    run(main())


def test_proposals_of_a_deposed_leader_are_decided_or_uncertain() -> None:
    async def main() -> None:
        async with Cluster(runtime=RuntimeSettings(uncertain_ms=300)) as cluster:
            leader = await cluster.elected()
            node = cluster.leader()
            assert node is not None
            for other in cluster.ids:
                if other != node:
                    leader.remove_peer(other)
            waiting = asyncio.ensure_future(leader.propose(G1, record_batch(100), 1))
            with pytest.raises(Uncertain) as caught:
                await waiting
            assert not caught.value.definite
            for other in cluster.ids:
                if other != node:
                    leader.set_peer(other, cluster.addresses[other])
            await cluster.append()

    run(main())
