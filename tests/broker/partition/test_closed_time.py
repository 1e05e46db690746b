"""Closed time on three nodes: it is never appended to again, whoever leads and whatever the wall clocks do."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from quorate.broker.partition import Closed, KafkaFailure, Partition
from quorate.broker.protocol.kafka.errors import Error
from quorate.consensus.batch.header import read_header
from quorate.consensus.core import Millis, NodeId, RaftSettings
from quorate.consensus.runtime import NodeConfig
from tests.broker.partition.lab import PartitionCluster, append, batch, began, fetch, run
from tests.broker.partition.test_staging import STEADY
from tests.support.cluster import FAST, until

START = 1_000_000


class Wall:
    """A wall clock that stands where it is put."""

    def __init__(self, uncertainty: int | None = 5) -> None:
        self.time = START
        self.uncertainty = uncertainty

    def now(self) -> Millis:
        return Millis(self.time)

    def uncertainty_ms(self) -> int | None:
        return self.uncertainty


class ClockedCluster(PartitionCluster):
    """Each node has a wall clock of its own, or all share one."""

    def __init__(self, uncertainty: int | None = 5, *, shared: bool = False, raft: RaftSettings = FAST) -> None:
        super().__init__(raft=raft)
        one = Wall(uncertainty)
        self.walls = {node: one if shared else Wall(uncertainty) for node in self.ids}

    def config(self, node: NodeId) -> NodeConfig:
        return replace(super().config(node), time=self.walls[node])

    def wall(self, partition: Partition) -> Wall:
        return self.walls[self.node_of(partition)]

    def pass_time(self, ms: int) -> None:
        for wall in set(self.walls.values()):
            wall.time += ms


async def stamps_from(partition: Partition, offset: int) -> list[int]:
    """The log times of what stands at and after an offset."""
    if offset >= partition.high_watermark:
        return []
    return [header.max_timestamp for header in map(read_header, (await fetch(partition, offset)).records)]


async def holds(partition: Partition, closed: Closed) -> bool:
    """Whether what was closed still is: everything after the end is later."""
    return all(stamp > closed.closed_ms for stamp in await stamps_from(partition, closed.end_offset) if stamp >= 0)


def test_an_idle_partition_closes_time_as_it_passes() -> None:
    async def main() -> None:
        async with ClockedCluster(raft=STEADY) as cluster:
            leader = await cluster.led()
            placed = await append(leader, batch(3))
            cluster.pass_time(1_000)
            closed = await leader.closed_time()
            assert closed == (START + 1_000 - 5 - 1, placed.base_offset + 3)
            cluster.pass_time(1_000)
            assert (await leader.closed_time()).closed_ms == closed.closed_ms + 1_000, "without any append"
            assert leader.high_watermark == closed.end_offset
            await append(leader, batch())
            assert await holds(leader, closed)

    run(main())


def test_without_a_known_uncertainty_only_appends_close_time() -> None:
    async def main() -> None:
        async with ClockedCluster(None, raft=STEADY) as cluster:
            leader = await cluster.led()
            assert (await leader.closed_time()).closed_ms == -1
            stamp = (await append(leader, batch())).append_time
            await until(lambda: leader.state.stamp == stamp, "it is applied")
            cluster.pass_time(1_000)
            assert (await leader.closed_time()).closed_ms == stamp - 1, "another one may come with the same stamp"
            assert (await leader.closed_time(stamp, 0.02)).closed_ms == stamp - 1, "the wait is over"

    run(main())


def test_a_jump_of_the_wall_clock_opens_nothing() -> None:
    async def main() -> None:
        async with ClockedCluster(raft=STEADY) as cluster:
            leader = await cluster.led()
            wall = cluster.wall(leader)
            seen = []
            for jump in (3_600_000, -7_200_000, 10, 5_000_000, -1):
                wall.time += jump
                seen.append(await leader.closed_time())
                await append(leader, batch())
            assert [closed.closed_ms for closed in seen] == sorted(closed.closed_ms for closed in seen)
            for closed in seen:
                assert await holds(leader, closed)

    run(main())


def test_pending_appends_hold_time_open() -> None:
    async def main() -> None:
        async with ClockedCluster() as cluster:
            leader = await cluster.led()
            followers = cluster.others(leader)
            for node in followers:
                await cluster.crash(node)
            waits = began(leader, batch())
            cluster.pass_time(1_000)
            # Nobody confirms it, so it may yet come to stand at its time.
            assert leader._close() == START + 5 - 1, "as a new leader it began at the latest that its clock can mean"
            for node in followers:
                await cluster.start(node)
            try:
                base = (await waits).base_offset
            except KafkaFailure:
                return  # another one leads by now; it has its own tests
            closed = await leader.closed_time()
            assert closed.end_offset > base

    run(main())


def test_closed_time_holds_across_leaders_whose_clocks_differ() -> None:
    """Each clock is wrong by no more than it says, the next leader's by as much as it may be."""

    async def main() -> None:
        async with ClockedCluster(50) as cluster:
            leader = await cluster.led()
            seen, true = [], START
            for _ in range(4):
                true += 500
                cluster.wall(leader).time = true + 50
                seen.append(await leader.closed_time())
                assert seen[-1].closed_ms == true - 1
                for node in cluster.others(leader):
                    cluster.walls[node].time = true - 50
                leader = await cluster.move(leader)
                await append(leader, batch())
            for closed in seen:
                assert await holds(leader, closed)

    run(main())


def test_a_restart_opens_nothing() -> None:
    async def main() -> None:
        async with ClockedCluster(shared=True) as cluster:
            leader = await cluster.led()
            await append(leader, batch())
            cluster.pass_time(1_000)
            closed = await leader.closed_time()
            for node in list(cluster.running):
                await cluster.crash(node)
            for node in cluster.ids:
                await cluster.start(node)
            leader = await cluster.led()
            await append(leader, batch())
            assert await holds(leader, closed)
            assert (await leader.closed_time()).closed_ms >= closed.closed_ms

    run(main())


def test_whoever_is_cut_off_or_follows_closes_nothing() -> None:
    async def main() -> None:
        async with ClockedCluster() as cluster:
            leader = await cluster.led()
            follower = cluster.partitions[cluster.others(leader)[0]]
            with pytest.raises(KafkaFailure) as caught:
                await follower.closed_time()
            assert caught.value.error == Error.NOT_LEADER_OR_FOLLOWER
            for node in cluster.others(leader):
                await cluster.crash(node)
            with pytest.raises(KafkaFailure) as caught:
                await leader.closed_time()
            assert caught.value.error == Error.NOT_LEADER_OR_FOLLOWER

    run(main())


def test_it_is_waited_for_and_told_as_soon_as_it_is_there() -> None:
    async def main() -> None:
        async with ClockedCluster(raft=STEADY) as cluster:
            leader = await cluster.led()
            waits = asyncio.ensure_future(leader.closed_time(START + 500, 20.0))
            await until(lambda: len(leader._pollers) == 1, "it waits")
            cluster.pass_time(506)
            assert (await waits).closed_ms == START + 500
            assert (await leader.closed_time(START + 10_000, 0.01)).closed_ms == START + 500, "the wait is over"

    run(main())


def test_a_wait_ends_when_the_leader_does() -> None:
    async def main() -> None:
        async with ClockedCluster() as cluster:
            leader = await cluster.led()
            waits = asyncio.ensure_future(leader.closed_time(START + 10_000, 20.0))
            await until(lambda: len(leader._pollers) == 1, "it waits")
            await cluster.move(leader)
            with pytest.raises(KafkaFailure) as caught:
                await waits
            assert caught.value.error == Error.NOT_LEADER_OR_FOLLOWER

    run(main())
