"""State machines, reads, transfers, changes of members, compaction, and leaving in good order."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from quorate.consensus.core import GroupId, NodeId, Offset, Role, new_replica, replica_id
from quorate.consensus.runtime import BadInput, NotLeading, OperationFailed, RuntimeSettings, next_boot
from quorate.consensus.storage.memory import MemoryLog
from tests.consensus.runtime.faulty import Sums
from tests.consensus.runtime.test_three_nodes import run
from tests.support.cluster import G1, Cluster, until
from tests.support.record_batches import record_batch


class SummingCluster(Cluster):
    """A cluster with a state machine on every node."""

    def __init__(self, runtime: RuntimeSettings | None = None) -> None:
        self.machines: dict[NodeId, Sums] = {}
        super().__init__(machine=self.machine, runtime=runtime)

    def machine(self, node: NodeId, group: GroupId) -> Sums:
        self.machines[node] = Sums()
        return self.machines[node]


def test_every_machine_gets_every_batch_once_and_in_order() -> None:
    async def main() -> None:
        cluster = SummingCluster()
        async with cluster:
            offsets = [(await cluster.append(size=2_000)).offset for _ in range(30)]
            await until(lambda: all(m.offsets == offsets for m in cluster.machines.values()), "all have applied")

    run(main())


def test_a_slow_machine_holds_up_only_itself_and_gets_pieces() -> None:
    async def main() -> None:
        cluster = SummingCluster(RuntimeSettings(apply_bytes=5_000))
        async with cluster:
            leader = await cluster.elected()
            slow = cluster.machines[next(n for n in cluster.ids if cluster.running[n] is not leader)]
            slow.hold = asyncio.Event()
            offsets = [(await cluster.append(size=1_000)).offset for _ in range(40)]
            await until(lambda: sum(m.offsets == offsets for m in cluster.machines.values()) == 2, "the others have it")
            assert len(slow.offsets) < 40
            hold, slow.hold = slow.hold, None
            hold.set()
            await until(lambda: slow.offsets == offsets, "the slow one has it too")
            assert slow.most_at_once <= 5_000

    run(main())


def test_a_read_sees_everything_that_was_acknowledged_before_it() -> None:
    async def main() -> None:
        cluster = SummingCluster()
        async with cluster:
            proposed = await cluster.append()
            leader = await cluster.elected()
            node = cluster.leader()
            assert node is not None
            assert await leader.read_index(G1) >= proposed.offset
            assert proposed.offset in cluster.machines[node].offsets
            others = [runtime for runtime in cluster.running.values() if runtime is not leader]
            with pytest.raises(NotLeading):
                await others[0].read_index(G1)

    run(main())


def test_a_machine_that_breaks_stops_its_replica(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        cluster = SummingCluster()
        async with cluster:
            await cluster.append()
            leader = await cluster.elected()
            node = next(n for n in cluster.ids if cluster.running[n] is not leader)
            cluster.machines[node].broken = True
            await cluster.append()
            await until(lambda: bool(cluster.stopped), "it has stopped")
            assert "a bug in a state machine" in cluster.stopped[0][2]
            await cluster.append()

    run(main())


def test_leadership_is_transferred() -> None:
    async def main() -> None:
        async with Cluster() as cluster:
            leader = await cluster.elected()
            heir = next(n for n in cluster.ids if cluster.running[n] is not leader)
            await leader.transfer(G1, replica_id(heir))
            await until(lambda: cluster.leader() == heir, "the heir leads")
            with pytest.raises(NotLeading):
                await leader.transfer(G1, replica_id(heir))
            with pytest.raises(BadInput):
                await cluster.running[heir].transfer(G1, replica_id(77))

    run(main())


def test_a_clean_stop_hands_leadership_over_first() -> None:
    async def main() -> None:
        async with Cluster() as cluster:
            await cluster.elected()
            await cluster.append()
            node = cluster.leader()
            assert node is not None
            before = cluster.running[node].status(G1).term
            await cluster.stop(node)
            # Nobody had to time out: there is a leader the moment the old one is gone, one term later.
            assert cluster.leader() is not None
            leader = await cluster.elected()
            assert leader.status(G1).term == before + 1
            with pytest.raises(OperationFailed):
                await leader.propose(GroupId(5), record_batch(100), 1)

    run(main())


def test_a_node_that_hands_over_goes_on_as_a_follower() -> None:
    async def main() -> None:
        async with Cluster() as cluster:
            leader = await cluster.elected()
            await cluster.append()
            await leader.hand_over()
            assert leader.status(G1).role is Role.FOLLOWER
            assert leader.status(G1).leader not in (0, leader.status(G1).replica)
            assert await cluster.elected() is not leader
            last = await cluster.append()
            await until(lambda: cluster.all_have(last.offset), "all have the batch, the former leader too")

    run(main())


def test_a_replica_is_added_caught_up_by_a_snapshot_and_given_a_vote() -> None:
    async def main() -> None:
        cluster = SummingCluster()
        async with cluster:
            offsets = [(await cluster.append()).offset for _ in range(20)]
            leader = await cluster.elected()
            await until(lambda: all(m.offsets == offsets for m in cluster.machines.values()), "all have applied")
            for node in cluster.ids:
                await cluster.running[node].compact(G1, Offset(offsets[14]))
            gone = next(n for n in cluster.ids if cluster.running[n] is not leader)
            await cluster.running[gone].remove_group(G1)
            assert cluster.running[gone].groups == []
            newcomer, machine = replica_id(gone, 2), Sums()
            await cluster.running[gone].add_group(G1, newcomer, MemoryLog(new_replica()), machine)
            keep = [replica_id(node) for node in cluster.ids if node != gone]
            await leader.change_members(G1, keep, [newcomer])
            offsets.append((await leader.propose(G1, record_batch(100), 1)).offset)
            await until(lambda: machine.offsets == offsets, "the learner has everything")
            assert machine.loaded
            await leader.change_members(G1, [*keep, newcomer])
            status = cluster.running[gone].status(G1)
            assert status.role is Role.FOLLOWER
            assert status.start >= offsets[14]

    run(main())


def test_a_snapshot_that_its_machine_cannot_read_stops_that_replica_alone(caplog: pytest.LogCaptureFixture) -> None:
    class Unreadable(Sums):
        def load(self, offset: Offset, state: bytes) -> None:
            raise ValueError("a snapshot of another release")

    async def main() -> None:
        cluster = SummingCluster()
        async with cluster:
            offsets = [(await cluster.append()).offset for _ in range(20)]
            leader = await cluster.elected()
            await until(lambda: all(m.offsets == offsets for m in cluster.machines.values()), "all have applied")
            for node in cluster.ids:
                await cluster.running[node].compact(G1, Offset(offsets[14]))
            gone = next(n for n in cluster.ids if cluster.running[n] is not leader)
            await cluster.running[gone].remove_group(G1)
            newcomer = replica_id(gone, 2)
            await cluster.running[gone].add_group(G1, newcomer, MemoryLog(new_replica()), Unreadable())
            keep = [replica_id(node) for node in cluster.ids if node != gone]
            await leader.change_members(G1, keep, [newcomer])
            await until(lambda: bool(cluster.stopped), "it has stopped")
            assert "a snapshot of another release" in cluster.stopped[0][2]
            await cluster.append()
            assert cluster.running[gone].status(G1).role is Role.STOPPED, "its node is there and can be asked"

    run(main())


def test_a_machine_starts_from_its_saved_state_after_a_restart() -> None:
    async def main() -> None:
        cluster = SummingCluster()
        async with cluster:
            offsets = [(await cluster.append()).offset for _ in range(10)]
            await until(lambda: all(m.offsets == offsets for m in cluster.machines.values()), "all have applied")
            for runtime in cluster.running.values():
                await runtime.compact(G1, Offset(offsets[5]))
        async with cluster:
            offsets.append((await cluster.append()).offset)
            await until(lambda: all(m.offsets == offsets for m in cluster.machines.values()), "all have applied")
            assert all(machine.loaded for machine in cluster.machines.values())
            assert all(runtime.status(G1).start == offsets[5] for runtime in cluster.running.values())

    run(main())


def test_a_single_node_is_a_cluster_of_its_own() -> None:
    async def main() -> None:
        async with Cluster(nodes=1) as cluster:
            assert (await cluster.append()).offset == 1
            assert cluster.running[NodeId(1)].status(G1).role is Role.LEADER
            await cluster.running[NodeId(1)].remove_group(G1)
            with pytest.raises(OperationFailed):
                cluster.running[NodeId(1)].status(G1)

    run(main())


def test_the_boot_counter_rises_and_refuses_what_it_cannot_read(tmp_path: Path) -> None:
    folder = tmp_path
    assert [next_boot(folder) for _ in range(3)] == [1, 2, 3]
    (folder / "boot").write_text(f"{10**18 - 2}\n")
    assert [next_boot(folder) for _ in range(2)] == [10**18 - 1, 10**18]
    for bad in (b"many", b"\xff", b"9" * 5_000, b"9" * 19):
        (folder / "boot").write_bytes(bad)
        with pytest.raises(ValueError, match="does not hold a number"):
            next_boot(folder)


def test_hundreds_of_groups_share_the_connections() -> None:
    groups = [GroupId(number) for number in range(1, 201)]

    async def main() -> None:
        async with Cluster(groups=groups) as cluster:
            await until(lambda: all(cluster.leader(group) for group in groups), "every group has a leader")
            proposed = await asyncio.gather(*(cluster.append(group) for group in groups))
            assert all(one.offset >= 1 for one in proposed)

    run(main())
