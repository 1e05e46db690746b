"""Links through a real toxiproxy: what is cut does not come through, in the direction that was cut, and comes back after."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from quorate.chaos.links import DROP, Links, Stream, Toxic, client_key, peer_key, stream_from

STALLED_S = 0.4
PATIENCE_S = 20.0
KEY = peer_key(1, 2)


@dataclass
class Stage:
    """An echo server behind a link."""

    links: Links
    host: str
    port: int
    heard: bytearray = field(default_factory=bytearray)
    """What the server got."""

    @asynccontextmanager
    async def dial(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            yield reader, writer
        finally:
            writer.close()

    async def echo(self, data: bytes = b"hello") -> bytes:
        """There and back, on a new connection."""
        async with self.dial() as (reader, writer):
            writer.write(data)
            async with asyncio.timeout(PATIENCE_S):
                return await reader.readexactly(len(data))


@asynccontextmanager
async def stage(port: int) -> AsyncIterator[Stage]:
    made: list[Stage] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                made[0].heard += data
                writer.write(data)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    links = Links(port)
    host, _, chosen = (await links.add(KEY, f"127.0.0.1:{server.sockets[0].getsockname()[1]}")).rpartition(":")
    made.append(Stage(links, host, int(chosen)))
    try:
        yield made[0]
    finally:
        await links.remove(KEY)
        server.close()


def play(port: int, scene: Callable[[Stage], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with stage(port) as on:
            await scene(on)

    asyncio.run(whole())


async def stalls(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(STALLED_S):
            return await reader.read(1) == b"never"
    except TimeoutError:
        return True


def test_a_healthy_link_passes_everything(toxiproxy_port: int) -> None:
    async def scene(on: Stage) -> None:
        assert await on.echo() == b"hello"

    play(toxiproxy_port, scene)


@pytest.mark.parametrize(
    ("streams", "arrives"), [((Stream.UP, Stream.DOWN), False), ((Stream.UP,), False), ((Stream.DOWN,), True)]
)
def test_dropping(toxiproxy_port: int, streams: tuple[Stream, ...], arrives: bool) -> None:
    async def scene(on: Stage) -> None:
        made = await on.links.poison([KEY], Toxic(DROP.type, DROP.attributes, streams))
        async with on.dial() as (reader, writer):
            writer.write(b"hello")
            assert await stalls(reader)
            assert bytes(on.heard) == (b"hello" if arrives else b"")
        await on.links.cure(made)
        assert await on.echo() == b"hello"

    play(toxiproxy_port, scene)


def test_a_connection_that_is_cut_does_not_notice(toxiproxy_port: int) -> None:
    async def scene(on: Stage) -> None:
        async with on.dial() as (reader, writer):
            writer.write(b"a")
            assert await reader.readexactly(1) == b"a"
            made = await on.links.poison([KEY], DROP)
            writer.write(b"b")
            assert await stalls(reader)
            await on.links.cure(made)
            # What was dropped is lost, so its connection must not go on as if nothing had been.
            async with asyncio.timeout(PATIENCE_S):
                assert await reader.read(1) == b""

    play(toxiproxy_port, scene)


def test_refusing_and_healing(toxiproxy_port: int) -> None:
    async def scene(on: Stage) -> None:
        async with on.dial() as (reader, writer):
            writer.write(b"a")
            assert await reader.readexactly(1) == b"a"
            await on.links.refuse([KEY])
            async with asyncio.timeout(PATIENCE_S):
                assert await reader.read(1) == b""
        with pytest.raises(ConnectionRefusedError):
            await on.echo()
        await on.links.poison([KEY], DROP)
        await on.links.heal()
        assert await on.echo() == b"hello"

    play(toxiproxy_port, scene)


def test_latency(toxiproxy_port: int) -> None:
    async def scene(on: Stage) -> None:
        await on.links.poison([KEY], Toxic("latency", {"latency": 150, "jitter": 10}))
        begun = time.monotonic()
        assert await on.echo() == b"hello"
        assert time.monotonic() - begun > 2 * 0.135

    play(toxiproxy_port, scene)


def test_bandwidth_and_slices(toxiproxy_port: int) -> None:
    async def scene(on: Stage) -> None:
        made = await on.links.poison([KEY], Toxic("bandwidth", {"rate": 40}, (Stream.UP,)))
        begun = time.monotonic()
        assert await on.echo(bytes(20_000)) == bytes(20_000)
        assert time.monotonic() - begun > 0.3
        await on.links.cure(made)
        slicer = {"average_size": 50, "size_variation": 10, "delay": 1_000}
        await on.links.poison([KEY], Toxic("slicer", slicer, (Stream.DOWN,)))
        async with on.dial() as (reader, writer):
            writer.write(bytes(2_000))
            first = await reader.read(65_536)
            assert 0 < len(first) < 2_000

    play(toxiproxy_port, scene)


@pytest.mark.parametrize(
    ("toxic", "ends"),
    [
        (Toxic("reset_peer", {"timeout": 50}), ConnectionResetError),
        (Toxic("timeout", {"timeout": 50}), asyncio.IncompleteReadError),
        (Toxic("limit_data", {"bytes": 3}, (Stream.DOWN,)), asyncio.IncompleteReadError),
    ],
)
def test_connections_that_end(toxiproxy_port: int, toxic: Toxic, ends: type[Exception]) -> None:
    async def scene(on: Stage) -> None:
        await on.links.poison([KEY], toxic)
        with pytest.raises(ends):
            await on.echo()
        await on.links.heal()
        assert await on.echo() == b"hello"

    play(toxiproxy_port, scene)


def test_directions() -> None:
    assert peer_key(3, 1) == peer_key(1, 3)
    assert stream_from(1, 3) is Stream.UP
    assert stream_from(3, 1) is Stream.DOWN
    assert str(client_key(2)) == "clients-2"
