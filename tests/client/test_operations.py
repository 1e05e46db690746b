"""Every operation against real listeners with a log in memory, and what each says when it cannot be done."""

from __future__ import annotations

import asyncio
import time

import pytest

from quorate.broker.protocol.kafka.apis import Api
from quorate.broker.protocol.kafka.errors import Error
from quorate.client import (
    EARLIEST,
    LATEST,
    AsyncClient,
    BadAnswer,
    BadInput,
    ClientSettings,
    ConnectionLost,
    NotSupported,
    OffsetOutOfRange,
    Produced,
    ProducerId,
    RequestFailed,
    Stage,
    StagePart,
    TimedOut,
    TopicPartition,
    UnknownTopic,
    Unreachable,
)
from quorate.client.batches import BatchBuilder, Producer
from tests.client.scripted import Seen, fetched, scripted
from tests.client.town import offsets_of, run, town, until
from tests.support.record_batches import record_batch

PART = TopicPartition("t", 0)
MIB = 1 << 20


def test_topics() -> None:
    async def main() -> None:
        async with town() as place, AsyncClient(place.bootstrap) as client:
            found = await client.topics(["t", "nope"])
            assert found["t"].id == b"t" * 16
            assert [(one.index, one.leader, one.epoch) for one in found["t"].partitions] == [(0, 1, 1), (1, 1, 1), (2, 1, 1)]
            assert found["nope"].error == Error.UNKNOWN_TOPIC_OR_PARTITION
            assert found["nope"].partitions == ()
            await client.create_topic("new", 2, settings={"retention.ms": "5"})
            with pytest.raises(RequestFailed, match="topic-already-exists"):
                await client.create_topic("new", 2)
            await client.delete_topic("new")
            assert (await client.topics(["new"]))["new"].error == Error.UNKNOWN_TOPIC_OR_PARTITION
            with pytest.raises(UnknownTopic, match="new"):
                await client.delete_topic("new")

    run(main())


def test_what_was_produced_is_fetched() -> None:
    async def main() -> None:
        async with town() as place, AsyncClient(place.bootstrap) as client:
            sent = [record_batch(300 + number, 3) for number in range(4)]
            places = [await client.produce(PART, bytes(one)) for one in sent]
            assert [one.base_offset for one in places] == [0, 3, 6, 9]
            found = await client.fetch(PART, 4, max_bytes=MIB)
            assert (found.high_watermark, found.log_start) == (12, 0)
            assert offsets_of(found.data) == [3, 6, 9]
            assert found.data[:8] == (3).to_bytes(8, "big")
            assert found.data[21:301] == sent[1][21:]
            # One that is larger than the limit comes all the same.
            assert offsets_of((await client.fetch(PART, 0, max_bytes=1)).data) == [0]
            assert not (await client.fetch(PART, 12, max_bytes=MIB)).data
            offsets = await client.offsets({PART: LATEST, TopicPartition("t", 1): EARLIEST})
            assert {part: one.offset for part, one in offsets.items()} == {PART: 12, ("t", 1): 0}

    run(main())


@pytest.mark.parametrize(("acks", "expected"), [(-1, Produced(0, -1)), (1, Produced(0, -1)), (0, Produced(-1, -1))])
def test_acks(acks: int, expected: Produced) -> None:
    async def main() -> None:
        async with town() as place, AsyncClient(place.bootstrap) as client:
            assert await client.produce(PART, record_batch(200), acks=acks) == expected
            # The next answer is that to the next request: nothing waits for one that does not come.
            assert (await client.produce(PART, record_batch(200))).base_offset == 1

    run(main())


def test_a_fetch_waits_for_what_comes() -> None:
    async def main() -> None:
        async with town() as place, AsyncClient(place.bootstrap) as client:
            waiting = asyncio.create_task(client.fetch(PART, 0, max_bytes=MIB, max_wait_ms=20_000))
            await until(lambda: bool(place.log.waiting), "the fetch waits")
            # A request that waits holds up nobody else's.
            await client.produce(PART, record_batch(200))
            assert offsets_of((await waiting).data) == [0]

    run(main())


def test_an_offset_that_is_not_there_says_what_is() -> None:
    async def main() -> None:
        async with town() as place, AsyncClient(place.bootstrap) as client:
            place.log.fill(2)
            with pytest.raises(OffsetOutOfRange) as error:
                await client.fetch(PART, 21, max_bytes=MIB)
            found = error.value
            assert (found.part, found.offset, found.log_start, found.end) == (PART, 21, 0, 20)
            assert not found.retriable
            with pytest.raises(OffsetOutOfRange):
                await anext(client.stream(PART, 99, 100, max_bytes=MIB))

    run(main())


def test_a_node_that_does_not_know_yet_how_far_it_leads() -> None:
    """A new leader may refuse an offset that is there: it is asked again."""

    async def main() -> None:
        async with scripted() as node, AsyncClient(node.address) as client:
            batch = bytes(record_batch(200))

            def fetch(seen: Seen) -> bytes:
                error = Error.OFFSET_OUT_OF_RANGE if node.count(Api.FETCH) < 3 else 0
                return fetched(seen, b"" if error else batch, error=error)

            def offsets(seen: Seen) -> bytes:
                [topic] = seen.value["topics"]
                [part] = topic["partitions"]
                found = {"partition_index": 0, "error_code": 0, "offset": 0 if part["timestamp"] == EARLIEST else 1}
                return seen.answer({"topics": [{"name": "t", "partitions": [found]}]})

            node.script |= {Api.FETCH: fetch, Api.LIST_OFFSETS: offsets}
            assert (await client.fetch(PART, 0, max_bytes=MIB)).data == batch
            node.seen.clear()
            with pytest.raises(OffsetOutOfRange, match="0 to before 1, and not 2"):
                await client.fetch(PART, 2, max_bytes=MIB)

    run(main())


def test_unknown_topics_and_partitions() -> None:
    async def main() -> None:
        async with town() as place, AsyncClient(place.bootstrap) as client:
            with pytest.raises(UnknownTopic, match="no topic 'nope'"):
                await client.fetch(TopicPartition("nope", 0), 0, max_bytes=MIB)
            with pytest.raises(UnknownTopic, match="'t' has no partition 7"):
                await client.produce(TopicPartition("t", 7), record_batch(200))
            with pytest.raises(UnknownTopic, match="nope"):
                await client.offsets({PART: LATEST, TopicPartition("nope", 0): LATEST})

    run(main())


def test_calls_that_cannot_be_carried_out() -> None:
    async def main() -> None:
        async with AsyncClient("127.0.0.1:1") as client:
            for batch in (b"", b"x" * 100, bytes(record_batch(200)) * 2, bytes(record_batch(200))[:-1]):
                with pytest.raises(BadInput, match="one batch"):
                    await client.produce(PART, batch)
            with pytest.raises(BadInput, match="acks"):
                await client.produce(PART, record_batch(200), acks=2)
            with pytest.raises(BadInput, match="max_bytes"):
                await client.fetch(PART, 0, max_bytes=0)
            with pytest.raises(BadInput, match="offset -1"):
                await client.fetch(PART, -1, max_bytes=1)
            with pytest.raises(BadInput, match="-4"):
                await client.offsets({PART: -4})
            with pytest.raises(BadInput, match="prefetch"):
                await anext(client.stream(PART, 0, 1, max_bytes=1, prefetch=-1))
            with pytest.raises(BadInput, match="staged"):
                await client.stage(PART, record_batch(200))

    run(main())


def test_nobody_is_there() -> None:
    async def main() -> None:
        settings = ClientSettings(bootstrap="127.0.0.1:1,127.0.0.1:2", connect_timeout_ms=300)
        async with AsyncClient(settings) as client:
            began = time.monotonic()
            with pytest.raises(Unreachable) as error:
                await client.topics()
            assert time.monotonic() - began < 20
            assert error.value.bootstrap == ("127.0.0.1:1", "127.0.0.1:2")
            for word in ("127.0.0.1:1: no connection: ", "127.0.0.1:2", "efused"):
                assert word in str(error.value)

    run(main())


def test_somebody_else_is_there() -> None:
    """A server of another kind is said at once, whatever the time that is left."""

    async def main() -> None:
        async with scripted() as node, AsyncClient(node.address) as client:
            node.script[Api.API_VERSIONS] = lambda seen: b"HTTP/1.1 400 Bad Request\r\n\r\n"
            with pytest.raises(BadAnswer, match="127"):
                await client.topics()

    run(main())


def test_a_node_that_says_nothing() -> None:
    async def main() -> None:
        async with scripted() as node:
            settings = ClientSettings(bootstrap=node.address, request_timeout_ms=100, retry_ms=300)
            async with AsyncClient(settings) as client:
                with pytest.raises(TimedOut, match="FETCH"):
                    await client.fetch(PART, 0, max_bytes=MIB)
                assert node.count(Api.FETCH) > 1, "it is safe to repeat"

    run(main())


@pytest.mark.parametrize("damage", [b"", b"x" * 100, "crc", "cut"])
def test_damaged_batches(damage: bytes | str) -> None:
    data = bytearray(record_batch(300))
    if damage == "crc":
        data[-1] ^= 1
    elif damage == "cut":
        data = data[:-1]
    else:
        assert isinstance(damage, bytes)
        data = bytearray(damage)

    async def main() -> None:
        async with scripted() as node, AsyncClient(node.address) as client:
            node.script[Api.FETCH] = lambda seen: fetched(seen, bytes(data))
            if not damage:
                assert not (await client.fetch(PART, 0, max_bytes=MIB)).data
                return
            with pytest.raises(BadAnswer, match="t/0"):
                await client.fetch(PART, 0, max_bytes=MIB)

    run(main())


def test_answers_about_something_else() -> None:
    async def main() -> None:
        async with scripted() as node, AsyncClient(node.address) as client:

            def other(seen: Seen) -> bytes:
                wanted = seen._replace(value={**seen.value, "topics": [{"topic": "x", "partitions": [{"partition": 0}]}]})
                return fetched(wanted, b"")

            node.script[Api.FETCH] = other
            node.script[Api.LIST_OFFSETS] = lambda seen: seen.answer({"topics": []})
            with pytest.raises(BadAnswer, match="nothing about t/0"):
                await client.fetch(PART, 0, max_bytes=MIB)
            with pytest.raises(BadAnswer, match="missing"):
                await client.offsets({PART: LATEST})

    run(main())


def test_a_server_without_the_private_requests() -> None:
    """Kafka, or an older node: in words, and not by a timeout."""
    batch = BatchBuilder()
    batch.append(5, None, b"value")
    stage = Stage(7, (StagePart("t", 0, 1, 1),))

    async def main() -> None:
        async with scripted() as node, AsyncClient(node.address) as client:
            with pytest.raises(NotSupported, match="CLOSED_TIME"):
                await client.closed_time([PART])
            with pytest.raises(NotSupported, match="STAGE"):
                await client.stage(PART, batch.build(producer=Producer(7, 0, 0)))
            with pytest.raises(NotSupported, match="COMMIT_STAGED"):
                await client.commit_staged("app", 0, [stage], timeout_ms=1_000)
            with pytest.raises(NotSupported, match="DROP_STAGED"):
                await client.drop_staged([stage])

    run(main())


def test_producer_ids() -> None:
    async def main() -> None:
        async with town() as place, AsyncClient(place.bootstrap) as client:
            assert await client.new_producer() == ProducerId(77, 0)

    run(main())


def test_groups_without_a_coordinator() -> None:
    async def main() -> None:
        async with town() as place, AsyncClient(ClientSettings(bootstrap=place.bootstrap, retry_ms=200)) as client:
            assert (await client.coordinator("elsewhere")).port == place.ports[2]
            with pytest.raises(RequestFailed, match="coordinator-not-available"):
                await client.commit_group_offsets("g", {PART: 5})
            with pytest.raises(RequestFailed, match="not-coordinator"):
                await client.group_offsets("elsewhere")
            with pytest.raises(BadInput):
                await client.commit_group_offsets("g", {PART: -1})
            await client.commit_group_offsets("g", {})

    run(main())


def test_errors_that_are_not_connection_errors_leave_the_connection_alone() -> None:
    async def main() -> None:
        async with scripted() as node, AsyncClient(ClientSettings(bootstrap=node.address, retry_ms=0)) as client:
            node.script[Api.FETCH] = lambda seen: fetched(seen, b"", error=Error.CORRUPT_MESSAGE)
            for _ in range(5):
                with pytest.raises(RequestFailed, match="corrupt-message"):
                    await client.fetch(PART, 0, max_bytes=MIB)
            assert node.connections == 2, "one for metadata, one for fetches"
            node.cut()
            node.script[Api.FETCH] = lambda seen: None
            with pytest.raises(ConnectionLost, match="closed the connection"):
                await client.fetch(PART, 0, max_bytes=MIB)

    run(main())
