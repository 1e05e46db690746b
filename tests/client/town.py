"""Two listeners with one log in memory between them: a cluster whose leader changes when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from quorate.broker.kafka.backend import AppendDone, Broker, Buffer, Fetched, KafkaFailure, PartitionView, QueueView
from quorate.broker.kafka.listener import KafkaListener
from quorate.broker.kafka.settings import ListenerSettings
from quorate.broker.protocol.kafka.errors import Error
from quorate.client.batches import split_batches
from quorate.consensus.batch.header import read_header, stamp
from quorate.consensus.runtime import new_event_loop
from tests.support.memory_backend import MemoryBackend, MemoryPartition
from tests.support.record_batches import record_batch


class Log(MemoryPartition):
    """The log that both have. Counts what it is asked; batches get their offsets, as in a real one."""

    def __init__(self) -> None:
        super().__init__()
        self.fetches = 0
        self.appends = 0
        self.on_fetch: Callable[[int], None] = lambda number: None
        """Called with the number of each fetch, before it."""
        self.after_append: Callable[[int], None] = lambda number: None

    def fill(self, batches: int, size: int = 1_000, count: int = 10) -> None:
        """Append that many batches of `count` offsets."""
        for number in range(batches):
            data = record_batch(size + number % 7, count)
            stamp(data, self.end, 1)
            self.batches.append((self.end, self.end + count, bytes(data)))
            self.end += count

    def append(self, data: memoryview | bytearray, acks: int, done: AppendDone) -> None:
        self.appends += 1
        stamp(data, self.end, 1)
        super().append(data, acks, done)
        self.after_append(self.appends)

    def fetch(self, offset: int, max_bytes: int, epoch: int, at_least_one: bool) -> Fetched | Awaitable[Fetched]:
        self.fetches += 1
        self.on_fetch(self.fetches)
        return super().fetch(offset, max_bytes, epoch, at_least_one)


class Node(MemoryBackend):
    """One of two nodes. `leader` of the town leads all partitions of queue `t`, which share one log."""

    def __init__(self, town: Town, number: int) -> None:
        super().__init__()
        self.node_id = number
        self._town = town

    def brokers(self) -> Sequence[Broker]:
        return [Broker(number, "127.0.0.1", port) for number, port in self._town.ports.items()]

    def queue(self, name: str) -> QueueView | None:
        if name != "t":
            return super().queue(name)
        town = self._town
        view = [PartitionView(index, town.told[self.node_id], town.epoch, (1, 2), (1, 2)) for index in range(3)]
        return QueueView("t", b"t" * 16, False, view, {})

    def partition(self, name: str, index: int) -> MemoryPartition:
        if self._town.leader != self.node_id:
            raise KafkaFailure(Error.NOT_LEADER_OR_FOLLOWER, "it is led elsewhere")
        if name != "t" or index > 2:
            raise KafkaFailure(Error.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition")
        return self._town.log


class Town:
    """`told`: who leads, as each node says in metadata."""

    def __init__(self) -> None:
        self.log = Log()
        self.leader = 1
        self.epoch = 1
        self.told = {1: 1, 2: 1}
        self.ports: dict[int, int] = {}
        self.nodes = {number: Node(self, number) for number in (1, 2)}
        self.nodes[2]._queues = self.nodes[1]._queues
        self.listeners: dict[int, KafkaListener] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def lead(self, number: int) -> None:
        """Another node leads, and everybody knows."""
        self.leader = number
        self.epoch += 1
        self.told = dict.fromkeys(self.told, number)

    def cut(self, number: int) -> None:
        """Break all connections to a node."""
        for connection in list(self.listeners[number]._connections):
            connection.abort()


@asynccontextmanager
async def town() -> AsyncIterator[Town]:
    """A town on free ports."""
    found = Town()
    try:
        for number, node in found.nodes.items():
            listener = found.listeners[number] = KafkaListener(node, ListenerSettings())
            _, found.ports[number] = await listener.start("127.0.0.1", 0)
        yield found
    finally:
        for listener in found.listeners.values():
            await listener.close()


def offsets_of(data: Buffer) -> list[int]:
    """The first offsets of the batches in a fetched buffer."""
    return [read_header(batch).base for batch in split_batches(data)]


def run(main: Awaitable[None]) -> None:
    """Run a test's coroutine, for no longer than a minute."""

    async def bounded() -> None:
        async with asyncio.timeout(60):
            await main

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(bounded())


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition."""
    deadline = asyncio.get_running_loop().time() + 30
    while True:
        if condition():
            return
        assert asyncio.get_running_loop().time() < deadline, f"waited in vain until {what}"
        await asyncio.sleep(0.01)
