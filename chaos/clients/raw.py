"""One node, asked over one connection: for reads and writes that must go to that node and no other, and are never repeated.

It looks at no metadata but what it is asked for, and keeps no state but its connection.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from quorate.broker.protocol.builder import BatchBuilder
from quorate.broker.protocol.kafka.apis import Api
from quorate.broker.protocol.kafka.codec import decode_response_frame, encode_request_frame
from quorate.broker.protocol.kafka.errors import BadMessage, Error
from quorate.broker.protocol.records import read_records, split_batches
from quorate.chaos.history import Place, Record
from quorate.consensus.batch.errors import BadBatch
from quorate.consensus.batch.header import read_header

_CLIENT: Final = "chaos"
_MAX_FRAME: Final = 64 << 20
_FETCH_BYTES: Final = 1 << 20
EARLIEST, LATEST = -2, -1

# None of these names a topic by its id, and none is too old for any broker of today.
_PRODUCE, _FETCH, _LIST_OFFSETS, _METADATA, _COMMIT, _COMMITTED, _FIND = 9, 11, 5, 8, 7, 7, 3


class Unreached(Exception):
    """There was no connection, so that the request was never sent."""


class Unanswered(Exception):
    """The request was sent, and there is no answer: it may have been carried out."""


class Refused(Exception):
    """The node answered with an error code."""

    def __init__(self, code: int) -> None:
        super().__init__(Error(code).name if code in Error.__members__.values() else f"error {code}")
        self.code = code


class Leader(NamedTuple):
    """Who leads a partition, as a node sees it; -1 if nobody does."""

    node: int
    epoch: int


class Cluster(NamedTuple):
    """What a node says of its cluster."""

    nodes: dict[int, str]
    topics: dict[str, dict[int, Leader]]


class Fetched(NamedTuple):
    """Records, where to go on, and the end of what can be read."""

    records: list[Record]
    next_offset: int
    end: int


class NodeClient:
    """A connection to one node, made when it is needed. One request at a time. Every call may raise all three errors."""

    def __init__(self, address: str, timeout_s: float = 5.0) -> None:
        host, _, port = address.rpartition(":")
        self._host, self._port = host.strip("[]"), int(port)
        self._timeout_s = timeout_s
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._last = 0

    def close(self) -> None:
        """Drop the connection. The next request makes another one."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def ask(self, api: Api, version: int, body: dict[str, Any]) -> dict[str, Any]:
        """One request and its answer."""
        reader, writer = await self._connect()
        self._last += 1
        try:
            async with asyncio.timeout(self._timeout_s):
                writer.write(encode_request_frame(api, version, self._last, _CLIENT, body))
                await writer.drain()
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                if not 0 <= size <= _MAX_FRAME:
                    raise BadMessage(f"a frame of {size} bytes")
                number, answer = decode_response_frame(api, version, memoryview(await reader.readexactly(size)))
                if number != self._last:
                    raise BadMessage(f"an answer to request {number} instead of {self._last}")
                return answer
        except (OSError, TimeoutError, asyncio.IncompleteReadError, BadMessage) as error:
            self.close()
            raise Unanswered(str(error) or type(error).__name__) from error
        except asyncio.CancelledError:
            self.close()
            raise

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            try:
                async with asyncio.timeout(self._timeout_s):
                    self._streams = await asyncio.open_connection(self._host, self._port, limit=_MAX_FRAME)
            except (OSError, TimeoutError) as error:
                raise Unreached(str(error) or type(error).__name__) from error
        return self._streams

    async def metadata(self, topics: Sequence[str] | None = None) -> Cluster:
        """What this node knows of the cluster; all topics unless some are named."""
        named = None if topics is None else [{"name": topic} for topic in topics]
        said = await self.ask(Api.METADATA, _METADATA, {"topics": named, "allow_auto_topic_creation": False})
        nodes = {one["node_id"]: f"{one['host']}:{one['port']}" for one in said["brokers"]}
        known = {
            topic["name"]: {
                one["partition_index"]: Leader(one["leader_id"], one.get("leader_epoch", -1)) for one in topic["partitions"]
            }
            for topic in said["topics"]
            if topic["error_code"] == Error.NONE and not topic.get("is_internal")
        }
        return Cluster(nodes, known)

    async def produce(self, place: Place, value: str) -> int:
        """Write one message with acks=all; its offset."""
        batch = BatchBuilder()
        batch.append(int(time.time() * 1000), None, value.encode())
        partition = {"index": place.partition, "records": bytes(batch.build())}
        body = {
            "acks": -1,
            "timeout_ms": int(self._timeout_s * 1000),
            "topic_data": [{"name": place.topic, "partition_data": [partition]}],
        }
        said = await self.ask(Api.PRODUCE, _PRODUCE, body)
        answer = _only(said["responses"], "partition_responses")
        return int(answer["base_offset"])

    async def fetch(self, place: Place, offset: int, wait_ms: int = 100) -> Fetched:
        """Messages from an offset on. Raises Unanswered for bytes that are no batches, too."""
        partition = {"partition": place.partition, "fetch_offset": offset, "partition_max_bytes": _FETCH_BYTES}
        body = {
            "max_wait_ms": wait_ms,
            "min_bytes": 1,
            "max_bytes": _FETCH_BYTES,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": place.topic, "partitions": [partition]}],
            "forgotten_topics_data": [],
            "rack_id": "",
        }
        said = await self.ask(Api.FETCH, _FETCH, body)
        if said["error_code"]:
            raise Refused(said["error_code"])
        answer = _only(said["responses"], "partitions")
        try:
            return _read(answer["records"] or b"", offset, answer["high_watermark"])
        except BadBatch as error:
            raise Unanswered(f"{place} offset {offset}: {error}") from error

    async def list_offset(self, place: Place, which: int) -> int:
        """The first offset (EARLIEST), or the one after the last that can be read (LATEST)."""
        partition = {"partition_index": place.partition, "timestamp": which}
        body = {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [{"name": place.topic, "partitions": [partition]}],
        }
        return int(_only((await self.ask(Api.LIST_OFFSETS, _LIST_OFFSETS, body))["topics"], "partitions")["offset"])

    async def coordinator(self, group: str) -> str:
        """The address of the node that coordinates a group."""
        said = await self.ask(Api.FIND_COORDINATOR, _FIND, {"key": group, "key_type": 0})
        if said["error_code"]:
            raise Refused(said["error_code"])
        return f"{said['host']}:{said['port']}"

    async def commit(self, group: str, place: Place, offset: int) -> None:
        """Commit an offset of a group that has no members."""
        partition = {"partition_index": place.partition, "committed_offset": offset, "committed_metadata": ""}
        body = {
            "group_id": group,
            "member_id": "",
            "topics": [{"name": place.topic, "partitions": [partition]}],
        }
        _only((await self.ask(Api.OFFSET_COMMIT, _COMMIT, body))["topics"], "partitions")

    async def committed(self, group: str, place: Place) -> int:
        """A group's committed offset, or -1."""
        body = {
            "group_id": group,
            "topics": [{"name": place.topic, "partition_indexes": [place.partition]}],
            "require_stable": True,
        }
        said = await self.ask(Api.OFFSET_FETCH, _COMMITTED, body)
        if said["error_code"]:
            raise Refused(said["error_code"])
        return int(_only(said["topics"], "partitions")["committed_offset"])


def _only(topics: list[dict[str, Any]], inner: str) -> dict[str, Any]:
    """The answer for the one partition that was asked about."""
    try:
        (topic,) = topics
        (answer,) = topic[inner]
    except ValueError as error:
        raise Unanswered(f"not one partition in the answer: {error}") from error
    if answer["error_code"]:
        raise Refused(answer["error_code"])
    return dict(answer)


def _read(data: bytes | memoryview, offset: int, end: int) -> Fetched:
    records: list[Record] = []
    for batch in split_batches(data):
        header = read_header(batch)
        if not header.control:
            # A batch is sent whole, from before the offset that was asked for.
            records += [
                Record(one.offset, (one.value or b"").decode("latin-1"), one.timestamp)
                for one in read_records(batch)
                if one.offset >= offset
            ]
        offset = max(offset, header.last + 1)
    return Fetched(records, offset, end)
