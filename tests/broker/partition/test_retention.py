"""Deleting: on request, by age, by size; what clients see of it, and what the disks keep."""

from __future__ import annotations

import pytest

from quorate.broker.partition import KafkaFailure, PartitionSettings
from quorate.broker.protocol.builder import Producer
from quorate.consensus.clock.kernel import SystemTime
from quorate.consensus.core import Millis
from tests.broker.partition.lab import PartitionCluster, append, batch, fetch, listed, run
from tests.support.cluster import G1, until


class Later:
    """A clock that the test moves on."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now(self) -> Millis:
        return Millis(SystemTime().now() + self.ahead_ms)

    def uncertainty_ms(self) -> int | None:
        return None


def test_delete_before_is_the_same_on_all_replicas_and_after_a_change_of_leader() -> None:
    async def main() -> None:
        async with PartitionCluster() as cluster:
            leader = await cluster.led()
            placed = [await append(leader, batch(10)) for _ in range(5)]
            inside = placed[2].base_offset + 4
            assert await leader.delete_before(inside) == inside
            assert await leader.delete_before(3) == inside, "it never goes back"
            with pytest.raises(KafkaFailure) as caught:
                await leader.delete_before(leader.high_watermark + 1)
            assert caught.value.error == 1
            with pytest.raises(KafkaFailure) as caught:
                await fetch(leader, inside - 1)
            assert caught.value.error == 1
            assert (await listed(leader, -2)).offset == inside
            assert (await listed(leader, 0)).offset == inside
            assert (await fetch(leader, inside)).log_start == inside
            await until(lambda: all(p.log_start == inside for p in cluster.partitions.values()), "all agree")
            for node in cluster.ids:
                await cluster.partitions[node].housekeep()
                store = cluster.stores[node, G1]
                await until(lambda store=store: store.start == placed[2].base_offset - 1, "the disk is freed")  # type: ignore[misc]
            assert (await fetch(leader, inside)).records, "the batch that holds the start is kept whole"
            other = await cluster.move(leader)
            assert other.log_start == inside
            assert await other.delete_before(-1) >= placed[4].base_offset + 10
            with pytest.raises(KafkaFailure):
                await other.delete_before(-7)
            with pytest.raises(KafkaFailure) as caught:
                await leader.delete_before(-1)
            assert caught.value.error == 6

    run(main())


def test_retention_by_age_deletes_all_records_and_then_rests() -> None:
    async def main() -> None:
        time = Later()
        async with PartitionCluster(settings=PartitionSettings(retention_ms=60_000), time=time) as cluster:
            leader = await cluster.led()
            placed = [await append(leader, batch(2)) for _ in range(4)]
            await leader.housekeep()
            assert leader.log_start == 0
            time.ahead_ms = 100_000
            await leader.housekeep()
            assert leader.log_start == placed[-1].base_offset + 2
            end = leader.high_watermark
            time.ahead_ms = 1_000_000
            for _ in range(3):
                await leader.housekeep()
            assert leader.high_watermark == end, "nothing is appended for the sake of control batches"
            assert (await append(leader, batch())).log_start == placed[-1].base_offset + 2

    run(main())


def test_retention_by_size_and_settings_that_change() -> None:
    async def main() -> None:
        async with PartitionCluster() as cluster:
            leader = await cluster.led()
            placed = [await append(leader, batch(value=bytes(1_000))) for _ in range(10)]
            await leader.housekeep()
            assert leader.log_start == 0
            leader.settings = PartitionSettings(retention_bytes=3_500)
            await leader.housekeep()
            assert leader.log_start == placed[7].base_offset
            await until(lambda: cluster.stores[cluster.node_of(leader), G1].start == leader.log_start - 1, "it is freed")

    run(main())


def test_a_replica_that_missed_what_was_deleted_gets_the_state() -> None:
    async def main() -> None:
        async with PartitionCluster() as cluster:
            leader = await cluster.led()
            behind = cluster.others(leader)[0]
            await cluster.crash(behind)
            placed = [await append(leader, batch(1, Producer(3, 0, number))) for number in range(9)]
            await leader.delete_before(placed[8].base_offset)
            await leader.housekeep()
            await cluster.start(behind)
            end = leader.high_watermark - 1
            await until(lambda: cluster.partitions[behind]._applied >= end, "it has caught up")
            assert cluster.partitions[behind].save() == leader.save()

    run(main())


def test_settings_are_checked() -> None:
    for wrong in ({"max_message_bytes": 0}, {"retention_ms": -1}, {"retention_bytes": -1}, {"producer_expiry_ms": 0}):
        with pytest.raises(ValueError, match="must"):
            PartitionSettings(**wrong)
