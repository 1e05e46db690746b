"""The node behind a Kafka listener, in memory: the twin of `broker.node.backend` for tests of the listener alone.

Appends are committed at once unless `hold` says otherwise; what a test wants to see of a listener is written down.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace

from quorate.broker.kafka.backend import (
    Alteration,
    AppendDone,
    Appended,
    Broker,
    Buffer,
    Cancel,
    Closed,
    CreatedQueue,
    EpochEnd,
    Fetched,
    Groups,
    KafkaFailure,
    ListedOffset,
    NewQueue,
    PartitionView,
    ProducerId,
    QueueView,
    ResourceKind,
    Setting,
    StageWish,
)
from quorate.broker.protocol.kafka.errors import Error
from quorate.consensus.batch.header import HEADER_BYTES, read_header

ME, OTHER = 1, 2
EPOCH = 5


class MemoryPartition:
    """One log. `hold`: appends wait until `release`."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int, Buffer]] = []
        self.end = 0
        self.hold = False
        self.held: list[Callable[[], None]] = []
        self.waiting: dict[Callable[[], None], int] = {}
        self.refuses: KafkaFailure | None = None
        self.later: Awaitable[Fetched] | None = None
        """What the next fetch returns instead: a read that needs the disk."""

    def append(self, data: memoryview | bytearray, acks: int, done: AppendDone) -> None:
        if self.refuses is not None:
            raise self.refuses
        if len(data) < HEADER_BYTES:
            raise KafkaFailure(Error.CORRUPT_MESSAGE, "too short")
        count = read_header(data).records

        def commit() -> None:
            base, self.end = self.end, self.end + count
            self.batches.append((base, self.end, data))
            done(Appended(base, -1, 0, EPOCH))
            self.wake()

        if self.hold:
            self.held.append(commit)
        else:
            commit()

    def release(self) -> None:
        """Commit what is held."""
        self.hold = False
        held, self.held = self.held, []
        for commit in held:
            commit()

    def wake(self) -> None:
        """Tell everybody who waits for something that is there now."""
        for wake in [wake for wake, offset in self.waiting.items() if offset < self.end]:
            del self.waiting[wake]
            wake()

    def stage(self, data: Buffer, done: AppendDone) -> None:
        self.append(memoryview(bytearray(data)), -1, done)

    def fetch(self, offset: int, max_bytes: int, epoch: int, at_least_one: bool) -> Fetched | Awaitable[Fetched]:
        if self.refuses is not None:
            raise self.refuses
        if self.later is not None:
            later, self.later = self.later, None
            return later
        if not 0 <= offset <= self.end:
            raise KafkaFailure(Error.OFFSET_OUT_OF_RANGE, str(offset))
        found: list[Buffer] = []
        size = 0
        for base, end, data in self.batches:
            if end > offset and (size + len(data) <= max_bytes or (at_least_one and not found)):
                if base > offset and not found and offset != base:
                    break
                found.append(data)
                size += len(data)
                offset = end
        return Fetched(found, size, offset, self.end, 0)

    def wait(self, offset: int, wake: Callable[[], None]) -> Cancel:
        self.waiting[wake] = offset

        def cancel() -> None:
            self.waiting.pop(wake, None)

        return cancel

    def list_offset(self, timestamp: int, epoch: int, committed_only: bool) -> ListedOffset:
        if self.refuses is not None:
            raise self.refuses
        return ListedOffset(self.end if timestamp == -1 else 0, -1, EPOCH)

    def end_of_epoch(self, epoch: int, current_epoch: int) -> EpochEnd:
        return EpochEnd(EPOCH, self.end)

    async def closed_time(self, at_least: int, max_wait_s: float) -> Closed:
        if self.refuses is not None:
            raise self.refuses
        return Closed(at_least, self.end)

    async def delete_before(self, offset: int) -> int:
        if offset > self.end:
            raise KafkaFailure(Error.OFFSET_OUT_OF_RANGE, str(offset))
        return offset if offset >= 0 else self.end


class MemoryBackend:
    """Node 1 of two. It leads partition 0 of queue `t`; node 2 leads partition 1. The queue `@own` is internal. Nobody
    coordinates groups here."""

    cluster_id, node_id, controller_id = "memory", ME, ME

    def __init__(self) -> None:
        self.here = MemoryPartition()
        self.drains = 0
        self.commits: dict[tuple[str, int], Sequence[StageWish]] = {}
        self.dropped: list[int] = []
        self.broken = False
        """The next look at the brokers is a mistake of ours."""
        self.unacquainted = 0
        """So many looks it takes until this node knows its cluster."""
        self.election = 0
        """So many looks it takes until partition 1, and the group `elected`, have a new leader."""
        views = [
            PartitionView(0, ME, EPOCH, (ME, OTHER), (ME, OTHER)),
            PartitionView(1, OTHER, EPOCH, (ME, OTHER), (OTHER,)),
        ]
        self._queues = {
            "t": QueueView("t", b"t" * 16, False, views, {}),
            "@own": QueueView("@own", b"@" * 16, True, views[:1], {}),
        }

    def brokers(self) -> Sequence[Broker]:
        if self.broken:
            raise RuntimeError("a mistake of ours")
        self.unacquainted -= self.unacquainted > 0
        if self.unacquainted:
            return []
        return [Broker(ME, "127.0.0.1", 9092), Broker(OTHER, "127.0.0.2", 9093, "rack")]

    def queues(self) -> Sequence[QueueView]:
        return list(self._queues.values())

    def queue(self, name: str) -> QueueView | None:
        queue = self._queues.get(name)
        if queue is None or not self.election:
            return queue
        led, lost = queue.partitions
        return queue._replace(partitions=[led, replace(lost, leader=-1, epoch=-1)])

    def queue_by_id(self, id: bytes) -> QueueView | None:
        return next((queue for queue in self._queues.values() if queue.id == id), None)

    def partition(self, name: str, index: int) -> MemoryPartition:
        queue = self._queues.get(name)
        if queue is None or not 0 <= index < len(queue.partitions):
            raise KafkaFailure(Error.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition")
        if queue.internal:
            raise KafkaFailure(Error.INVALID_TOPIC_EXCEPTION, "it belongs to the cluster itself")
        if queue.partitions[index].leader != ME:
            raise KafkaFailure(Error.NOT_LEADER_OR_FOLLOWER, "it is led elsewhere")
        return self.here

    def drained(self) -> None:
        self.drains += 1

    async def create_queues(
        self, queues: Sequence[NewQueue], *, validate_only: bool, timeout_ms: int
    ) -> Sequence[CreatedQueue | KafkaFailure]:
        made = []
        for new in queues:
            count, id = max(1, new.partitions), new.name.encode().ljust(16, b"\0")[:16]
            made.append(CreatedQueue(id, count, 2))
            if not validate_only:
                views = [PartitionView(index, ME, EPOCH, (ME,), (ME,)) for index in range(count)]
                self._queues[new.name] = QueueView(new.name, id, False, views, {})
        return made

    async def delete_queues(self, names: Sequence[str], *, timeout_ms: int) -> Sequence[KafkaFailure | None]:
        for name in names:
            del self._queues[name]
        return [None for _ in names]

    async def grow_queue(
        self,
        name: str,
        partitions: int,
        assignments: tuple[tuple[int, ...], ...] | None,
        *,
        validate_only: bool,
        timeout_ms: int,
    ) -> None:
        raise KafkaFailure(Error.REASSIGNMENT_IN_PROGRESS, "not now")

    def describe_settings(self, kind: ResourceKind, name: str) -> Sequence[Setting]:
        if kind is ResourceKind.TOPIC and name not in self._queues:
            raise KafkaFailure(Error.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
        return [Setting("retention.ms", "5"), Setting("secret", "s", sensitive=True)]

    async def alter_settings(
        self, kind: ResourceKind, name: str, changes: Sequence[Alteration], *, validate_only: bool
    ) -> None:
        if changes:
            raise KafkaFailure(Error.INVALID_CONFIG, f"{changes[0].name} is fixed")

    async def new_producer_id(self) -> ProducerId:
        return ProducerId(77, 0)

    async def commit_staged(
        self, application: str, batch: int, stages: Sequence[StageWish], timeout_ms: int
    ) -> tuple[bool, bool]:
        if application == "":
            raise KafkaFailure(Error.INVALID_REQUEST, "an application id has characters")
        ours = self.commits.setdefault((application, batch), stages) == stages
        return ours, True

    async def drop_staged(self, stages: Sequence[StageWish]) -> None:
        self.dropped += [stage.producer for stage in stages]
        if any(stage in committed for stage in stages for committed in self.commits.values()):
            raise KafkaFailure(Error.INVALID_TXN_STATE, "it is part of a commit")

    def coordinator_node(self, group: str) -> int:
        return OTHER if group == "elsewhere" or (group == "elected" and not self.election) else -1

    def elections(self, names: Collection[str] | None) -> list[tuple[str, int]]:
        return [("t", 1)] if self.election and (names is None or "t" in names) else []

    def electing(self, name: str, index: int) -> bool:
        self.election -= self.election > 0
        return self.election > 0

    def electing_coordinator(self, group: str) -> bool:
        self.election -= group == "elected" and self.election > 0
        return group == "elected" and self.election > 0

    def groups(self, group: str) -> Groups:
        raise KafkaFailure(Error.NOT_COORDINATOR, "it is coordinated elsewhere")

    def all_groups(self) -> Sequence[Groups]:
        return []
