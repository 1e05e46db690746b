"""Reads: from memory and from disk, long polls, epochs, times."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from quorate.broker.partition import EpochEnd, Fetched, KafkaFailure
from quorate.broker.protocol.kafka.errors import Error
from quorate.consensus.batch.control import ControlType, read_control
from quorate.consensus.batch.header import base_offset
from quorate.consensus.core import Configuration, GroupId, NodeId, Offset, RaftSettings, new_group
from quorate.consensus.storage.api import Corrupt, LogStore
from quorate.consensus.storage.level import LevelLog
from tests.broker.partition.lab import PartitionCluster, append, batch, began, fetch, listed, refused, run
from tests.support.cluster import G1, until

FORGETFUL = RaftSettings(heartbeat_ms=30, election_ms=300, tail_bytes=1)


def test_what_memory_has_is_the_same_that_the_disk_has(tmp_path: Path) -> None:
    def store(node: NodeId, group: GroupId, members: Configuration) -> LogStore:
        return LevelLog.open(tmp_path / str(node), new_group(members))

    async def main() -> None:
        cluster = PartitionCluster(store=store)
        async with cluster:
            leader = await cluster.led()
            for number in range(10):
                await append(leader, batch(3, value=b"%d" % number))
            at_once = leader.fetch(0, 1 << 20)
            assert isinstance(at_once, Fetched)
            assert base_offset(at_once.records[0]) == 0
            assert read_control(at_once.records[0])[0] == ControlType.NOOP
            assert (at_once.next_offset, at_once.high_watermark) == (31, 31)
            assert at_once.size == sum(map(len, at_once.records))
            disk = cluster.stores[cluster.node_of(leader), G1]
            assert list(map(bytes, at_once.records)) == disk.fetch(Offset(0), 1 << 20, Offset(30))
            inside = await fetch(leader, 5)
            assert base_offset(inside.records[0]) == 4
            assert list(map(bytes, inside.records)) == disk.fetch(Offset(4), 1 << 20, Offset(30))
            few = await fetch(leader, 4, 1)
            assert len(few.records) == 1
            none = leader.fetch(4, 1, -1, at_least_one=False)
            assert none == Fetched((), 0, 4, 31, 0)
            assert (await fetch(leader, 31)).records == ()
        for log in cluster.stores.values():
            log.inner.close()  # type: ignore[attr-defined]

    run(main())


def test_what_memory_has_let_go_comes_from_the_store() -> None:
    async def main() -> None:
        async with PartitionCluster(raft=FORGETFUL) as cluster:
            leader = await cluster.led()
            for _ in range(6):
                await append(leader, batch(2))
            reading = leader.fetch(0, 1 << 20)
            assert not isinstance(reading, Fetched)
            got = await reading
            assert (len(got.records), got.next_offset) == (7, leader.high_watermark)

    run(main())


def test_who_may_read_what() -> None:
    async def main() -> None:
        async with PartitionCluster() as cluster:
            leader = await cluster.led()
            await append(leader, batch())
            end = leader.high_watermark
            wrong = [(end + 1, -1, 1), (-5, -1, 1), (0, leader.term - 1, 74), (0, leader.term + 1, 75)]
            for offset, epoch, code in wrong:
                with pytest.raises(KafkaFailure) as caught:
                    await fetch(leader, offset, epoch=epoch)
                assert caught.value.error == code
            assert (await fetch(leader, 0, epoch=leader.term)).records
            follower = cluster.partitions[cluster.others(leader)[0]]
            for ask in (lambda: follower.fetch(0, 10), lambda: follower.list_offset(-1), lambda: follower.end_of_epoch(1)):
                with pytest.raises(KafkaFailure) as caught:
                    ask()
                assert caught.value.error == 6
            uncommitted = leader._term_start
            leader._term_start = Offset(end)
            with pytest.raises(KafkaFailure) as caught:
                leader.fetch(0, 10)
            assert caught.value.error == 6, "a new leader does not know yet how far the commit is"
            leader._term_start = uncommitted

    run(main())


def test_nothing_uncommitted_is_read() -> None:
    async def main() -> None:
        async with PartitionCluster() as cluster:
            leader = await cluster.led()
            await append(leader, batch())
            end = leader.high_watermark
            for node in cluster.others(leader):
                await cluster.crash(node)
            waits = began(leader, batch())
            await append(leader, batch(), acks=1)
            if leader.leads:
                got = await fetch(leader, 0)
                assert (got.high_watermark, got.next_offset) == (end, end)
            with pytest.raises(KafkaFailure):
                await waits

    run(main())


def test_long_polls() -> None:
    async def main() -> None:
        async with PartitionCluster() as cluster:
            leader = await cluster.led()
            end = leader.high_watermark
            woken: list[str] = []
            leader.wait(end - 1, lambda: woken.append("there"))
            leader.wait(end, lambda: woken.append("next"))
            leader.wait(end + 50, lambda: woken.append("far"))
            leader.wait(end, lambda: woken.append("taken back"))()
            assert woken == [], "never from within the call"
            await asyncio.sleep(0)
            assert woken == ["there"]
            seen = asyncio.Event()
            leader.wait(end, seen.set)
            answer = began(leader, batch())
            await seen.wait()
            assert (await fetch(leader, end)).records
            await answer
            assert woken == ["there", "next"]
            await cluster.move(leader)
            assert woken == ["there", "next", "far"], "told that it leads no more"
            late = asyncio.Event()
            leader.wait(end + 99, late.set)
            await late.wait()
            assert len(leader._pollers) == 0

    run(main())


def test_offsets_by_time() -> None:
    async def main() -> None:
        async with PartitionCluster() as cluster:
            leader = await cluster.led()
            assert await listed(leader, -3) == (-1, -1, -1)
            placed = [await append(leader, batch(4)) for _ in range(5)]
            assert (await listed(leader, -2)).offset == 0
            assert await listed(leader, -1) == (leader.high_watermark, -1, leader.term)
            for one in placed:
                first = next(other for other in placed if other.append_time >= one.append_time)
                assert await listed(leader, one.append_time) == (first.base_offset, first.append_time, leader.term)
            latest = next(one for one in placed if one.append_time == placed[-1].append_time)
            assert await listed(leader, -3) == (latest.base_offset, latest.append_time, leader.term)
            assert await listed(leader, placed[-1].append_time + 1) == (-1, -1, -1)
            assert (await listed(leader, 0)).offset == placed[0].base_offset

    run(main())


def test_the_latest_time_is_that_of_records() -> None:
    """Deleting records leaves a later batch in the log, which holds none."""

    async def main() -> None:
        async with PartitionCluster() as cluster:
            leader = await cluster.led()
            first, second = await append(leader, batch()), await append(leader, batch())
            await until(lambda: time.time() * 1000 > second.append_time + 1, "what comes next is later")
            await leader.delete_before(second.base_offset)
            latest = await listed(leader, -3)
            assert latest.timestamp == second.append_time
            assert first.base_offset < latest.offset <= second.base_offset
            await leader.delete_before(-1)
            assert await listed(leader, -3) == (-1, -1, -1)

    run(main())


def test_ends_of_epochs() -> None:
    async def main() -> None:
        async with PartitionCluster() as cluster:
            first = await cluster.led()
            await append(first, batch(3))
            second = await cluster.move(first)
            await append(second, batch(2))
            begin = second._term_start
            assert second.end_of_epoch(first_term := second.term - 1) == EpochEnd(first_term, begin)
            assert second.end_of_epoch(second.term) == EpochEnd(second.term, second.high_watermark)
            assert second.end_of_epoch(second.term + 1) == EpochEnd(-1, -1)
            assert second.end_of_epoch(0) == EpochEnd(0, 0)
            with pytest.raises(KafkaFailure) as caught:
                second.end_of_epoch(1, second.term - 1)
            assert caught.value.error == 74

    run(main())


def test_a_damaged_batch_is_not_served(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with PartitionCluster() as cluster:
            leader = await cluster.led()
            placed = await append(leader, batch(2))

            def damaged(first: Offset, max_bytes: int, last: Offset) -> list[bytes]:
                raise Corrupt("the log", "a test damaged it", first)

            leader._store.fetch = damaged  # type: ignore[method-assign]
            with pytest.raises(KafkaFailure) as caught:
                await fetch(leader, placed.base_offset + 1)
            assert caught.value.error == 56
            assert "a test damaged it" in caplog.text

    run(main())


def test_who_cannot_reach_a_majority_does_not_say_where_the_log_ends() -> None:
    """It may have been deposed without having heard of it."""

    async def main() -> None:
        async with PartitionCluster() as cluster:
            leader = await cluster.led()
            await append(leader, batch(3))
            assert (await listed(leader, -1)).offset == leader.high_watermark
            for node in cluster.others(leader):
                await cluster.crash(node)
            # Reads of what is known to be committed go on; this one needs the others.
            assert leader.leads
            with pytest.raises(KafkaFailure) as caught:
                await listed(leader, -1)
            assert refused(caught.value, Error.NOT_LEADER_OR_FOLLOWER)

    run(main())
