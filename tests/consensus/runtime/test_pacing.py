"""New replicas are fed no faster than allowed; what clients wait for is not slowed down by that."""

from __future__ import annotations

import asyncio

from quorate.consensus.core import NodeId, RaftSettings, new_replica, replica_id
from quorate.consensus.runtime import RuntimeSettings
from quorate.consensus.runtime.pacing import Allowance
from quorate.consensus.storage.memory import MemoryLog
from tests.consensus.runtime.test_three_nodes import run
from tests.support.cluster import G1, Cluster, until
from tests.support.record_batches import record_batch


def test_an_allowance_saves_nothing_up() -> None:
    allowance = Allowance(1_000)
    assert [allowance.wait_s(500, 10.0) for _ in range(3)] == [0.0, 0.5, 1.0]
    assert allowance.wait_s(500, 11.0) == 0.5
    assert [allowance.wait_s(500, 1_000.0) for _ in range(2)] == [0.0, 0.5]


def test_a_new_replica_is_fed_slowly_and_followers_are_not() -> None:
    pieces, size, rate = 24, 10_000, 200_000

    async def main() -> None:
        raft = RaftSettings(heartbeat_ms=30, election_ms=300, tail_bytes=size, max_append_bytes=2 * size)
        cluster = Cluster(raft=raft, runtime=RuntimeSettings(learner_bytes_per_s=rate))
        async with cluster:
            for _ in range(pieces):
                last = await cluster.append(size=size)
            leader = await cluster.elected()
            gone = next(n for n in cluster.ids if cluster.running[n] is not leader)
            await cluster.running[gone].remove_group(G1)
            loop = asyncio.get_running_loop()
            began = loop.time()
            newcomer = replica_id(NodeId(gone), 2)
            await cluster.running[gone].add_group(G1, newcomer, MemoryLog(new_replica()))
            await leader.change_members(G1, [replica_id(n) for n in cluster.ids if n != gone], [newcomer])
            await leader.propose(G1, record_batch(100), 1)
            assert loop.time() - began < pieces * size / rate / 2, "who produces does not wait for the newcomer"
            await until(lambda: cluster.running[gone].status(G1).stable >= last.offset, "the learner has everything")
            # What is in memory comes at once, and so does the first piece.
            assert loop.time() - began >= (pieces - 4) * size / rate * 0.9

            # A follower that comes back is a voter: the next leader may need it, so it is not held up.
            other = next(n for n in cluster.ids if n != gone and cluster.running[n] is not leader)
            await leader.change_members(G1, [replica_id(n) for n in cluster.ids if n != gone] + [newcomer])
            await cluster.crash(other)
            for _ in range(pieces):
                last = await cluster.append(size=size)
            began = loop.time()
            await cluster.start(other)
            await until(lambda: cluster.running[other].status(G1).stable >= last.offset, "the follower has everything")
            assert loop.time() - began < (pieces - 4) * size / rate * 0.9

    run(main())
