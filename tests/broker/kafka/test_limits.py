"""Clients that take too much, or send what is no request: one log line, a closed connection, and nobody else disturbed."""

from __future__ import annotations

import asyncio
import struct

import pytest

from quorate.broker.protocol.kafka.apis import SUPPORTED, Api
from quorate.broker.protocol.kafka.codec import decode_response, encode_request_frame
from quorate.broker.protocol.kafka.errors import Error
from tests.broker.kafka.lab import fetch, lab, part, produce, run
from tests.support.cluster import until

_METADATA = encode_request_frame(Api.METADATA, 12, 1, "c", {"topics": None})

BAD = {
    "http": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "is not within"),
    "tls": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "is not within"),
    "huge": (struct.pack(">i", 0x7FFFFFFF), "is not within"),
    "negative": (struct.pack(">i", -1), "is not within"),
    "empty": (struct.pack(">i", 0), "is not within"),
    "unknown api": (struct.pack(">ihhih", 10, 999, 0, 1, -1), "no API 999"),
    "api without a handler": (struct.pack(">ihhih", 10, Api.SASL_HANDSHAKE, 0, 1, -1), "api 17 is not served"),
    "version too new": (struct.pack(">ihhihB", 11, Api.METADATA, 99, 1, -1, 0), "version 99"),
    "version too old": (struct.pack(">ihhih", 10, Api.FETCH, 0, 1, -1), "version 0"),
    "negative version": (struct.pack(">ihhih", 10, Api.METADATA, -5, 1, -1), "version -5"),
    "cut off": (struct.pack(">i", len(_METADATA) - 5) + _METADATA[4:-1], "ends too early"),
    "noise": (struct.pack(">ihhih", 14, Api.PRODUCE, 3, 1, -1) + b"\xff\xff\xff\xff", "too early"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_request(name: str) -> None:
    data, words = BAD[name]

    async def main() -> None:
        async with lab() as node:
            bystander = await node.client()
            bystander.send(Api.FETCH, 12, fetch(12, wait_ms=60_000))
            await until(lambda: bool(node.backend.here.waiting), "the fetch waits")
            client = await node.client()
            client.write(data)
            await node.closed_with(client, words)
            assert bystander.silent
            assert node.listener.connections >= 1

    run(main())


@pytest.mark.parametrize("version", [5, 99, 0x7FFF])
def test_api_versions_for_a_newer_client(version: int) -> None:
    """It must be able to read the answer: header and body are of version 0."""

    async def main() -> None:
        async with lab() as node:
            client = await node.client()
            client.write(struct.pack(">ihhihB", 14, Api.API_VERSIONS, version, 7, -1, 0) + b"\x02a\x02"[:3])
            frame = await client.frame()
            assert struct.unpack_from(">i", frame) == (7,)
            value = decode_response(Api.API_VERSIONS, 0, frame[4:])
            assert value["error_code"] == Error.UNSUPPORTED_VERSION
            least, most = SUPPORTED[Api.API_VERSIONS]
            assert {"api_key": 18, "min_version": least, "max_version": most} in value["api_keys"]
            assert (await client.ask(Api.API_VERSIONS, 3, {}))["error_code"] == 0, "and it may go on"

    run(main())


def test_a_request_above_the_limit() -> None:
    async def main() -> None:
        async with lab(max_request_bytes=2_000) as node:
            client = await node.client()
            assert part(await client.ask(Api.PRODUCE, 9, produce(size=1_800)))["error_code"] == 0
            client.send(Api.PRODUCE, 9, produce(size=2_000))
            await node.closed_with(client, "is not within")

    run(main())


def test_a_command_above_its_own_limit() -> None:
    """A list of a million things is no bulk data: it would cost a hundred times its size."""

    async def main() -> None:
        async with lab(max_command_bytes=1_000) as node:
            client = await node.client()
            assert part(await client.ask(Api.PRODUCE, 9, produce(size=5_000)))["error_code"] == 0
            client.send(Api.DESCRIBE_GROUPS, 5, {"groups": ["g"] * 1_000})
            await node.closed_with(client, "carries no records")

    run(main())


def test_too_many_connections() -> None:
    async def main() -> None:
        async with lab(max_connections=2) as node:
            first, second = await node.client(), await node.client()
            await until(lambda: node.listener.connections == 2, "both are admitted")
            await (await node.client()).cut_off()
            assert len(node.logged) == 1
            assert "2 connections already" in node.logged[0]
            for client in (first, second):
                assert (await client.ask(Api.API_VERSIONS, 0, {}))["error_code"] == 0
            first.close()
            await until(lambda: node.listener.connections == 1, "one connection is left")
            await node.others_are_served()

    run(main())


def test_too_many_connections_of_one_host() -> None:
    async def main() -> None:
        async with lab(max_connections_per_ip=1) as node:
            first = await node.client()
            await until(lambda: node.listener.connections == 1, "one connection is left")
            await (await node.client()).cut_off()
            assert "it has 1 connections already" in node.logged[0]
            assert (await first.ask(Api.API_VERSIONS, 0, {}))["error_code"] == 0

    run(main())


def test_a_client_in_a_loop_does_not_fill_the_log() -> None:
    async def main() -> None:
        async with lab() as node:
            for _ in range(20):
                client = await node.client()
                client.write(b"\xff" * 8)
                await client.cut_off()
            assert len(node.logged) == 1

    run(main())


def test_an_idle_connection_is_closed_without_a_word() -> None:
    async def main() -> None:
        async with lab(idle_ms=50) as node:
            client = await node.client()
            assert (await client.ask(Api.API_VERSIONS, 0, {}))["error_code"] == 0
            await client.cut_off()
            assert node.logged == []

    run(main())


def test_who_waits_for_an_answer_is_not_idle() -> None:
    """Looked at by hand, with times of our own: an hour of waiting, and after the answer all of the idle time again."""

    async def main() -> None:
        async with lab(idle_ms=600_000) as node:
            client = await node.client()
            client.send(Api.FETCH, 12, fetch(12, wait_ms=60_000))
            await until(lambda: bool(node.backend.here.waiting), "the fetch waits")
            [connection] = node.listener._connections
            later = node.listener.loop.time() + 3_600
            connection.check(later)
            await (await node.client()).ask(Api.PRODUCE, 9, produce())
            assert part(await client.answer(Api.FETCH, 12))["error_code"] == 0
            connection.check(later + 599)
            assert (await client.ask(Api.API_VERSIONS, 0, {}))["error_code"] == 0

    run(main())


@pytest.mark.parametrize("half", [b"\0", b"\0\0\0\x20", b"\0\0\0\x20\0\x03", struct.pack(">i", 1 << 20) + bytes(1_000)])
def test_half_a_request(half: bytes) -> None:
    async def main() -> None:
        async with lab(frame_ms=60) as node:
            client = await node.client()
            client.write(half)
            await node.closed_with(client, "did not arrive in time")
            await until(lambda: node.listener.budget.held == 0, "its memory is free again")

    run(main())


def test_a_request_that_drips() -> None:
    """Each byte in time, and the whole never."""

    async def main() -> None:
        async with lab(frame_ms=100) as node:
            client = await node.client()
            client.write(b"\0\0\x10\0")

            async def drip() -> None:
                while True:
                    client.write(b"\0")
                    await asyncio.sleep(0.01)

            dripping = asyncio.create_task(drip())
            try:
                await node.closed_with(client, "did not arrive in time")
            finally:
                dripping.cancel()

    run(main())


def test_a_connection_with_too_much_under_way_is_not_read() -> None:
    async def main() -> None:
        async with lab(max_in_flight_bytes=30_000) as node:
            client = await node.client()
            node.backend.here.hold = True
            numbers = [client.send(Api.PRODUCE, 9, produce(size=10_000)) for _ in range(20)]
            await until(lambda: len(node.backend.here.held) == 3, "three are under way")
            await node.others_are_served()
            assert len(node.backend.here.held) == 3, "30 KB are under way, and the rest waits"
            node.backend.here.release()
            for number in numbers:
                await client.answer(Api.PRODUCE, 9, number)
            assert node.listener.budget.held == 0

    run(main())


def test_the_node_has_a_limit_for_all_connections() -> None:
    async def main() -> None:
        async with lab(node_in_flight_bytes=30_000) as node:
            node.backend.here.hold = True
            clients = [await node.client() for _ in range(5)]
            for client in clients:
                for _ in range(4):
                    client.send(Api.PRODUCE, 9, produce(size=10_000))
            await until(lambda: node.listener.budget.exhausted, "the node is full")
            # Each connection may have begun one before it looked.
            assert len(node.backend.here.held) <= 3 + len(clients)
            node.backend.here.release()
            for client in clients:
                for number in range(1, 5):
                    await client.answer(Api.PRODUCE, 9, number)
            assert node.backend.here.end == 20
            assert node.listener.budget.held == 0

    run(main())


def test_too_many_requests_of_one_connection() -> None:
    async def main() -> None:
        async with lab(max_in_flight=2) as node:
            client = await node.client()
            node.backend.here.hold = True
            for _ in range(5):
                client.send(Api.PRODUCE, 9, produce())
            await until(lambda: len(node.backend.here.held) == 2, "two are under way")
            await node.others_are_served()
            assert len(node.backend.here.held) == 2
            node.backend.here.release()
            for number in range(1, 6):
                await client.answer(Api.PRODUCE, 9, number)

    run(main())


def test_a_client_that_does_not_take_its_answers() -> None:
    """Its answers must not pile up here: it is not read, and in the end it is cut off."""

    async def main() -> None:
        async with lab(write_buffer_bytes=10_000, idle_ms=300) as node:
            writer = await node.client()
            await writer.ask(Api.PRODUCE, 9, produce(size=1 << 20))
            client = await node.client()
            client.pause()
            for _ in range(200):
                client.send(Api.FETCH, 12, fetch(12))
            await until(lambda: any("does not take its answers" in line for line in node.logged), "it is cut off")
            assert len(node.logged) == 1
            await node.others_are_served()

    run(main())


def test_a_mistake_of_ours_ends_one_connection() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        told: list[str] = []
        loop.set_exception_handler(lambda loop, context: told.append(str(context.get("exception"))))
        async with lab() as node:
            node.backend.broken = True
            client = await node.client()
            client.send(Api.DESCRIBE_CLUSTER, 0, {"include_cluster_authorized_operations": False})
            await client.cut_off()
            assert told == ["a mistake of ours"]
            await node.others_are_served()
            await until(lambda: node.listener.budget.held == 0, "its memory is free again")

    run(main())


@pytest.mark.parametrize("api", [Api.DESCRIBE_CLUSTER, Api.METADATA])
def test_an_answer_that_cannot_be_written_ends_one_connection(api: Api) -> None:
    """One request is answered at once, the other by a task: neither may leave its client waiting for ever."""

    async def main() -> None:
        async with lab(auto_create=True) as node:
            node.backend.cluster_id = "x" * 40_000
            client = await node.client()
            client.send(api, SUPPORTED[api][1], {"topics": [{"name": "new"}]} if api == Api.METADATA else {})
            await client.cut_off()
            assert [line for line in node.logged if "cannot be written" in line]
            await node.others_are_served()

    run(main())
