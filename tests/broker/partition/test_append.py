"""Appends on three nodes: what is confirmed, what is refused, duplicates, and what a change of leader does to them."""

from __future__ import annotations

import asyncio

import pytest

from quorate.broker.partition import Appended, KafkaFailure, PartitionSettings
from quorate.broker.partition.values import failure_of
from quorate.broker.protocol.builder import BatchBuilder, Producer
from quorate.broker.protocol.compression import Compression
from quorate.broker.protocol.kafka.errors import Error
from quorate.consensus.batch.header import CONTROL, patch_attributes, read_header, seal
from quorate.consensus.core import Offset, RoleChange, replica_id
from quorate.consensus.runtime import Busy, NoRoom, NotLeading, OperationFailed, Superseded, Uncertain
from tests.broker.partition.lab import PartitionCluster, append, batch, began, fetch, run
from tests.support.cluster import G1, until


def test_every_way_to_confirm() -> None:
    async def main() -> None:
        async with PartitionCluster() as cluster:
            leader = await cluster.led()
            first = await append(leader, batch(3))
            assert (first.log_start, first.epoch) == (0, leader.term)
            assert first.append_time > 0
            assert (await append(leader, batch(2), acks=1)).base_offset == first.base_offset + 3
            assert (await append(leader, batch(1), acks=0)).base_offset == -1
            last = await append(leader, memoryview(bytes(batch(1))))
            assert last.base_offset == first.base_offset + 6
            got = await fetch(leader, first.base_offset)
            assert [read_header(one).records for one in got.records] == [3, 2, 1, 1]

    run(main())


def test_acks_of_the_leader_alone_do_not_wait_for_a_majority() -> None:
    async def main() -> None:
        async with PartitionCluster() as cluster:
            leader = await cluster.led()
            for node in cluster.others(leader):
                await cluster.crash(node)
            waits = began(leader, batch())
            local = await append(leader, batch(), acks=1)
            assert local.base_offset >= 0
            assert not waits.done()
            with pytest.raises(KafkaFailure) as caught:
                await waits
            assert (caught.value.error, caught.value.definite) == (20, False)

    run(main())


def bad_batches() -> list[tuple[bytearray, int]]:
    damaged = batch()
    damaged[-1] ^= 1
    control = batch()
    patch_attributes(control, CONTROL)
    seal(control)
    old = batch()
    old[16] = 1
    unknown = batch()
    patch_attributes(unknown, 5)
    seal(unknown)
    builder = BatchBuilder()
    builder.append(1, b"", b"")
    transactional = builder.build(Compression.NONE, Producer(1, 0, 0), transactional=True)
    return [
        (damaged, 2),
        (batch()[:-1], 2),
        (bytearray(3), 2),
        (batch() + batch(), 87),
        (control, 87),
        (old, 43),
        (unknown, 76),
        (transactional, 48),
        (batch(value=bytes(1_000)), 10),
    ]


def test_what_cannot_be_taken_is_refused_and_changes_nothing() -> None:
    async def main() -> None:
        async with PartitionCluster(settings=PartitionSettings(max_message_bytes=500)) as cluster:
            leader = await cluster.led()
            end = leader.high_watermark
            for data, code in bad_batches():
                with pytest.raises(KafkaFailure) as caught:
                    began(leader, data)
                assert (caught.value.error, caught.value.definite) == (code, True)
            follower = cluster.partitions[cluster.others(leader)[0]]
            with pytest.raises(KafkaFailure) as caught:
                began(follower, batch())
            assert caught.value.error == 6
            leader.settings = PartitionSettings()
            assert (await append(leader, batch(value=bytes(1_000)))).base_offset == end

    run(main())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotLeading(replica_id(1)), 6),
        (Superseded(""), 6),
        (Busy(""), 19),
        (NoRoom(""), 56),
        (Uncertain(""), 20),
        (OperationFailed(""), 19),
    ],
)
def test_the_runtimes_errors_in_kafkas_words(error: OperationFailed, code: int) -> None:
    failure = failure_of(error)
    assert (failure.error, failure.definite) == (Error(code), error.definite)


def test_duplicates_have_the_originals_place() -> None:
    async def main() -> None:
        async with PartitionCluster() as cluster:
            leader = await cluster.led()
            # The second and the third are in flight together with what they repeat.
            answers = [began(leader, batch(2, Producer(9, 0, first))) for first in (0, 0, 2, 0, 2)]
            offsets = [(await answer).base_offset for answer in answers]
            assert offsets == [offsets[0], offsets[0], offsets[0] + 2, offsets[0], offsets[0] + 2]
            again = await append(leader, batch(2, Producer(9, 0, 2)))
            assert again.base_offset == offsets[2]
            assert leader.high_watermark == offsets[2] + 2
            with pytest.raises(KafkaFailure) as caught:
                began(leader, batch(1, Producer(9, 0, 5)))
            assert caught.value.error == 45
            await until(lambda: leader._producers.in_flight == 0, "all is applied")

    run(main())


def test_a_new_leader_knows_what_was_appended_before_it() -> None:
    async def main() -> None:
        async with PartitionCluster() as cluster:
            leader = await cluster.led()
            offsets = [(await append(leader, batch(1, Producer(4, 1, number)))).base_offset for number in range(8)]
            other = await cluster.move(leader)
            assert (await append(other, batch(1, Producer(4, 1, 6)))).base_offset == offsets[6]
            assert (await append(other, batch(1, Producer(4, 1, 8)))).base_offset > offsets[7]
            for code, producer in ((45, Producer(4, 1, 2)), (47, Producer(4, 0, 9)), (45, Producer(4, 2, 1))):
                with pytest.raises(KafkaFailure) as caught:
                    began(other, batch(1, producer))
                assert caught.value.error == code
            end = other.high_watermark - 1
            await until(lambda: all(p._applied >= end for p in cluster.partitions.values()), "all have applied")
            assert len({p.save() for p in cluster.partitions.values()}) == 1

    run(main())


def test_an_idempotent_append_waits_until_a_new_leader_knows_its_log() -> None:
    async def main() -> None:
        async with PartitionCluster() as cluster:
            leader = await cluster.led()
            placed = await append(leader, batch(1, Producer(4, 0, 0)))
            heir = cluster.others(leader)[0]
            early: list[asyncio.Future[Appended]] = []
            partition = cluster.partitions[heir]
            told = partition.role_changed

            def at_once(change: RoleChange, term_start: Offset) -> None:
                told(change, term_start)
                if partition.leads:
                    assert partition._applied < partition._term_start
                    early.append(began(partition, batch(1, Producer(4, 0, 0))))

            partition.role_changed = at_once  # type: ignore[method-assign]
            await cluster.running[cluster.node_of(leader)].transfer(G1, replica_id(heir))
            await until(lambda: bool(early), "it was appended")
            assert (await early[0]).base_offset == placed.base_offset

    run(main())


def test_what_follows_a_batch_that_was_sent_away_is_no_gap() -> None:
    """Told that it were one, librdkafka begins a new epoch, and what is in doubt before it is appended twice."""

    async def main() -> None:
        async with PartitionCluster() as cluster:
            leader = await cluster.led()
            node, away = cluster.node_of(leader), cluster.others(leader)[0]
            await append(leader, batch(1, Producer(7, 0, 0)))
            await cluster.crash(away)
            # Nothing is appended until the transfer has failed.
            handing = asyncio.ensure_future(cluster.running[node].transfer(G1, replica_id(away)))
            await asyncio.sleep(0)
            refusals = []
            for sequence in (1, 2, 3):
                with pytest.raises(KafkaFailure) as caught:
                    await append(leader, batch(1, Producer(7, 0, sequence)))
                refusals.append((caught.value.error, caught.value.definite))
            assert len(set(refusals)) == 1
            assert refusals[0][0] != Error.OUT_OF_ORDER_SEQUENCE_NUMBER
            with pytest.raises(OperationFailed):
                await handing
            raft = cluster.running[node]._group(G1).raft
            await until(lambda: not raft.transfer_to, "the leader goes on")
            with pytest.raises(KafkaFailure) as caught:
                await append(leader, batch(1, Producer(7, 0, 2)))
            assert (caught.value.error, caught.value.definite) == refusals[0], "the one before it comes first"
            placed = [(await append(leader, batch(1, Producer(7, 0, number)))).base_offset for number in (1, 2, 3)]
            assert placed == sorted(placed)
            with pytest.raises(KafkaFailure) as caught:
                await append(leader, batch(1, Producer(7, 0, 5)))
            assert caught.value.error == Error.OUT_OF_ORDER_SEQUENCE_NUMBER, "that one is a gap"
            with pytest.raises(KafkaFailure) as caught:
                await append(leader, batch(1, Producer(7, 1, 9)))
            assert caught.value.error == Error.OUT_OF_ORDER_SEQUENCE_NUMBER

    run(main())


def test_what_a_lost_leader_had_in_flight_is_uncertain_and_can_be_sent_again() -> None:
    async def main() -> None:
        async with PartitionCluster() as cluster:
            leader = await cluster.led()
            node, others = cluster.node_of(leader), cluster.others(leader)
            await append(leader, batch(1, Producer(5, 0, 0)))
            for other in others:
                await cluster.crash(other)
            lost = began(leader, batch(1, Producer(5, 0, 1)))
            retry = began(leader, batch(1, Producer(5, 0, 1)))
            for answer in (lost, retry):
                with pytest.raises(KafkaFailure) as caught:
                    await answer
                assert not caught.value.definite
            assert leader._producers.in_flight == 0
            await cluster.crash(node)
            for other in others:
                await cluster.start(other)
            new = await cluster.led()
            assert (await append(new, batch(1, Producer(5, 0, 1)))).base_offset == new.high_watermark - 1
            await cluster.start(node)
            end = new.high_watermark - 1
            await until(lambda: cluster.partitions[node]._applied >= end, "the old leader follows")
            assert cluster.partitions[node].save() == new.save()

    run(main())


def test_state_and_duplicates_survive_a_restart_of_all() -> None:
    async def main() -> None:
        async with PartitionCluster(settings=PartitionSettings(snapshot_batches=5)) as cluster:
            leader = await cluster.led()
            offsets = [(await append(leader, batch(1, Producer(6, 0, number)))).base_offset for number in range(6)]
            await leader.housekeep()
            assert leader._unsaved == 0
            assert cluster.stores[cluster.node_of(leader), G1].load_state()[1]
            offsets.append((await append(leader, batch(1, Producer(6, 0, 6)))).base_offset)
            for node in cluster.ids:
                await cluster.crash(node)
            for node in cluster.ids:
                await cluster.start(node)
            leader = await cluster.led()
            for number in range(2, 7):
                assert (await append(leader, batch(1, Producer(6, 0, number)))).base_offset == offsets[number]

    run(main())
