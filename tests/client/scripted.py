"""A node that does what a test says, right or wrong: it reads requests, and sends whatever bytes it is told to."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from quorate.broker.protocol.kafka.apis import SUPPORTED, Api
from quorate.broker.protocol.kafka.codec import decode_request, encode_response_frame
from quorate.broker.protocol.kafka.header import decode_request_header


class Seen(NamedTuple):
    """A request that has arrived."""

    api: Api
    version: int
    number: int
    value: dict[str, Any]

    def answer(self, value: dict[str, Any], number: int | None = None) -> bytes:
        """The frame that answers it."""
        return encode_response_frame(self.api, self.version, self.number if number is None else number, value)


Script = Callable[[Seen], Awaitable[bytes | None] | bytes | None]
"""The bytes to send; None: close the connection."""


class ScriptedNode:
    """Node 1, which leads t/0. What is not in the script is answered as it should be, or not at all."""

    def __init__(self) -> None:
        self.script: dict[Api, Script] = {}
        self.seen: list[Seen] = []
        self.advertised: Mapping[Api, tuple[int, int]] = SUPPORTED
        self.connections = 0
        self.port = 0
        self.arrived = asyncio.Condition()
        self._writers: set[asyncio.StreamWriter] = set()
        self._readers: set[asyncio.StreamReader] = set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def count(self, api: Api) -> int:
        return sum(one.api == api for one in self.seen)

    async def until(self, api: Api, count: int = 1) -> None:
        """Until so many requests of a kind have arrived."""
        async with asyncio.timeout(30), self.arrived:
            await self.arrived.wait_for(lambda: self.count(api) >= count)

    @property
    def left(self) -> bool:
        """Whether all clients have closed their connections."""
        return all(reader.at_eof() or reader.exception() for reader in self._readers)

    def cut(self) -> None:
        """Break all connections."""
        for writer in self._writers:
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        self._readers.add(reader)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                seen = _seen(memoryview(await reader.readexactly(size)))
                self.seen.append(seen)
                async with self.arrived:
                    self.arrived.notify_all()
                said = self.script.get(seen.api, self._usual)(seen)
                if isinstance(said, Awaitable):
                    said = await said
                if said is None:
                    return
                writer.write(said)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _usual(self, seen: Seen) -> bytes:
        if seen.api == Api.API_VERSIONS:
            keys = [
                {"api_key": api, "min_version": low, "max_version": high} for api, (low, high) in self.advertised.items()
            ]
            return seen.answer({"error_code": 0, "api_keys": keys})
        if seen.api == Api.METADATA:
            return seen.answer(self.metadata())
        await asyncio.Event().wait()
        raise AssertionError

    def metadata(self, partitions: int = 1) -> dict[str, Any]:
        """This node leads everything."""
        parts = [
            {
                "error_code": 0,
                "partition_index": one,
                "leader_id": 1,
                "leader_epoch": 1,
                "replica_nodes": [],
                "isr_nodes": [],
            }
            for one in range(partitions)
        ]
        topic = {"error_code": 0, "name": "t", "topic_id": b"t" * 16, "is_internal": False, "partitions": parts}
        return {"brokers": [{"node_id": 1, "host": "127.0.0.1", "port": self.port}], "topics": [topic]}


def _seen(frame: memoryview) -> Seen:
    header = decode_request_header(frame)
    value = decode_request(header.api, header.version, frame[header.body_at :])
    return Seen(Api(header.api), header.version, header.correlation_id, value)


@asynccontextmanager
async def scripted() -> AsyncIterator[ScriptedNode]:
    """A node on a free port."""
    node = ScriptedNode()
    server = await asyncio.start_server(node.serve, "127.0.0.1", 0)
    node.port = server.sockets[0].getsockname()[1]
    try:
        yield node
    finally:
        server.close()
        node.cut()
        await server.wait_closed()


def produced(seen: Seen, error: int = 0, offset: int = 7) -> bytes:
    """The answer to a Produce request for one partition."""
    [topic] = seen.value["topic_data"]
    [part] = topic["partition_data"]
    answer = {"index": part["index"], "error_code": error, "base_offset": offset, "log_append_time_ms": 5}
    return seen.answer({"responses": [{"name": topic["name"], "partition_responses": [answer]}]})


def fetched(seen: Seen, records: bytes, high_watermark: int = 100, error: int = 0) -> bytes:
    """The answer to a Fetch request for one partition."""
    [topic] = seen.value["topics"]
    [part] = topic["partitions"]
    answer = {
        "partition_index": part["partition"],
        "error_code": error,
        "high_watermark": high_watermark,
        "log_start_offset": 0,
        "aborted_transactions": None,
        "records": records,
    }
    return seen.answer({"responses": [{"topic": topic["topic"], "partitions": [answer]}]})
