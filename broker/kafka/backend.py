"""What the listener needs of the node that it runs in: the seam between Kafka's protocol and everything behind it.

Values only and one Protocol for each thing. Everything is called on the event loop's thread. What may take long is a
coroutine or has a callback; what is usually there at once returns either the value or an awaitable of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

from quorate.broker.groups import Done, Identity, JoinRequest, Leaver, OffsetToCommit, SyncRequest
from quorate.broker.partition.values import Appended, Closed, EpochEnd, Fetched, KafkaFailure, ListedOffset

__all__ = [
    "AlterKind",
    "Alteration",
    "AppendDone",
    "Appended",
    "Backend",
    "Broker",
    "Buffer",
    "Cancel",
    "Closed",
    "CreatedQueue",
    "EpochEnd",
    "Fetched",
    "Groups",
    "KafkaFailure",
    "ListedOffset",
    "NewQueue",
    "Partition",
    "PartitionView",
    "ProducerId",
    "QueueView",
    "ResourceKind",
    "Setting",
    "SettingSource",
    "SettingType",
    "StageWish",
    "StagedIn",
    "TimeSpec",
]

Buffer = bytes | bytearray | memoryview


# The cluster as every node sees it.


class Broker(NamedTuple):
    """A node, with the address that its Kafka listener tells clients."""

    id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition as far as this node knows."""

    index: int
    leader: int
    """The node that leads; -1: nobody, or not known here."""
    epoch: int
    """The leader's term; -1 if it is not known."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    """Those replicas whose nodes are alive."""


class QueueView(NamedTuple):
    """A queue, which Kafka's clients call a topic."""

    name: str
    id: bytes
    """16 bytes; never used for another queue."""
    internal: bool
    partitions: Sequence[PartitionView]
    """By index, from 0 on, without gaps."""
    settings: Mapping[str, str]
    """Only what was set for this queue."""


# One partition, on the node that leads it.


class TimeSpec(IntEnum):
    """Timestamps in a question for an offset that are not times."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3


AppendDone = Callable[[Appended | KafkaFailure], None]
Cancel = Callable[[], None]


class Partition(Protocol):
    """The local replica of a partition. Everything but `wait` needs the leader, or fails with NOT_LEADER_OR_FOLLOWER."""

    def append(self, data: memoryview | bytearray, acks: int, done: AppendDone) -> None:
        """Check and append exactly one batch. `data` is patched in place and belongs to the partition from now on.

        `done` is called once, possibly before this returns. Raises KafkaFailure, and then `done` is not called. With
        acks 1 or 0 it is called as soon as the leader has taken the batch.
        """

    def stage(self, data: Buffer, done: AppendDone) -> None:
        """Keep exactly one batch for later. `done` and what is raised are as with `append`; the offset is that of the
        control batch that holds it."""

    def fetch(self, offset: int, max_bytes: int, epoch: int, at_least_one: bool) -> Fetched | Awaitable[Fetched]:
        """Committed batches from `offset` on, up to `max_bytes`; with `at_least_one` the first one comes whatever its size.

        `epoch` is the one that the client believes in, or -1. Raises KafkaFailure: OFFSET_OUT_OF_RANGE, FENCED_LEADER_EPOCH,
        UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER.
        """

    def wait(self, offset: int, wake: Callable[[], None]) -> Cancel:
        """Call `wake` once, when something at or after `offset` is committed, or when this replica no longer leads.

        Never from within this call. The result takes the wish back; after `wake` it does nothing.
        """

    def list_offset(self, timestamp: int, epoch: int, committed_only: bool) -> ListedOffset | Awaitable[ListedOffset]:
        """The first offset whose time is at or after `timestamp`, or what a TimeSpec says. Raises KafkaFailure."""

    def end_of_epoch(self, epoch: int, current_epoch: int) -> EpochEnd:
        """Where an epoch ended. Raises KafkaFailure."""

    async def closed_time(self, at_least: int, max_wait_s: float) -> Closed:
        """A time at or below which nothing will be appended any more; waits until it is `at_least`, but not for longer than
        `max_wait_s`. Raises KafkaFailure."""

    async def delete_before(self, offset: int) -> int:
        """Move the log's start to `offset`, -1 for the high watermark; the new start. Raises KafkaFailure."""


# Queues and their settings.


class NewQueue(NamedTuple):
    """A wish to create a queue."""

    name: str
    partitions: int
    """-1: the cluster's default. The length of `assignments` if there are some."""
    replication: int
    """-1: the cluster's default, or that of `assignments`."""
    assignments: tuple[tuple[int, ...], ...] | None
    """The nodes of each partition, or None: the manager places them."""
    settings: Mapping[str, str | None]


class CreatedQueue(NamedTuple):
    """What was, or would be, created."""

    id: bytes
    partitions: int
    replication: int


class ResourceKind(IntEnum):
    """What settings belong to; Kafka's numbers."""

    TOPIC = 2
    BROKER = 4


class SettingSource(IntEnum):
    """Where a setting's value comes from; Kafka's numbers."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


class SettingType(IntEnum):
    """Kafka's numbers."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


class Setting(NamedTuple):
    """One setting as it stands."""

    name: str
    value: str | None
    source: SettingSource = SettingSource.DEFAULT
    read_only: bool = False
    sensitive: bool = False
    type: SettingType = SettingType.STRING
    documentation: str | None = None
    default: str | None = None


class AlterKind(IntEnum):
    """What to do to a setting; Kafka's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    """One change of a setting."""

    name: str
    kind: AlterKind
    value: str | None


class ProducerId(NamedTuple):
    """Who an idempotent producer is."""

    id: int
    epoch: int


class StagedIn(NamedTuple):
    """What is staged in one partition, as its client counted it."""

    topic: str
    partition: int
    batches: int
    records: int


class StageWish(NamedTuple):
    """One stage: all that was staged under a producer id."""

    producer: int
    parts: Sequence[StagedIn]


class Groups(Protocol):
    """A coordinator that serves on this node: `quorate.broker.groups.Coordinator` with its time and effects seen to.

    `done` takes the fields of Kafka's answer (of one element, where there are several), once, possibly before this returns.
    """

    def join(self, request: JoinRequest, done: Done) -> None: ...

    def sync(self, request: SyncRequest, done: Done) -> None: ...

    def heartbeat(self, group_id: str, member: Identity, done: Done) -> None: ...

    def leave(self, group_id: str, leavers: Sequence[Leaver], done: Done, *, batched: bool) -> None: ...

    def commit_offsets(
        self, group_id: str, member: Identity, queues: Mapping[str, Sequence[OffsetToCommit]], done: Done
    ) -> None: ...

    def fetch_offsets(self, group_id: str, queues: Mapping[str, Sequence[int]] | None, done: Done) -> None: ...

    def delete_offsets(self, group_id: str, queues: Mapping[str, Sequence[int]], done: Done) -> None: ...

    def list_groups(self, states: Collection[str], done: Done) -> None: ...

    def describe_group(self, group_id: str, done: Done) -> None: ...

    def delete_group(self, group_id: str, done: Done) -> None: ...


class Backend(Protocol):
    """The node behind a listener."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def node_id(self) -> int: ...

    @property
    def controller_id(self) -> int:
        """The node that clients send administrative requests to (any node takes them), or -1."""

    def brokers(self) -> Sequence[Broker]:
        """The nodes that clients may talk to."""

    def queues(self) -> Sequence[QueueView]:
        """All queues, internal ones too."""

    def queue(self, name: str) -> QueueView | None: ...

    def queue_by_id(self, id: bytes) -> QueueView | None: ...

    def partition(self, name: str, index: int) -> Partition:
        """The replica here. Raises KafkaFailure: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, and for internal queues
        INVALID_TOPIC_EXCEPTION."""

    def drained(self) -> None:
        """Everything that was read in one go has been appended."""

    async def create_queues(
        self, queues: Sequence[NewQueue], *, validate_only: bool, timeout_ms: int
    ) -> Sequence[CreatedQueue | KafkaFailure]:
        """One result for each. A queue that is created has leaders, or the time-out is over (REQUEST_TIMED_OUT)."""

    async def delete_queues(self, names: Sequence[str], *, timeout_ms: int) -> Sequence[KafkaFailure | None]:
        """One result for each."""

    async def grow_queue(
        self,
        name: str,
        partitions: int,
        assignments: tuple[tuple[int, ...], ...] | None,
        *,
        validate_only: bool,
        timeout_ms: int,
    ) -> None:
        """Raise the number of partitions; `assignments` are those of the new ones. Raises KafkaFailure."""

    def describe_settings(self, kind: ResourceKind, name: str) -> Sequence[Setting]:
        """Raises KafkaFailure. A broker's name is its id in decimal."""

    async def alter_settings(
        self, kind: ResourceKind, name: str, changes: Sequence[Alteration], *, validate_only: bool
    ) -> None:
        """All changes or none. Raises KafkaFailure."""

    async def new_producer_id(self) -> ProducerId:
        """An id that was never given out before. Raises KafkaFailure."""

    async def commit_staged(
        self, application: str, batch: int, stages: Sequence[StageWish], timeout_ms: int
    ) -> tuple[bool, bool]:
        """Commit an application's batch, unless it was committed before: whether it is made of these stages, and whether
        all of it is visible already. Raises KafkaFailure: nothing is committed, or (`definite` is false) nobody knows."""

    async def drop_staged(self, stages: Sequence[StageWish]) -> None:
        """Drop stages that are no part of a commit. Raises KafkaFailure."""

    def coordinator_node(self, group: str) -> int:
        """The node that coordinates a group; -1 if there is none now."""

    def elections(self, names: Collection[str] | None) -> list[tuple[str, int]]:
        """The partitions of these queues, or of all, whose leader was lost a moment ago: the next will soon be known. Cheap,
        if there are none."""

    def electing(self, name: str, index: int) -> bool:
        """Whether that is still so for one of them."""

    def electing_coordinator(self, group: str) -> bool:
        """Whether a group's coordinator was lost a moment ago, and the next one will soon be known."""

    def groups(self, group: str) -> Groups:
        """The coordinator of a group, if it is here. Raises KafkaFailure: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS."""

    def all_groups(self) -> Sequence[Groups]:
        """All coordinators that are here."""
