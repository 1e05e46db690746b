"""Three runtimes with a partition on each, and short words for what the tests do with them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from quorate.broker.partition import Appended, Fetched, KafkaFailure, ListedOffset, Partition, PartitionSettings
from quorate.broker.protocol.builder import NO_PRODUCER_STATE, BatchBuilder, Producer
from quorate.consensus.clock.kernel import SystemTime, TimeSource
from quorate.consensus.core import Configuration, GroupId, NodeId, RaftSettings, replica_id
from quorate.consensus.runtime import MultiRaft, new_event_loop
from quorate.consensus.storage.api import LogStore
from tests.support.cluster import FAST, G1, Cluster, until

T = TypeVar("T")


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine on the loop that nodes use."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main)


def batch(count: int = 1, producer: Producer = NO_PRODUCER_STATE, value: bytes = b"value") -> bytearray:
    """A batch as a client sends it."""
    builder = BatchBuilder()
    for number in range(count):
        builder.append(1_000 + number, b"key", value)
    return builder.build(producer=producer)


class PartitionCluster(Cluster):
    """A cluster whose group is a partition."""

    def __init__(
        self,
        nodes: int = 3,
        settings: PartitionSettings | None = None,
        time: TimeSource | None = None,
        store: Callable[[NodeId, GroupId, Configuration], LogStore] | None = None,
        raft: RaftSettings = FAST,
    ) -> None:
        super().__init__(nodes, store=store, raft=raft)
        self.partitions: dict[NodeId, Partition] = {}
        self.settings = settings
        self.time = time or SystemTime()

    async def join(self, runtime: MultiRaft, node: NodeId, group: GroupId, store: LogStore) -> None:
        """Run a node's replica as a partition."""
        self.partitions[node] = await Partition.open(runtime, group, replica_id(node), store, self.settings, self.time)

    async def led(self) -> Partition:
        """The leader's partition, once it serves reads and judges producers."""
        await self.elected()
        found: list[Partition] = []

        def ready() -> bool:
            node = self.leader()
            if node is None:
                return False
            partition = self.partitions[node]
            found[:] = [partition]
            return partition.leads and partition._commit >= partition._term_start <= partition._applied

        await until(ready, "a leader serves")
        return found[0]

    def node_of(self, partition: Partition) -> NodeId:
        """Where a partition runs."""
        return next(node for node, other in self.partitions.items() if other is partition)

    def others(self, partition: Partition) -> list[NodeId]:
        """The other running nodes."""
        return [node for node in self.running if self.partitions[node] is not partition]

    async def move(self, partition: Partition) -> Partition:
        """Give leadership to another node."""
        heir = self.others(partition)[0]
        await self.running[self.node_of(partition)].transfer(G1, replica_id(heir))
        return await self.led()


async def append(partition: Partition, data: bytearray | memoryview, acks: int = -1) -> Appended:
    """Append, and wait for the answer. Raises KafkaFailure."""
    return await began(partition, data, acks)


def began(partition: Partition, data: bytearray | memoryview, acks: int = -1) -> asyncio.Future[Appended]:
    """Append, and give the future of the answer."""
    future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()

    def done(answer: Appended | KafkaFailure) -> None:
        assert not future.done(), "answered twice"
        if isinstance(answer, KafkaFailure):
            future.set_exception(answer)
        else:
            future.set_result(answer)

    partition.append(data, acks, done)
    return future


async def fetch(partition: Partition, offset: int, max_bytes: int = 1 << 20, epoch: int = -1) -> Fetched:
    """Fetch from memory or from the store."""
    result = partition.fetch(offset, max_bytes, epoch)
    return result if isinstance(result, Fetched) else await result


async def listed(partition: Partition, timestamp: int) -> ListedOffset:
    """Ask for an offset."""
    result = partition.list_offset(timestamp)
    if inspect.isawaitable(result):
        return await result
    assert isinstance(result, ListedOffset)
    return result


def refused(error: KafkaFailure, code: int, *, definite: bool = True) -> bool:
    """Whether a refusal is the expected one."""
    return (error.error, error.definite) == (code, definite)
