"""Waiting for the disk on the loop's own thread: only while it is quick, and only when nothing else is under way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from threading import get_ident

from quorate.consensus.core import Configuration, GroupId, NodeId, Persist, new_group
from quorate.consensus.runtime.patience import Patience
from quorate.consensus.storage.api import LogStore
from quorate.consensus.storage.memory import MemoryLog
from tests.consensus.runtime.test_three_nodes import run
from tests.support.cluster import G1, Cluster
from tests.support.record_batches import record_batch


class Clock(asyncio.SelectorEventLoop):
    """A loop whose time is set by the test."""

    now = 100.0

    def time(self) -> float:
        return self.now


def test_a_long_wait_is_not_repeated_for_a_while_that_doubles() -> None:
    clock = Clock()
    try:
        patience = Patience(clock)
        assert patience.left()
        patience.spent(0.001)
        assert patience.left()
        patience.spent(0.2)
        assert not patience.left()
        clock.now += 0.6
        assert patience.left()
        patience.spent(0.2)
        clock.now += 0.6
        assert not patience.left()
        clock.now += 0.6
        assert patience.left()
        for _ in range(1_000):
            patience.spent(0.001)
        patience.spent(0.2)
        clock.now += 0.6
        assert patience.left()
    finally:
        clock.close()


class Watched(MemoryLog):
    """Remembers which threads wrote."""

    def __init__(self, members: Configuration) -> None:
        super().__init__(new_group(members))
        self.writers: list[int] = []

    def write(self, writes: Sequence[Persist]) -> None:
        self.writers.append(get_ident())
        super().write(writes)


def test_a_small_lone_write_needs_no_other_thread_and_a_large_one_has_one() -> None:
    logs: list[Watched] = []

    def make(node: NodeId, group: GroupId, members: Configuration) -> LogStore:
        logs.append(Watched(members))
        return logs[-1]

    async def main() -> None:
        async with Cluster(nodes=1, store=make) as cluster:
            await cluster.append(size=100)
            assert set(logs[0].writers) == {get_ident()}
            leader = await cluster.elected()
            await leader.propose(G1, record_batch(100_000), 1)
            assert logs[0].writers[-1] != get_ident()

    run(main())
