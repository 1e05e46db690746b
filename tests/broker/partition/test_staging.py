"""Stages on three nodes: nothing is seen before it is published, and then each record once and in order, whoever leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from quorate.broker.partition import Appended, KafkaFailure, Partition, PartitionSettings
from quorate.broker.partition.stages import StagedBatch
from quorate.broker.partition.staging import StagePart
from quorate.broker.protocol.builder import BatchBuilder, Producer
from quorate.broker.protocol.kafka.errors import Error
from quorate.broker.protocol.records import read_records
from quorate.consensus.batch.header import CONTROL, read_header
from quorate.consensus.core import GroupId, NodeId, RaftSettings, replica_id
from quorate.consensus.runtime import Busy, MultiRaft, NoRoom, OperationFailed
from quorate.consensus.storage.api import LogStore
from tests.broker.partition.lab import PartitionCluster, append, batch, began, fetch, run
from tests.support.cluster import G1, until

P = 77
STEADY = RaftSettings(heartbeat_ms=50, election_ms=1_500)
"""For tests that need one leader from the beginning to the end, on a busy machine too."""
PARTS = [StagePart(P, 6, 18)]


def numbered(first: int, count: int = 3, producer: int = P) -> bytearray:
    """A batch whose values say where in the stage they are."""
    builder = BatchBuilder()
    for number in range(first, first + count):
        builder.append(1_000, b"key", str(number).encode())
    return builder.build(producer=Producer(producer, 0, first))


def begin(partition: Partition, data: bytearray) -> asyncio.Future[Appended]:
    future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()

    def done(answer: Appended | KafkaFailure) -> None:
        assert not future.done(), "answered twice"
        if isinstance(answer, KafkaFailure):
            future.set_exception(answer)
        else:
            future.set_result(answer)

    partition.stage(data, done)
    return future


async def stage_all(partition: Partition, batches: int = 6, producer: int = P) -> list[int]:
    """Stage some batches of three records each; their offsets."""
    return [(await begin(partition, numbered(3 * one, producer=producer))).base_offset for one in range(batches)]


async def values(partition: Partition) -> list[int]:
    """What consumers see, in order."""
    found: list[int] = []
    offset = partition.log_start
    while offset < partition.high_watermark:
        fetched = await fetch(partition, offset, 1 << 24)
        for one in fetched.records:
            if not read_header(one).attributes & CONTROL:
                found += [int(record.value or b"-1") for record in read_records(one)]
        offset = fetched.next_offset
    return found


def code_of(attempt: Callable[[], object]) -> int:
    with pytest.raises(KafkaFailure) as caught:
        attempt()
    return caught.value.error


async def refusal(check: Sequence[StagePart], partition: Partition) -> KafkaFailure:
    with pytest.raises(KafkaFailure) as caught:
        await partition.check_stages(check)
    return caught.value


def test_staged_records_are_seen_when_they_are_published_and_once() -> None:
    async def main() -> None:
        async with PartitionCluster(raft=STEADY) as cluster:
            leader = await cluster.led()
            offsets = await stage_all(leader)
            assert offsets == sorted(set(offsets))
            assert await values(leader) == []
            await leader.check_stages(PARTS)
            await leader.publish(P)
            assert await values(leader) == list(range(18))
            await leader.publish(P)
            assert await values(leader) == list(range(18)), "a second time changes nothing"
            assert leader.high_watermark == offsets[-1] + 1 + 18
            await until(lambda: all(p._applied >= leader._applied for p in cluster.partitions.values()), "all have it")
            assert len({p.save() for p in cluster.partitions.values()}) == 1

    run(main())


@pytest.mark.parametrize("stored", [False, True])
def test_consumers_are_spared_the_staged_bytes(stored: bool) -> None:
    async def main() -> None:
        async with PartitionCluster(raft=STEADY) as cluster:
            leader = await cluster.led()
            await append(leader, batch())
            large = batch(producer=Producer(P, 0, 0), value=bytes(100_000))
            offset = (await begin(leader, large)).base_offset
            await until(lambda: leader.state.stages.last == offset, "it is applied")
            if stored:
                runtime = cluster.running[cluster.node_of(leader)]
                runtime.read_committed = lambda *_: (leader._commit, None)  # type: ignore[method-assign]
            fetched = await fetch(leader, 0)
            if stored:
                del runtime.read_committed
            assert fetched.next_offset == leader.high_watermark == offset + 1
            assert fetched.size == sum(map(len, fetched.records)) < 1_000
            shell = read_header(fetched.records[-1])
            assert (shell.base, shell.leader_epoch, shell.records) == (offset, leader.term, 1)
            assert shell.attributes & CONTROL
            await leader.publish(P)
            assert len((await fetch(leader, 0)).records[-1]) == len(large)

    run(main())


def test_what_cannot_be_staged_is_refused_and_a_repeated_batch_has_its_place() -> None:
    async def main() -> None:
        async with PartitionCluster(settings=PartitionSettings(max_message_bytes=1_000), raft=STEADY) as cluster:
            leader = await cluster.led()
            first, second, again = begin(leader, numbered(0)), begin(leader, numbered(3)), begin(leader, numbered(0))
            assert (await again).base_offset == (await first).base_offset
            assert (await begin(leader, numbered(3))).base_offset == (await second).base_offset
            await until(lambda: not leader._staging, "it is applied")
            assert (await begin(leader, numbered(3))).base_offset == (await second).base_offset
            end = leader.high_watermark
            damaged = numbered(6)
            damaged[-1] ^= 1
            for data, code in (
                (damaged, Error.CORRUPT_MESSAGE),
                (batch(), Error.INVALID_RECORD),
                (numbered(9), Error.OUT_OF_ORDER_SEQUENCE_NUMBER),
                (numbered(3, producer=5), Error.OUT_OF_ORDER_SEQUENCE_NUMBER),
                (batch(producer=Producer(5, 0, 0), value=bytes(1_000)), Error.MESSAGE_TOO_LARGE),
            ):
                assert code_of(lambda data=data: begin(leader, data)) == code  # type: ignore[misc]
            assert leader.high_watermark == end
            follower = cluster.partitions[cluster.others(leader)[0]]
            assert code_of(lambda: begin(follower, numbered(6))) == Error.NOT_LEADER_OR_FOLLOWER
            # Exactly as large as allowed; its control batch is a little larger.
            size = 1_000 - len(batch(producer=Producer(6, 0, 0), value=b""))
            largest = batch(producer=Producer(6, 0, 0), value=bytes(size - 2))
            assert len(largest) == 1_000
            await begin(leader, largest)
            await leader.publish(6)
            assert leader.high_watermark == end + 2

    run(main())


def test_a_producer_stages_or_appends_and_never_both() -> None:
    async def main() -> None:
        async with PartitionCluster(raft=STEADY) as cluster:
            leader = await cluster.led()
            flying = begin(leader, numbered(0))
            assert code_of(lambda: began(leader, numbered(0))) == Error.INVALID_TXN_STATE
            await flying
            assert code_of(lambda: began(leader, numbered(3))) == Error.INVALID_TXN_STATE
            await append(leader, batch(1, Producer(5, 0, 0)))
            await until(lambda: 5 in leader.state.producers, "it is applied")
            assert code_of(lambda: begin(leader, numbered(0, producer=5))) == Error.INVALID_TXN_STATE

    run(main())


def test_only_a_whole_and_young_stage_may_be_committed() -> None:
    async def main() -> None:
        async with PartitionCluster() as cluster:
            leader = await cluster.led()
            await stage_all(leader)
            await leader.check_stages(PARTS)
            for wrong in (StagePart(P, 5, 18), StagePart(P, 6, 17), StagePart(P, 7, 21), StagePart(P + 1, 1, 3)):
                failure = await refusal([*PARTS, wrong], leader)
                assert (failure.error, failure.definite) == (Error.INVALID_TXN_STATE, True)
            leader.settings = PartitionSettings(stage_expiry_ms=1)
            await until(lambda: bool(leader.expired_stages()), "it is too old")
            assert "too old" in str(await refusal(PARTS, leader))
            leader.settings = PartitionSettings()
            await leader.drop_stages([P])
            assert leader.expired_stages() == []
            assert "nothing of it is here" in str(await refusal(PARTS, leader))
            assert code_of(lambda: begin(leader, numbered(0))) == Error.INVALID_TXN_STATE, "it never comes back"
            await leader.publish(P)
            assert await values(leader) == []
            for node in cluster.others(leader):
                await cluster.crash(node)
            assert (await refusal(PARTS, leader)).error == Error.NOT_LEADER_OR_FOLLOWER, "nobody confirms that it leads"

    run(main())


def test_what_is_staged_is_known_to_the_next_leader_and_after_a_restart_of_all() -> None:
    async def main() -> None:
        async with PartitionCluster() as cluster:
            leader = await cluster.led()
            await stage_all(leader, 3)
            other = await cluster.move(leader)
            for one in range(6):
                await begin(other, numbered(3 * one))
            await other.check_stages(PARTS)
            await cluster.running[cluster.node_of(other)].compact(G1, -1)  # type: ignore[arg-type]
            for node in list(cluster.running):
                await cluster.crash(node)
            for node in cluster.ids:
                await cluster.start(node)
            leader = await cluster.led()
            await leader.check_stages(PARTS)
            await leader.publish(P)
            assert await values(leader) == list(range(18))

    run(main())


class Halts(Partition):
    """Publishes one batch at a time, and stops for the test in between."""

    steps = 0
    allowed = 1_000

    async def _publish_some(self, producer: int, batches: Sequence[StagedBatch]) -> None:
        self.steps += 1
        if self.steps > self.allowed:
            raise KafkaFailure(Error.NOT_ENOUGH_REPLICAS, "the test stops it here")
        await super()._publish_some(producer, batches[:1])


async def publish_somehow(cluster: PartitionCluster) -> Partition:
    """As nodes do it: whoever leads tries until it is done."""
    while True:
        leader = await cluster.led()
        try:
            await leader.publish(P)
            return leader
        except KafkaFailure:
            await asyncio.sleep(0.01)


async def staged_somehow(cluster: PartitionCluster, batches: int = 6) -> Partition:
    """Stage at whoever leads; what was staged before a change of leader is recognized. Returns the last leader."""
    while True:
        leader = await cluster.led()
        try:
            await stage_all(leader, batches)
            return leader
        except KafkaFailure:
            await asyncio.sleep(0.01)


async def values_at_last(cluster: PartitionCluster) -> list[int]:
    """What consumers see at whoever leads."""
    while True:
        try:
            return await values(await cluster.led())
        except KafkaFailure:
            await asyncio.sleep(0.01)


class HaltingCluster(PartitionCluster):
    async def join(self, runtime: MultiRaft, node: NodeId, group: GroupId, store: LogStore) -> None:
        self.partitions[node] = await Halts.open(runtime, group, replica_id(node), store, self.settings, self.time)


@pytest.mark.parametrize("step", range(7))
def test_a_leader_that_dies_at_any_step_is_replaced_where_it_stopped(step: int) -> None:
    async def main() -> None:
        async with HaltingCluster() as cluster:
            leader = await staged_somehow(cluster)
            assert isinstance(leader, Halts)
            leader.allowed = step
            failure = await outcome(leader.publish(P))
            assert (failure is None) is (step == 6) or code_of_later(failure) == Error.NOT_LEADER_OR_FOLLOWER
            await cluster.crash(cluster.node_of(leader))
            after = await publish_somehow(cluster)
            assert await values_at_last(cluster) == list(range(18))
            assert P in after.state.stages.ended

    run(main())


@pytest.mark.parametrize("step", [3, 6])
def test_producers_that_are_forgotten_at_once_are_published_once_all_the_same(step: int) -> None:
    async def main() -> None:
        async with HaltingCluster(settings=PartitionSettings(producer_expiry_ms=1)) as cluster:
            leader = await cluster.led()
            await stage_all(leader)
            assert isinstance(leader, Halts)
            leader.allowed = step
            assert (await outcome(leader.publish(P)) is None) is (step == 6)
            other = await cluster.move(leader)
            for number in range(3):
                # Log time passes, and nobody knows the producer any more.
                await append(other, batch(value=b"-7", producer=Producer(500 + number, 0, 0)))
            assert P not in other.state.producers
            await publish_somehow(cluster)
            await publish_somehow(cluster)
            assert code_of(lambda: begin(other, numbered(0))) == Error.INVALID_TXN_STATE
            assert [value for value in await values(await cluster.led()) if value >= 0] == list(range(18))

    run(main())


@pytest.mark.parametrize("delay_ms", [0, 1, 2, 4, 8])
def test_a_leader_that_dies_in_the_middle_of_it(delay_ms: int) -> None:
    async def main() -> None:
        async with HaltingCluster() as cluster:
            leader = await staged_somehow(cluster, 30)
            publishing = asyncio.ensure_future(leader.publish(P))
            await asyncio.sleep(delay_ms / 1000)
            await cluster.crash(cluster.node_of(leader))
            await asyncio.wait([publishing])
            publishing.exception()
            await publish_somehow(cluster)
            assert await values_at_last(cluster) == list(range(90))

    run(main())


def test_leadership_that_moves_all_the_time() -> None:
    async def main() -> None:
        async with HaltingCluster() as cluster:
            await staged_somehow(cluster, 40)
            over = asyncio.ensure_future(publish_somehow(cluster))
            while not over.done():
                try:
                    await cluster.move(await cluster.led())
                except OperationFailed:
                    continue
            assert await values_at_last(cluster) == list(range(120))

    run(main())


@pytest.mark.parametrize("error", [Busy("too much"), NoRoom("full")])
def test_appends_that_are_refused_in_the_middle_leave_no_gap(error: OperationFailed) -> None:
    async def main() -> None:
        async with PartitionCluster(raft=STEADY) as cluster:
            leader = await cluster.led()
            await stage_all(leader)
            runtime, calls = leader._runtime, 0
            submit = runtime.submit

            def refusing(*args: object) -> None:
                nonlocal calls
                calls += 1
                if calls in (1, 4):
                    raise error
                submit(*args)  # type: ignore[arg-type]

            runtime.submit = refusing  # type: ignore[method-assign, assignment]
            assert code_of_later(await outcome(leader.publish(P))) in (Error.NOT_ENOUGH_REPLICAS, Error.KAFKA_STORAGE_ERROR)
            assert await values(leader) == []
            await leader.publish(P)
            assert await values(leader) == list(range(18))

    run(main())


async def outcome(attempt: object) -> BaseException | None:
    [result] = await asyncio.gather(attempt, return_exceptions=True)  # type: ignore[call-overload]
    return result if isinstance(result, BaseException) else None


def code_of_later(error: BaseException | None) -> int:
    assert isinstance(error, KafkaFailure)
    return error.error


def test_a_follower_that_restarts_from_a_snapshot_publishes_the_rest() -> None:
    async def main() -> None:
        async with HaltingCluster() as cluster:
            leader = await staged_somehow(cluster)
            assert isinstance(leader, Halts)
            leader.allowed = 2
            with pytest.raises(KafkaFailure):
                await leader.publish(P)
            for node, runtime in cluster.running.items():
                await until(lambda node=node: cluster.partitions[node]._applied >= leader._applied, "it has it")  # type: ignore[misc]
                await runtime.compact(G1, -1)  # type: ignore[arg-type]
            for node in cluster.ids:
                await cluster.crash(node)
                await cluster.start(node)
            await publish_somehow(cluster)
            assert await values_at_last(cluster) == list(range(18))

    run(main())


def test_compaction_leaves_what_may_yet_be_published() -> None:
    async def main() -> None:
        async with PartitionCluster(raft=STEADY) as cluster:
            leader = await cluster.led()
            for _ in range(5):
                await append(leader, batch())
            [pin] = await stage_all(leader, 1)
            for _ in range(5):
                await append(leader, batch())
            await leader.delete_before(-1)
            await leader.housekeep()
            assert leader.log_start > pin, "for clients it begins later"
            await until(lambda: leader._store.start == pin - 1, "the disk is freed up to there")
            await leader.housekeep()
            await leader.check_stages([StagePart(P, 1, 3)])
            await leader.publish(P)
            assert await values(leader) == [0, 1, 2]
            assert leader._store.start == pin - 1, "and no further"
            await until(lambda: leader.state.stages.pin is None, "it is applied")
            await leader.housekeep()
            await until(lambda: leader._store.start > pin, "the rest goes when it is published")

    run(main())


def test_a_role_that_changes_while_it_reads_stops_it() -> None:
    async def main() -> None:
        async with PartitionCluster(raft=STEADY) as cluster:
            leader = await cluster.led()
            await stage_all(leader)
            read = leader._read_staged

            async def deposed(staged: StagedBatch) -> bytearray:
                data = await read(staged)
                # Lost and won again while it read: another leader may have gone on meanwhile.
                leader.term += 1  # type: ignore[assignment]
                return data

            leader._read_staged = deposed  # type: ignore[method-assign]
            assert code_of_later(await outcome(leader.publish(P))) == Error.NOT_ENOUGH_REPLICAS
            assert await values(leader) == []

    run(main())
