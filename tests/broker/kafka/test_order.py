"""Answers leave in the order of the requests, whatever is ready first; and what a long poll does to a connection."""

from __future__ import annotations

import asyncio

import pytest

from quorate.broker.kafka.backend import Fetched
from quorate.broker.protocol.kafka.apis import Api
from tests.broker.kafka.lab import fetch, lab, part, produce, run
from tests.support.cluster import until


def test_answers_wait_for_the_one_before_them() -> None:
    async def main() -> None:
        async with lab() as node:
            client = await node.client()
            node.backend.here.hold = True
            first = client.send(Api.PRODUCE, 9, produce())
            second = client.send(Api.METADATA, 12, {"topics": None})
            third = client.send(Api.API_VERSIONS, 3, {})
            await until(lambda: bool(node.backend.here.held), "the append is under way")
            await node.others_are_served()
            assert client.silent
            node.backend.here.release()
            assert part(await client.answer(Api.PRODUCE, 9, first))["base_offset"] == 0
            assert (await client.answer(Api.METADATA, 12, second))["topics"][0]["name"] == "t"
            assert (await client.answer(Api.API_VERSIONS, 3, third))["error_code"] == 0
            assert node.listener.budget.held == 0

    run(main())


def test_many_requests_in_one_write() -> None:
    async def main() -> None:
        async with lab() as node:
            client = await node.client()
            numbers = [client.send(Api.PRODUCE, version, produce()) for version in range(3, 12)]
            for offset, (version, number) in enumerate(zip(range(3, 12), numbers, strict=True)):
                assert part(await client.answer(Api.PRODUCE, version, number))["base_offset"] == offset

    run(main())


def test_a_request_that_comes_byte_by_byte() -> None:
    async def main() -> None:
        async with lab() as node:
            client = await node.client()
            for byte in b"\0\0\0\x0a\0\x12\0\0\0\0\0\x01\xff\xff":
                client.write(bytes([byte]))
                await asyncio.sleep(0)
            assert (await client.answer(Api.API_VERSIONS, 0, 1))["error_code"] == 0

    run(main())


def test_acks_0_gets_no_answer() -> None:
    async def main() -> None:
        async with lab() as node:
            client = await node.client()
            client.send(Api.PRODUCE, 9, produce(acks=0))
            assert (await client.ask(Api.API_VERSIONS, 0, {}))["error_code"] == 0
            assert node.backend.here.end == 1

    run(main())


def test_acks_0_to_the_wrong_broker_ends_the_connection() -> None:
    async def main() -> None:
        async with lab() as node:
            client = await node.client()
            client.send(Api.PRODUCE, 9, produce(acks=0, partition=1))
            await node.closed_with(client, "without acknowledgement failed")

    run(main())


@pytest.mark.parametrize("version", [4, 11, 12, 16])
def test_a_long_poll_is_woken(version: int) -> None:
    async def main() -> None:
        async with lab() as node:
            reader, writer = await node.client(), await node.client()
            reader.send(Api.FETCH, version, fetch(version, wait_ms=60_000))
            # What comes after a Fetch that waits is held back, as in Kafka.
            after = reader.send(Api.API_VERSIONS, 0, {})
            await until(lambda: bool(node.backend.here.waiting), "the fetch waits")
            assert reader.silent
            await writer.ask(Api.PRODUCE, 9, produce())
            found = part(await reader.answer(Api.FETCH, version, after - 1))
            assert len(found["records"]) == 200
            assert found["high_watermark"] == 1
            await reader.answer(Api.API_VERSIONS, 0, after)

    run(main())


def test_a_long_poll_ends_with_its_time() -> None:
    async def main() -> None:
        async with lab() as node:
            client = await node.client()
            answer = await client.ask(Api.FETCH, 12, fetch(12, wait_ms=20))
            assert part(answer)["records"] == b""
            assert not node.backend.here.waiting

    run(main())


def test_a_client_that_leaves_in_the_middle_of_a_long_poll() -> None:
    async def main() -> None:
        async with lab() as node:
            client = await node.client()
            client.send(Api.FETCH, 12, fetch(12, wait_ms=60_000))
            await until(lambda: bool(node.backend.here.waiting), "the fetch waits")
            client.close()
            await until(lambda: node.listener.connections == 0, "the connection is gone")
            assert not node.backend.here.waiting, "nobody waits for it any longer"
            assert node.listener.budget.held == 0
            assert node.logged == []

    run(main())


def test_a_client_that_leaves_before_its_append_is_done() -> None:
    async def main() -> None:
        async with lab() as node:
            client = await node.client()
            node.backend.here.hold = True
            client.send(Api.PRODUCE, 9, produce())
            await until(lambda: bool(node.backend.here.held), "the append is under way")
            client.close()
            await until(lambda: node.listener.connections == 0, "the connection is gone")
            node.backend.here.release()
            assert node.backend.here.end == 1
            assert node.listener.budget.held == 0
            await node.others_are_served()

    run(main())


def test_a_read_that_needs_the_disk_does_not_hold_up_others() -> None:
    async def main() -> None:
        async with lab() as node:
            client = await node.client()
            disk: asyncio.Future[Fetched] = asyncio.get_running_loop().create_future()
            node.backend.here.later = disk
            client.send(Api.FETCH, 12, fetch(12))
            await node.others_are_served()
            assert client.silent
            disk.set_result(Fetched([b"from", b" disk"], 9, 1, 1, 0))
            assert part(await client.answer(Api.FETCH, 12))["records"] == b"from disk"

    run(main())


def test_closing_answers_what_waits() -> None:
    async def main() -> None:
        async with lab() as node:
            client = await node.client()
            client.send(Api.FETCH, 12, fetch(12, wait_ms=60_000))
            await until(lambda: bool(node.backend.here.waiting), "the fetch waits")
            await node.listener.close()
            assert part(await client.answer(Api.FETCH, 12))["records"] == b""
            await client.cut_off()

    run(main())
