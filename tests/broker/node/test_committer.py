"""Commits of staged records on whole nodes in one process, stopped between the decision and the end of the publication."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from quorate.broker.kafka.backend import KafkaFailure, StagedIn, StageWish
from quorate.broker.node.parts import Parts
from quorate.broker.partition import PartitionSettings
from quorate.broker.partition.partition import Partition
from quorate.broker.partition.stages import StagedBatch
from quorate.broker.protocol.kafka.errors import Error
from tests.broker.partition.lab import run as run_loop
from tests.broker.partition.test_staging import begin, numbered, values
from tests.support.broker_nodes import BrokerNodes
from tests.support.cluster import until

pytestmark = pytest.mark.timeout(120)


class Gate:
    """How many batches may be published, by all nodes together."""

    left = 1_000_000


class Gated(Partition):
    """Publishes one batch at a time, as long as the test's gate is open."""

    gate = Gate()

    async def _publish_some(self, producer: int, batches: Sequence[StagedBatch]) -> None:
        if self.gate.left <= 0:
            raise KafkaFailure(Error.NOT_ENOUGH_REPLICAS, "the test stops it here")
        self.gate.left -= 1
        await super()._publish_some(producer, batches[:1])


def run(main: Coroutine[Any, Any, None]) -> None:
    Gated.gate.left = 1_000_000
    run_loop(main)


def gated(folder: Path) -> BrokerNodes:
    return BrokerNodes(folder, Parts(partition=Gated))


async def stage(nodes: BrokerNodes, *places: tuple[str, int], batches: int = 4) -> StageWish:
    """A new stage with so many batches of three records in each of these partitions."""
    producer = (await nodes.backend().new_producer_id()).id
    for name, index in places:
        _, partition = await nodes.led(name, index)
        for number in range(batches):
            await begin(partition, numbered(3 * number, producer=producer))
    return StageWish(producer, [StagedIn(name, index, batches, 3 * batches) for name, index in places])


async def commit(
    nodes: BrokerNodes, batch: int, *wishes: StageWish, node: int | None = None, timeout_ms: int = 1_000
) -> tuple[bool, bool]:
    return await nodes.backend(node).commit_staged("app", batch, wishes, timeout_ms)


async def refused(nodes: BrokerNodes, batch: int, *wishes: StageWish) -> KafkaFailure:
    with pytest.raises(KafkaFailure) as caught:
        await commit(nodes, batch, *wishes)
    return caught.value


def quiet(nodes: BrokerNodes) -> bool:
    """Whether nothing is left to publish, anywhere."""
    return not any(node.state.staged.pending for node in nodes.running.values())


@pytest.mark.parametrize("published", [0, 1, 4, 7])
def test_all_nodes_die_after_the_decision_and_it_is_carried_out_all_the_same(tmp_path: Path, published: int) -> None:
    async def main() -> None:
        async with gated(tmp_path) as nodes:
            await nodes.create("q", 2)
            wish = await stage(nodes, ("q", 0), ("q", 1))
            Gated.gate.left = published
            assert await commit(nodes, 0, wish) == (True, False)
            await until(lambda: Gated.gate.left == 0, "as much is published as may be")
            for number in list(nodes.running):
                await nodes.stop(number, hand_over=False)
            Gated.gate.left = 1_000_000
            for number in (1, 2, 3):
                await nodes.start(number)
            await until(lambda: all(node.ready for node in nodes.running.values()), "all are ready")
            assert await commit(nodes, 0, wish, timeout_ms=20_000) == (True, True), "whoever asks again learns of it"
            for index in range(2):
                assert await values((await nodes.led("q", index))[1]) == list(range(12))
            await until(lambda: quiet(nodes), "the details are forgotten")

    run(main())


@pytest.mark.parametrize("published", [0, 2, 3])
def test_the_leader_dies_in_the_middle_of_it_and_the_next_one_goes_on(tmp_path: Path, published: int) -> None:
    async def main() -> None:
        async with gated(tmp_path) as nodes:
            await nodes.create("q")
            wish = await stage(nodes, ("q", 0))
            Gated.gate.left = published
            assert await commit(nodes, 0, wish) == (True, False)
            await until(lambda: Gated.gate.left == 0, "as much is published as may be")
            number, _ = await nodes.led("q")
            await nodes.stop(number, hand_over=False)
            Gated.gate.left = 1_000_000
            await until(lambda: quiet(nodes), "the next leader has published it")
            assert await values((await nodes.led("q"))[1]) == list(range(12))

    run(main())


def test_a_queue_that_is_deleted_between_decision_and_publication_ends_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path) as nodes:
            await nodes.create("q")
            await nodes.create("gone")
            wish = await stage(nodes, ("q", 0), ("gone", 0))
            Gated.gate.left = 0
            waits = asyncio.ensure_future(commit(nodes, 0, wish, timeout_ms=20_000))
            await until(lambda: all(node.state.staged.pending for node in nodes.running.values()), "it is decided")
            await nodes.backend().delete_queues(["gone"], timeout_ms=10_000)
            Gated.gate.left = 1_000_000
            assert await waits == (True, True)
            assert await values((await nodes.led("q"))[1]) == list(range(12))
            await until(lambda: quiet(nodes), "nothing is left")
            # A new queue of that name has nothing to do with it.
            await nodes.create("gone")
            assert await values((await nodes.led("gone"))[1]) == []
            wish = await stage(nodes, ("gone", 0))
            assert await commit(nodes, 1, wish, timeout_ms=20_000) == (True, True)

    run(main())


def test_of_two_attempts_at_once_one_wins_and_the_others_stages_go(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path) as nodes:
            await nodes.create("q")
            for batch in range(5):
                attempts = [await stage(nodes, ("q", 0)) for _ in range(3)]
                answers = await asyncio.gather(
                    *(commit(nodes, batch, one, node=1 + at, timeout_ms=20_000) for at, one in enumerate(attempts))
                )
                assert sorted(ours for ours, _ in answers) == [False, False, True]
                assert all(published for _, published in answers)
                losers = [one for one, (ours, _) in zip(attempts, answers, strict=True) if not ours]
                await nodes.backend().drop_staged(losers)
            _, partition = await nodes.led("q")
            assert await values(partition) == list(range(12)) * 5
            assert not partition.state.stages.open

    run(main())


def test_what_is_decided_is_not_dropped(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path) as nodes:
            await nodes.create("q")
            wish, other = await stage(nodes, ("q", 0)), await stage(nodes, ("q", 0))
            Gated.gate.left = 0
            assert await commit(nodes, 0, wish) == (True, False)
            with pytest.raises(KafkaFailure, match="part of a commit") as caught:
                await nodes.backend().drop_staged([other, wish])
            assert caught.value.error == Error.INVALID_TXN_STATE
            number, partition = await nodes.led("q")
            partition.settings = PartitionSettings(stage_expiry_ms=1)
            await until(lambda: wish.producer in partition.expired_stages(), "it is old enough")
            await nodes.running[number].committer.expire(partition)
            assert set(partition.state.stages.open) == {wish.producer}, "the other is gone, this one stays"
            partition.settings = PartitionSettings()
            Gated.gate.left = 1_000_000
            await until(lambda: quiet(nodes), "it is published")
            assert await values(partition) == list(range(12))

    run(main())


def test_orphans_expire_and_can_never_be_committed_afterwards(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path) as nodes:
            await nodes.create("q")
            await nodes.create("other")
            wish, kept = await stage(nodes, ("q", 0), ("other", 0)), await stage(nodes, ("q", 0))
            number, partition = await nodes.led("q")
            partition.settings = PartitionSettings(stage_expiry_ms=1)
            await until(lambda: len(partition.expired_stages()) == 2, "both are old enough")
            await nodes.running[number].committer.expire(partition)
            assert not partition.state.stages.open
            partition.settings = PartitionSettings()
            for one in (wish, kept):
                assert (await refused(nodes, 0, one)).error == Error.INVALID_TXN_STATE
            # Whole as far as the other queue goes, but the decision stands.
            rest = StageWish(wish.producer, wish.parts[1:])
            failure = await refused(nodes, 0, rest)
            assert (failure.error, failure.definite) == (Error.INVALID_TXN_STATE, True)
            assert await commit(nodes, 0, await stage(nodes, ("q", 0)), timeout_ms=20_000) == (True, True)
            assert await values(partition) == list(range(12))

    run(main())


@pytest.mark.parametrize(
    ("application", "batch", "parts"),
    [
        ("", 0, []),
        ("a" * 2_000, 0, []),
        ("a", -1, []),
        ("a", 0, [StagedIn("q", 0, 1, 1), StagedIn("q", 0, 1, 1)]),
        ("a", 0, [StagedIn("q", 0, 0, 0)]),
    ],
)
def test_what_can_be_no_commit_is_refused(tmp_path: Path, application: str, batch: int, parts: list[StagedIn]) -> None:
    async def main() -> None:
        async with BrokerNodes(tmp_path, nodes=1) as nodes:
            with pytest.raises(KafkaFailure) as caught:
                await nodes.backend().commit_staged(application, batch, [StageWish(1, parts)], 1_000)
            assert (caught.value.error, caught.value.definite) == (Error.INVALID_REQUEST, True)
            failure = await refused(nodes, 0, StageWish(1, [StagedIn("none", 0, 1, 1)]))
            assert failure.error == Error.UNKNOWN_TOPIC_OR_PARTITION

    run(main())


def test_without_leaders_nothing_is_committed(tmp_path: Path) -> None:
    async def main() -> None:
        async with gated(tmp_path) as nodes:
            await nodes.create("q")
            wish = await stage(nodes, ("q", 0))
            await nodes.stop(3, hand_over=False)
            await nodes.stop(2, hand_over=False)
            failure = await refused(nodes, 0, wish)
            assert (failure.error, failure.definite) == (Error.REQUEST_TIMED_OUT, True)
            await nodes.start(2)
            await nodes.start(3)
            assert await commit(nodes, 0, wish, timeout_ms=20_000) == (True, True)
            assert await values((await nodes.led("q"))[1]) == list(range(12))

    run(main())
