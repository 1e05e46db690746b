"""A listener on a free port with a node in memory behind it, and clients that write frames by hand."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, cast

from quorate.broker.kafka.listener import KafkaListener
from quorate.broker.kafka.settings import ListenerSettings
from quorate.broker.protocol.kafka.apis import Api
from quorate.broker.protocol.kafka.codec import decode_response_frame, encode_request_frame
from quorate.consensus.runtime import new_event_loop
from tests.support.memory_backend import MemoryBackend
from tests.support.record_batches import record_batch

PATIENCE_S = 30.0


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine on the loop that nodes use."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main)


class Lab:
    """A listener, its backend, and what it logged."""

    def __init__(self, backend: MemoryBackend, listener: KafkaListener, port: int, logged: list[str]) -> None:
        self.backend = backend
        self.listener = listener
        self.port = port
        self.logged = logged
        self._clients: list[Client] = []

    async def client(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self._clients.append(client)
        return client

    async def close(self) -> None:
        for client in self._clients:
            client.close()
        await self.listener.close()

    async def closed_with(self, client: Client, words: str) -> None:
        """The client is cut off, the log says why in one line, and others are served as before."""
        await client.cut_off()
        assert len(self.logged) == 1, self.logged
        assert words in self.logged[0]
        await self.others_are_served()

    async def others_are_served(self) -> None:
        other = await self.client()
        assert (await other.ask(Api.API_VERSIONS, 0, {}))["error_code"] == 0
        other.close()


class _Lines(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())


@asynccontextmanager
async def lab(backend: MemoryBackend | None = None, *, held: bool = False, **settings: Any) -> AsyncIterator[Lab]:
    """A listener with these settings."""
    lines: list[str] = []
    handler, log = _Lines(lines), logging.getLogger("quorate.kafka")
    log.addHandler(handler)
    backend = backend or MemoryBackend()
    listener = KafkaListener(backend, ListenerSettings(**settings))
    _, port = await listener.start("127.0.0.1", 0, held=held)
    found = Lab(backend, listener, port, lines)
    try:
        yield found
    finally:
        await found.close()
        log.removeHandler(handler)


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._number = 0

    def close(self) -> None:
        self._writer.transport.abort()

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def pause(self) -> None:
        """Read nothing any more."""
        cast(asyncio.Transport, self._writer.transport).pause_reading()

    def send(self, api: Api, version: int, value: dict[str, Any]) -> int:
        """Send a request; its correlation id."""
        self._number += 1
        self.write(encode_request_frame(api, version, self._number, "test", value))
        return self._number

    async def frame(self) -> memoryview:
        async with asyncio.timeout(PATIENCE_S):
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            return memoryview(await self._reader.readexactly(size))

    async def answer(self, api: Api, version: int, number: int | None = None) -> dict[str, Any]:
        """The next answer, which must be that to the last request, or to request `number`."""
        correlation_id, value = decode_response_frame(api, version, await self.frame())
        assert correlation_id == (self._number if number is None else number)
        return value

    async def ask(self, api: Api, version: int, value: dict[str, Any]) -> dict[str, Any]:
        self.send(api, version, value)
        return await self.answer(api, version)

    async def cut_off(self) -> None:
        """Wait until the other side has closed the connection; nothing comes before that."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                assert await self._reader.read(1) == b""
            except ConnectionError:
                return

    @property
    def silent(self) -> bool:
        """Whether nothing has arrived and the connection stands."""
        return not self._reader.at_eof() and not self._reader._buffer  # type: ignore[attr-defined]


def produce(
    *, acks: int = -1, partition: int = 0, topic: str = "t", size: int = 200, timeout_ms: int = 60_000
) -> dict[str, Any]:
    """A Produce request of one batch."""
    records = bytes(record_batch(size))
    return {
        "acks": acks,
        "timeout_ms": timeout_ms,
        "topic_data": [{"name": topic, "partition_data": [{"index": partition, "records": records}]}],
    }


def fetch(
    version: int, *, offset: int = 0, wait_ms: int = 0, partition: int = 0, topic: str | bytes = "t", min_bytes: int = 1
) -> dict[str, Any]:
    """A Fetch request for one partition."""
    wanted = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    name = {"topic_id": b"t" * 16 if topic == "t" else topic} if version >= 13 else {"topic": topic}
    return {"max_wait_ms": wait_ms, "min_bytes": min_bytes, "topics": [{**name, "partitions": [wanted]}]}


def part(answer: dict[str, Any]) -> dict[str, Any]:
    """The only partition of an answer to Produce or Fetch."""
    [topic] = answer["responses"]
    [found] = topic["partition_responses"] if "partition_responses" in topic else topic["partitions"]
    return dict(found)
