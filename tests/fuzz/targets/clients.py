"""What the client does with answers that it can read: every operation ends, with a result or with one of its own errors.

The nodes are a script; time passes as soon as everybody waits. Not here: reading an answer as such (`replies`), and
cutting a connection's bytes into answers (`streams`).
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

from quorate.broker.protocol.builder import Producer
from quorate.broker.protocol.kafka.apis import Api
from quorate.broker.protocol.kafka.codec import encode_response
from quorate.client import groups, producing, reading, staging, topics
from quorate.client.connection import SPOKEN, Answer, Request
from quorate.client.core import Core
from quorate.client.errors import ConnectionLost, QuorateError
from quorate.client.metadata import Metadata
from quorate.client.pool import Lane, Pool
from quorate.client.settings import ClientSettings
from quorate.client.streaming import Stream
from quorate.client.values import EARLIEST, Address, Stage, StagePart, TopicPartition
from tests.broker.partition.lab import batch
from tests.fuzz.targets.expect import Broken, expect

GOOD, CHANGED, RAW, LOST = range(4)
"""How a node answers: as it should, nearly so, with bytes as they come, or not at all."""
_SETTINGS: Final = ClientSettings(bootstrap="a:1,b:2", retry_ms=2_000, connect_timeout_ms=1_000, request_timeout_ms=1_000)
_PART: Final = TopicPartition("t", 0)
_HERE: Final = Address("a", 1)
_PLAIN: Final = bytes(batch(2))
_STAGED: Final = bytes(batch(2, Producer(7, 0, 0)))
_STAGES: Final = [Stage(7, (StagePart("t", 0, 1, 2),))]

Operation = Callable[[Core], Awaitable[Any]]


class _Skipping(selectors.DefaultSelector):
    """Nobody waits for time to pass: it does."""

    passed_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise Broken("everybody waits, and nobody for anything that can come")
        if not ready and timeout is not None:
            self.passed_s += timeout
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.passed_s


class _Nodes:
    """The pool of a client whose nodes say what the data say, and nothing after that."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def connected(self, address: Address) -> bool:
        return address == _HERE

    async def ask(self, address: Address, request: Request, lane: Lane) -> Answer:
        version = SPOKEN[request.api][1]
        request.encode(version)
        await asyncio.sleep(0)
        way, body = self._next()
        if way == LOST:
            raise ConnectionLost(str(address), "it broke")
        good = encode_response(request.api, version, _GOOD[request.api])
        return Answer(version, memoryview({GOOD: good, CHANGED: _changed(good, body), RAW: body}[way]))

    def _next(self) -> tuple[int, bytes]:
        data = self._data
        if not data:
            return LOST, b""
        way, size = data[0] % 4, int.from_bytes(data[1:3], "big") if data[0] % 4 in (CHANGED, RAW) else 0
        at = 3 if way in (CHANGED, RAW) else 1
        self._data = data[at + size :]
        return way, data[at : at + size]


def _changed(good: bytes, steps: bytes) -> bytes:
    """Other bytes at some places, each a place in 16 bits and a byte."""
    out = bytearray(good)
    for at in range(0, len(steps) - 2, 3):
        out[int.from_bytes(steps[at : at + 2], "big") % len(out)] = steps[at + 2]
    return bytes(out)


async def _stream(core: Core) -> None:
    stream = Stream(core, _PART, 0, 4, 1_000, 2)
    try:
        while True:
            expect(len(await stream.__anext__()) > 0, "what a stream hands on is not empty")
    except StopAsyncIteration:
        pass
    finally:
        await stream.aclose()


async def _fetch(core: Core) -> None:
    fetched = await reading.fetch(core, _PART, 0, max_bytes=1_000)
    expect(fetched.data.nbytes == 0 or fetched.data.nbytes > 60, "whole batches")


OPERATIONS: Final[tuple[Operation, ...]] = (
    topics.topics,
    lambda core: topics.topics(core, ["t", "u"]),
    lambda core: reading.offsets(core, {_PART: EARLIEST, TopicPartition("t", 1): 5}),
    _fetch,
    _stream,
    lambda core: producing.produce(core, _PART, _PLAIN),
    lambda core: producing.produce(core, _PART, _STAGED),
    producing.new_producer,
    lambda core: groups.group_offsets(core, "g"),
    lambda core: groups.group_offsets(core, "g", [_PART]),
    lambda core: groups.commit_group_offsets(core, "g", {_PART: 3}),
    lambda core: topics.create_topic(core, "t"),
    lambda core: topics.delete_topic(core, "t"),
    lambda core: staging.closed_time(core, [_PART], at_least=9, max_wait_ms=9),
    lambda core: staging.stage(core, _PART, _STAGED),
    lambda core: staging.commit_staged(core, "app", 0, _STAGES, timeout_ms=9),
    lambda core: staging.drop_staged(core, _STAGES),
)
_loops: list[_Loop] = []


def client(data: bytes) -> None:
    """Which operation; then the answers of the nodes, one after the other: how, and for some of them a size and bytes."""
    if not data:
        return
    if not _loops:
        _loops.append(_Loop())
    random.seed(5)  # which node is asked first, and how long a pause is
    _loops[0].run_until_complete(_carry_out(OPERATIONS[data[0] % len(OPERATIONS)], data[1:]))


async def _carry_out(operation: Operation, data: bytes) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    pool = cast(Pool, _Nodes(data))
    core = Core(_SETTINGS, pool, Metadata(_SETTINGS, pool, loop), loop)
    try:
        await operation(core)
    except QuorateError as error:
        expect(bool(str(error)) and bool(error.code), "an error says what happened")
    finally:
        core.metadata.close()
    expect(loop.time() - began < 60, "it ends in time")


def _t(called: str = "name", **fields: Any) -> list[dict[str, Any]]:
    """One partition of one topic, as most answers have them; `error_code` is 0 in all of them."""
    ((parts, one),) = fields.items()
    return [{called: "t", parts: [{"error_code": 0, **one}]}]


_LEADER: Final = {"error_code": 0, "leader_id": 1, "leader_epoch": 3, "replica_nodes": [], "isr_nodes": []}
_GOOD: Final[Mapping[Api, dict[str, Any]]] = {
    Api.METADATA: {
        "brokers": [{"node_id": 1, "host": "a", "port": 1}, {"node_id": 2, "host": "b", "port": 2}],
        "topics": [{"error_code": 0, "name": "t", "partitions": [{**_LEADER, "partition_index": one} for one in (0, 1)]}],
    },
    Api.LIST_OFFSETS: {
        "topics": [{"name": "t", "partitions": [{"partition_index": one, "error_code": 0, "offset": 4} for one in (0, 1)]}]
    },
    Api.FETCH: {
        "responses": _t("topic", partitions={"partition_index": 0, "high_watermark": 4, "records": _PLAIN}),
    },
    Api.PRODUCE: {"responses": _t(partition_responses={"index": 0, "base_offset": 2})},
    Api.INIT_PRODUCER_ID: {"producer_id": 7, "producer_epoch": 0},
    Api.FIND_COORDINATOR: {"node_id": 1, "host": "a", "port": 1},
    Api.OFFSET_FETCH: {"topics": _t(partitions={"partition_index": 0, "committed_offset": 3})},
    Api.OFFSET_COMMIT: {"topics": _t(partitions={"partition_index": 0})},
    Api.CREATE_TOPICS: {"topics": [{"name": "t", "error_code": 0}]},
    Api.DELETE_TOPICS: {"responses": [{"name": "t", "error_code": 0}]},
    Api.CLOSED_TIME: {"topics": _t(partitions={"index": 0, "closed_time": 9, "end_offset": 4})},
    Api.STAGE: {"topics": _t(partitions={"index": 0, "base_offset": 2})},
    Api.COMMIT_STAGED: {"outcome": 0, "published": True},
    Api.DROP_STAGED: {},
}
