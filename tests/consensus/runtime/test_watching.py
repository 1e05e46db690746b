"""What the runtime tells those who look closely: commits, roles, batches on the leader's own disk, queues that fail."""

from __future__ import annotations

import asyncio

import pytest

from quorate.consensus.core import GroupId, NodeId, Offset, Role, RoleChange, replica_id
from quorate.consensus.runtime import MultiRaft, NotLeading, Outcome, Proposed, RuntimeSettings
from quorate.consensus.storage.api import LogStore
from tests.consensus.runtime.test_three_nodes import run
from tests.support.cluster import G1, Cluster, until
from tests.support.record_batches import record_batch


class Diary:
    """A watcher that writes everything down."""

    def __init__(self) -> None:
        self.commits: list[Offset] = []
        self.roles: list[tuple[Role, Offset]] = []

    def committed(self, commit: Offset) -> None:
        self.commits.append(commit)

    def role_changed(self, change: RoleChange, term_start: Offset) -> None:
        self.roles.append((change.role, term_start))


class WatchedCluster(Cluster):
    """A cluster with a watcher on every replica."""

    def __init__(self, runtime: RuntimeSettings | None = None) -> None:
        super().__init__(runtime=runtime)
        self.diaries: dict[NodeId, Diary] = {}

    async def join(self, runtime: MultiRaft, node: NodeId, group: GroupId, store: LogStore) -> None:
        self.diaries[node] = Diary()
        await runtime.add_group(group, replica_id(node), store, watcher=self.diaries[node])


def test_a_watcher_sees_commits_rise_and_roles_change() -> None:
    async def main() -> None:
        cluster = WatchedCluster()
        async with cluster:
            leader = await cluster.elected()
            last = [await cluster.append() for _ in range(5)][-1].offset
            node = cluster.leader()
            assert node is not None
            diary = cluster.diaries[node]
            assert diary.commits[-1] == last
            assert diary.commits == sorted(set(diary.commits))
            assert diary.roles[-1] == (Role.LEADER, 0)
            other = next(n for n in cluster.ids if n != node)
            await leader.transfer(G1, replica_id(other))
            await until(lambda: diary.roles[-1][0] is Role.FOLLOWER, "it follows")
            await leader.remove_group(G1)
            assert diary.roles[-1][0] is Role.STOPPED
            del cluster.running[node]
            await leader.close()
        assert all(diary.roles[-1][0] is Role.STOPPED for diary in cluster.diaries.values())

    run(main())


def test_a_batch_on_the_leaders_disk_is_told_before_and_beside_its_outcome() -> None:
    async def main() -> None:
        async with Cluster() as cluster:
            leader = await cluster.elected()
            node = cluster.leader()
            for other in cluster.ids:
                if other != node:
                    await cluster.crash(other)
            told: list[Outcome] = []
            local: asyncio.Future[Proposed] = asyncio.get_running_loop().create_future()
            leader.submit(G1, record_batch(200), 1, told.append, local.set_result)
            assert (await local).offset >= 0
            assert told == []
            await until(lambda: bool(told), "it is uncertain in the end")
            assert not isinstance(told[0], Proposed)

    run(main())


def test_committed_batches_in_memory_are_found_from_inside_too() -> None:
    async def main() -> None:
        async with Cluster() as cluster:
            leader = await cluster.elected()
            placed = await leader.propose(G1, record_batch(300, count=5), 5)
            commit, batches = leader.read_committed(G1, placed.offset, 1)
            assert (commit, [batch.base for batch in batches or ()]) == (placed.offset + 4, [placed.offset])
            assert leader.read_committed(G1, Offset(commit + 1), 1) == (commit, ())
            _, inside = leader.read_committed(G1, Offset(placed.offset + 2), 1)
            assert inside is None or [batch.base for batch in inside] == [placed.offset]
            assert leader.term_at(G1, placed.offset) == placed.term
            assert leader.term_runs(G1)[-1][1] == placed.term

    run(main())


def test_nothing_overtakes_a_queued_proposal_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with Cluster(runtime=RuntimeSettings(turn_batches=1)) as cluster:
            leader = await cluster.elected()
            driver = leader._running()
            place, calls = driver._feeder._place, 0

            def second_fails(group: object, proposal: object) -> None:
                nonlocal calls
                calls += 1
                if calls == 2:
                    raise NotLeading(replica_id(1))
                place(group, proposal)  # type: ignore[arg-type]

            monkeypatch.setattr(type(driver._feeder), "_place", lambda self, group, proposal: second_fails(group, proposal))
            told: list[tuple[int, bool]] = []
            for number in range(4):
                leader.submit(G1, record_batch(100), 1, lambda o, n=number: told.append((n, isinstance(o, Proposed))))  # type: ignore[misc]
            await until(lambda: len(told) == 4, "all are decided")
            assert sorted(told) == [(0, True), (1, False), (2, False), (3, False)]

    run(main())
