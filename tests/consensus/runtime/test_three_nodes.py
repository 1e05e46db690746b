"""Three runtimes over loopback sockets: elections, appends, the loss of a leader, restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from quorate.consensus.batch.header import base_offset, leader_epoch, max_timestamp, read_header
from quorate.consensus.core import BatchKind, GroupId, NodeId
from quorate.consensus.runtime import BadInput, NoSuchGroup, NotLeading, new_event_loop
from tests.support.cluster import G1, Cluster, until
from tests.support.record_batches import record_batch


def run(main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main)


def test_a_leader_is_elected_and_a_batch_is_committed_on_all() -> None:
    async def main() -> None:
        async with Cluster() as cluster:
            leader = await cluster.elected()
            first = await leader.propose(G1, record_batch(300, count=3), 3)
            second = await leader.propose(G1, record_batch(100_000), 1)
            assert second.offset == first.offset + 3
            assert second.timestamp >= first.timestamp > 0
            last = second.offset
            await until(lambda: cluster.all_have(last), "all know it, and have it on their disks")
            for node in cluster.ids:
                batches = cluster.stores[node, G1].read(first.offset, 1 << 20)
                assert [(b.base, b.last, b.kind) for b in batches] == [
                    (first.offset, first.offset + 2, BatchKind.DATA),
                    (last, last, BatchKind.DATA),
                ]
                for batch, proposed in zip(batches, (first, second), strict=True):
                    assert base_offset(batch.data) == proposed.offset
                    assert leader_epoch(batch.data) == proposed.term
                    assert max_timestamp(batch.data) == proposed.timestamp
                    assert read_header(batch.data).log_append_time

    run(main())


def test_only_the_leader_appends_and_says_who_leads() -> None:
    async def main() -> None:
        async with Cluster() as cluster:
            leader = await cluster.elected()
            await until(lambda: all(r.status(G1).leader for r in cluster.running.values()), "all know the leader")
            for runtime in cluster.running.values():
                if runtime is not leader:
                    with pytest.raises(NotLeading) as caught:
                        await runtime.propose(G1, record_batch(100), 1)
                    assert caught.value.leader == leader.status(G1).replica
                    assert caught.value.definite
                    assert caught.value.retriable
            with pytest.raises(NoSuchGroup):
                await leader.propose(GroupId(99), record_batch(100), 1)
            with pytest.raises(BadInput):
                await leader.propose(G1, record_batch(100, count=2), 3)
            with pytest.raises(BadInput):
                await leader.propose(G1, bytearray(10), 1)

    run(main())


def test_the_loss_of_a_leader_is_survived_and_it_comes_back() -> None:
    async def main() -> None:
        async with Cluster() as cluster:
            await cluster.elected()
            acknowledged = [await cluster.append() for _ in range(5)]
            lost = cluster.leader()
            assert lost is not None
            await cluster.crash(lost)
            acknowledged += [await cluster.append() for _ in range(5)]
            await cluster.start(lost)
            acknowledged += [await cluster.append() for _ in range(5)]
            last = acknowledged[-1].offset
            await until(lambda: cluster.all_have(last), "all know it, and have it on their disks")
            offsets = [proposed.offset for proposed in acknowledged]
            assert offsets == sorted(set(offsets))
            for node in cluster.ids:
                kept = {batch.base for batch in cluster.stores[node, G1].read(offsets[0], 1 << 20)}
                assert kept >= set(offsets)

    run(main())


def test_everything_is_found_again_after_all_have_stopped() -> None:
    async def main() -> None:
        cluster = Cluster()
        async with cluster:
            await cluster.elected()
            last = [await cluster.append() for _ in range(3)][-1]
        async with cluster:
            leader = await cluster.elected()
            again = await leader.propose(G1, record_batch(100), 1)
            assert again.offset > last.offset
            assert again.term > last.term
            assert again.timestamp >= last.timestamp

    run(main())


def test_many_in_flight_keep_their_order() -> None:
    async def main() -> None:
        async with Cluster() as cluster:
            leader = await cluster.elected()
            many = [leader.propose(G1, record_batch(100 + 37 * n), 1) for n in range(300)]
            offsets = [proposed.offset for proposed in await asyncio.gather(*many)]
            assert offsets == list(range(offsets[0], offsets[0] + 300))

    run(main())


def test_a_node_that_was_away_is_brought_up_from_the_disk() -> None:
    async def main() -> None:
        from quorate.consensus.core import RaftSettings

        tiny = RaftSettings(heartbeat_ms=20, election_ms=100, tail_bytes=1024, max_append_bytes=4096)
        async with Cluster(raft=tiny) as cluster:
            leader = await cluster.elected()
            away = next(node for node in cluster.ids if cluster.running[node] is not leader)
            await cluster.stop(away)
            last = [await cluster.append(size=1000) for _ in range(60)][-1]
            back = await cluster.start(NodeId(away))
            await until(lambda: back.status(G1).commit >= last.offset, "it has caught up")

    run(main())
