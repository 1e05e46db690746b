"""One connection: which answer belongs to which request, and what becomes of requests whose answers do not come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from quorate.broker.protocol.kafka.apis import SUPPORTED, Api
from quorate.broker.protocol.kafka.codec import decode_response, encode_request, encode_response
from quorate.client import BadAnswer, ClientSettings, ConnectionLost, NotSupported, QuorateError, TimedOut
from quorate.client.connection import Answer, Connection, Request
from quorate.client.values import Address
from tests.client.scripted import ScriptedNode, Seen, fetched, scripted
from tests.client.town import run, until


@asynccontextmanager
async def connected(node: ScriptedNode, **settings: Any) -> AsyncIterator[Connection]:
    loop = asyncio.get_running_loop()
    address = Address("127.0.0.1", node.port)
    connection = Connection(address, ClientSettings(bootstrap=node.address, **settings), loop)
    await loop.create_connection(lambda: connection, address.host, address.port)
    try:
        await connection.introduce()
        yield connection
    finally:
        connection.fail(ConnectionLost("test", "over"))


def find(key: str, timeout_s: float = 30.0) -> Request:
    value = {"key": key, "key_type": 0}
    return Request(Api.FIND_COORDINATOR, lambda version: [encode_request(Api.FIND_COORDINATOR, version, value)], timeout_s)


def found(seen: Seen, number: int | None = None) -> bytes:
    """An answer that says what was asked for."""
    return seen.answer({"error_code": 0, "error_message": None, "node_id": 1, "host": seen.value["key"], "port": 1}, number)


def host(answer: Answer) -> str:
    return str(decode_response(Api.FIND_COORDINATOR, answer.version, answer.body)["host"])


async def outcomes(*asked: asyncio.Task[Answer]) -> list[type[object]]:
    return [type(one) for one in await asyncio.gather(*asked, return_exceptions=True)]


def test_answers_belong_to_their_requests() -> None:
    async def main() -> None:
        async with scripted() as node, connected(node) as connection:
            gate = asyncio.Event()

            async def later(seen: Seen) -> bytes:
                await gate.wait()
                return found(seen)

            node.script[Api.FIND_COORDINATOR] = later
            asked = [asyncio.create_task(connection.ask(find(f"group-{number}"))) for number in range(50)]
            await node.until(Api.FIND_COORDINATOR)
            assert connection.busy
            gate.set()
            answers = await asyncio.gather(*asked)
            assert [host(answer) for answer in answers] == [f"group-{number}" for number in range(50)]
            assert node.connections == 1
            assert not connection.busy

    run(main())


@pytest.mark.parametrize("off", [-1, 1])
def test_an_answer_to_another_request_ends_the_connection(off: int) -> None:
    async def main() -> None:
        async with scripted() as node, connected(node) as connection:
            node.script[Api.FIND_COORDINATOR] = lambda seen: found(seen, seen.number + off)
            asked = [asyncio.create_task(connection.ask(find(f"group-{number}"))) for number in range(3)]
            assert await outcomes(*asked) == [BadAnswer] * 3
            assert isinstance(connection.lost, BadAnswer)

    run(main())


def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    async def main() -> None:
        async with scripted() as node, connected(node) as connection:
            node.script[Api.FIND_COORDINATOR] = lambda seen: found(seen) * 2
            assert host(await connection.ask(find("one"))) == "one"
            await until(lambda: connection.lost is not None, "the second answer is there")
            assert "nobody asked for" in str(connection.lost)

    run(main())


def test_a_lost_connection_fails_what_is_under_way() -> None:
    async def main() -> None:
        async with scripted() as node, connected(node) as connection:
            asked = [asyncio.create_task(connection.ask(find(f"group-{number}"))) for number in range(5)]
            await node.until(Api.FIND_COORDINATOR)
            node.cut()
            errors = await asyncio.gather(*asked, return_exceptions=True)
            assert all(isinstance(one, ConnectionLost) and not one.definite and one.retriable for one in errors)
            with pytest.raises(ConnectionLost) as never_sent:
                await connection.ask(find("later"))
            assert never_sent.value.definite

    run(main())


def test_a_request_without_an_answer_times_out_and_takes_along_what_is_behind_it() -> None:
    async def main() -> None:
        async with scripted() as node, connected(node) as connection:
            asked = [asyncio.create_task(connection.ask(find("slow", 0.05)))]
            asked += [asyncio.create_task(connection.ask(find("behind"))) for _ in range(2)]
            assert await outcomes(*asked) == [TimedOut, ConnectionLost, ConnectionLost]

    run(main())


def test_an_answer_that_is_arriving_does_not_time_out() -> None:
    async def main() -> None:
        async with scripted() as node, connected(node) as connection:
            writers = node._writers
            size = 400_000

            async def in_pieces(seen: Seen) -> bytes:
                frame = fetched(seen, b"x" * size)
                [writer] = writers
                for at in range(0, len(frame) - 1, 50_000):
                    writer.write(frame[at : min(at + 50_000, len(frame) - 1)])
                    await asyncio.sleep(0.1)
                return frame[-1:]

            node.script[Api.FETCH] = in_pieces
            assert len((await connection.ask(fetch(0.3))).body) > size

    run(main())


def fetch(timeout_s: float = 30.0) -> Request:
    wish = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
    value = {"max_wait_ms": 0, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [wish]}], "rack_id": ""}
    return Request(Api.FETCH, lambda version: [encode_request(Api.FETCH, version, value)], timeout_s)


def test_a_large_answer_lies_in_one_buffer_of_its_own() -> None:
    async def main() -> None:
        async with scripted() as node, connected(node) as connection:
            node.script[Api.FETCH] = lambda seen: fetched(seen, b"x" * 5_000_000)
            first, second = [(await connection.ask(fetch())).body for _ in range(2)]
            assert first == second
            assert isinstance(first.obj, bytearray)
            assert first.obj is not second.obj
            assert len(first.obj) - len(first) < 16

    run(main())


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\0\0\0\0",
        b"\0\0\0\2ab",
        b"\xff\xff\xff\xff",
        b"\0\0\0\x04\0\0\0\x63",
        b"\0\0\0\x05\0\0\0\2!",
    ],
)
def test_garbage_is_a_typed_error(garbage: bytes) -> None:
    async def main() -> None:
        async with scripted() as node, connected(node) as connection:
            node.script[Api.FIND_COORDINATOR] = lambda seen: garbage
            with pytest.raises(QuorateError) as error:
                host(await connection.ask(find("group")))
            assert isinstance(error.value, BadAnswer)

    run(main())


def test_a_node_that_is_older_than_our_introduction() -> None:
    async def main() -> None:
        async with scripted() as node:

            def old(seen: Seen) -> bytes:
                keys = [{"api_key": Api.FIND_COORDINATOR, "min_version": 0, "max_version": 2}]
                body = encode_response(Api.API_VERSIONS, 0, {"error_code": 35, "api_keys": keys})
                return (len(body) + 4).to_bytes(4, "big") + seen.number.to_bytes(4, "big") + body

            node.script[Api.API_VERSIONS] = old
            node.script[Api.FIND_COORDINATOR] = found
            async with connected(node) as connection:
                assert host(await connection.ask(find("group"))) == "group"
                assert node.seen[-1].version == 2
                with pytest.raises(NotSupported, match="FETCH"):
                    await connection.ask(fetch())

    run(main())


def test_a_node_that_speaks_newer_versions_only() -> None:
    async def main() -> None:
        async with scripted() as node:
            node.advertised = {**SUPPORTED, Api.FIND_COORDINATOR: (40, 41)}
            async with connected(node) as connection:
                with pytest.raises(NotSupported, match="FIND_COORDINATOR"):
                    await connection.ask(find("group"))

    run(main())
