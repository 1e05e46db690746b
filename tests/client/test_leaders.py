"""Leaders change and connections break: what is safe is repeated at the right node, and what is not is said."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from quorate.broker.kafka.backend import KafkaFailure
from quorate.broker.protocol.kafka.apis import Api
from quorate.broker.protocol.kafka.errors import Error
from quorate.client import (
    LATEST,
    AsyncClient,
    ClientSettings,
    ConnectionLost,
    QuorateError,
    RequestFailed,
    TimedOut,
    TopicPartition,
)
from quorate.client.batches import BatchBuilder, Producer
from tests.client.scripted import Seen, produced, scripted
from tests.client.town import Town, offsets_of, run, town, until
from tests.support.record_batches import record_batch

PART = TopicPartition("t", 0)
MIB = 1 << 20
BATCHES = 400


async def streamed(client: AsyncClient, start: int, end: int, max_bytes: int = 4_000, prefetch: int = 2) -> list[int]:
    found: list[int] = []
    async for data in client.stream(PART, start, end, max_bytes=max_bytes, prefetch=prefetch):
        found += offsets_of(data)
    return found


def requests(client: AsyncClient) -> int:
    assert client._core is not None
    return client._core.metadata.requests


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_a_stream_covers_its_range_and_nothing_else(prefetch: int) -> None:
    async def main() -> None:
        async with town() as place, AsyncClient(place.bootstrap) as client:
            place.log.fill(50)
            for start, end in ((0, 500), (5, 495), (10, 490), (9, 11), (100, 101), (499, 500)):
                whole = list(range(start // 10 * 10, end, 10))
                assert await streamed(client, start, end, prefetch=prefetch) == whole, (start, end)
            for start, end in ((7, 7), (500, 500), (9, 3)):
                assert await streamed(client, start, end, prefetch=prefetch) == []

    run(main())


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_stream_outlives_its_leaders_and_connections(prefetch: int) -> None:
    async def main() -> None:
        async with town() as place, AsyncClient(place.bootstrap) as client:
            place.log.fill(BATCHES)

            def trouble(number: int) -> None:
                if number % 7 == 0:
                    place.lead(3 - place.leader)
                if number % 5 == 0:
                    place.cut(1 + number % 2)

            place.log.on_fetch = trouble
            assert await streamed(client, 0, place.log.end, prefetch=prefetch) == list(range(0, 10 * BATCHES, 10))
            assert place.epoch > 10, "leaders did change"

    run(main())


def test_a_stream_waits_for_what_is_still_to_come() -> None:
    async def main() -> None:
        async with town() as place, AsyncClient(place.bootstrap) as client:
            place.log.fill(1)
            async with aclosing(client.stream(PART, 0, 30, max_bytes=MIB)) as stream:
                assert offsets_of(await anext(stream)) == [0]
                for offset in (10, 20):
                    await client.produce(PART, record_batch(100, 10))
                    assert offsets_of(await anext(stream)) == [offset]
                with pytest.raises(StopAsyncIteration):
                    await anext(stream)

    run(main())


def test_a_stream_beyond_the_log_ends_in_time() -> None:
    async def main() -> None:
        async with town() as place, AsyncClient(ClientSettings(bootstrap=place.bootstrap, retry_ms=700)) as client:
            place.log.fill(1)
            with pytest.raises(TimedOut, match="offset 10"):
                await streamed(client, 0, 11)

    run(main())


def test_memory_is_bounded_by_prefetch() -> None:
    async def main() -> None:
        async with town() as place, AsyncClient(place.bootstrap) as client:
            place.log.fill(100)
            async with aclosing(client.stream(PART, 0, 1_000, max_bytes=1_100, prefetch=3)) as stream:
                await anext(stream)
                await until(lambda: place.log.fetches >= 4, "there were 4")
                # Time enough for one too many.
                for _ in range(20):
                    await client.offsets({PART: LATEST})
                assert place.log.fetches == 4, "one was taken, three are ready"
                await anext(stream)
                await until(lambda: place.log.fetches >= 5, "there were 5")

    run(main())


def test_who_leads_instead_is_believed_without_asking() -> None:
    async def main() -> None:
        async with town() as place, AsyncClient(place.bootstrap) as client:
            place.log.fill(1)
            await client.fetch(PART, 0, max_bytes=MIB)
            before = requests(client)
            place.lead(2)
            assert offsets_of((await client.fetch(PART, 0, max_bytes=MIB)).data) == [0]
            await client.produce(PART, record_batch(200))
            assert requests(client) == before

    run(main())


def test_a_node_that_does_not_know_its_successor() -> None:
    """Metadata lag behind: who was wrong once is asked again, and an older epoch does not win."""

    async def main() -> None:
        async with town() as place, AsyncClient(place.bootstrap) as client:
            place.log.fill(1)
            await client.fetch(PART, 0, max_bytes=MIB)
            place.leader = 2
            asked = asyncio.create_task(client.fetch(PART, 0, max_bytes=MIB))
            await until(lambda: requests(client) >= 4, "there were 4")
            assert not asked.done()
            place.lead(2)
            assert offsets_of((await asked).data) == [0]

    run(main())


def test_no_storm_of_metadata_requests() -> None:
    async def main() -> None:
        async with town() as place, AsyncClient(place.bootstrap) as client:
            place.log.fill(1)
            parts = [TopicPartition("t", index) for index in range(3)]
            asked = [client.fetch(part, 0, max_bytes=MIB) for part in parts for _ in range(100)]
            await asyncio.gather(*asked)
            assert requests(client) == 1
            # Nobody leads for a while.
            place.leader = 0
            began = asyncio.get_running_loop().time()
            waiting = [asyncio.create_task(client.fetch(part, 0, max_bytes=MIB)) for part in parts for _ in range(100)]
            await until(lambda: requests(client) >= 6, "there were 6")
            assert requests(client) <= 3 + (asyncio.get_running_loop().time() - began) / 0.1
            place.lead(2)
            await asyncio.gather(*waiting)

    run(main())


# Writing.


def idempotent(number: int = 0) -> bytearray:
    batch = BatchBuilder()
    batch.append(5, None, b"value")
    return batch.build(producer=Producer(7, 0, number))


def test_a_batch_that_certainly_does_not_stand_is_sent_again() -> None:
    async def main() -> None:
        async with town() as place, AsyncClient(place.bootstrap) as client:
            await client.produce(PART, record_batch(200))
            place.leader = 2  # and node 1 does not know it, so it cannot say it either
            asked = asyncio.create_task(client.produce(PART, record_batch(200)))
            await until(lambda: requests(client) >= 3, "there were 3")
            place.lead(2)
            assert (await asked).base_offset == 1
            assert place.log.appends == 2

    run(main())


def _lose_the_answer(place: Town) -> None:
    """The batch is appended, and the connection breaks before the answer leaves."""
    place.log.after_append = lambda number: place.cut(1) if number == 1 else None


def test_a_batch_in_doubt_is_not_repeated() -> None:
    async def main() -> None:
        async with town() as place, AsyncClient(place.bootstrap) as client:
            _lose_the_answer(place)
            with pytest.raises(ConnectionLost) as error:
                await client.produce(PART, record_batch(200))
            assert not error.value.definite
            assert place.log.appends == 1

    run(main())


def test_a_batch_of_an_idempotent_producer_is_repeated() -> None:
    async def main() -> None:
        async with town() as place, AsyncClient(place.bootstrap) as client:
            _lose_the_answer(place)
            await client.produce(PART, idempotent())
            # A real log knows it again; this one counts it.
            assert place.log.appends == 2

    run(main())


@pytest.mark.parametrize("error", [Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Error.REQUEST_TIMED_OUT])
def test_refusals_that_leave_it_open(error: Error) -> None:
    async def main() -> None:
        async with scripted() as node, AsyncClient(node.address) as client:
            node.script[Api.PRODUCE] = lambda seen: produced(seen, error)
            with pytest.raises(RequestFailed) as refused:
                await client.produce(PART, record_batch(200))
            assert not refused.value.definite
            assert node.count(Api.PRODUCE) == 1

    run(main())


def test_doubt_remains_when_a_later_attempt_is_refused() -> None:
    """The last error is definite by itself, but the first attempt may have happened."""

    async def main() -> None:
        async with scripted() as node, AsyncClient(node.address) as client:

            def answer(seen: Seen) -> bytes | None:
                return None if node.count(Api.PRODUCE) == 1 else produced(seen, Error.INVALID_RECORD)

            node.script[Api.PRODUCE] = answer
            with pytest.raises(RequestFailed, match="invalid-record") as refused:
                await client.produce(PART, idempotent())
            assert not refused.value.definite

    run(main())


def test_what_was_never_sent_is_definite() -> None:
    async def main() -> None:
        settings = ClientSettings(bootstrap="127.0.0.1:1", connect_timeout_ms=200)
        async with AsyncClient(settings) as client:
            with pytest.raises(QuorateError) as error:
                await client.produce(PART, record_batch(200))
            assert error.value.definite

    run(main())


def test_batches_of_one_partition_keep_their_order() -> None:
    async def main() -> None:
        async with town() as place, AsyncClient(place.bootstrap) as client:
            places = await asyncio.gather(*(client.produce(PART, record_batch(200)) for _ in range(200)))
            assert [one.base_offset for one in places] == list(range(200))

    run(main())


def test_a_leader_that_is_busy() -> None:
    async def main() -> None:
        async with town() as place, AsyncClient(place.bootstrap) as client:
            place.log.refuses = KafkaFailure(Error.NOT_ENOUGH_REPLICAS, "busy")
            asked = [asyncio.create_task(client.produce(PART, record_batch(200))) for _ in range(3)]
            await until(lambda: place.log.appends >= 6, "there were 6")
            place.log.refuses = None
            assert sorted(one.base_offset for one in await asyncio.gather(*asked)) == [0, 1, 2]

    run(main())


def test_a_fence_that_the_caller_asks_for() -> None:
    async def main() -> None:
        async with town() as place, AsyncClient(place.bootstrap) as client:
            place.log.refuses = KafkaFailure(Error.FENCED_LEADER_EPOCH, "over")
            with pytest.raises(RequestFailed, match="fenced"):
                await client.fetch(PART, 0, max_bytes=MIB, epoch=1)

    run(main())
