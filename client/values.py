"""What the client gives and takes. Plain values that can be pickled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

Buffer = bytes | bytearray | memoryview

EARLIEST: Final = -2
"""As a wish for an offset: the first one that is there."""
LATEST: Final = -1
"""The one after the last that can be read."""
MAX_TIMESTAMP: Final = -3
"""That of the message with the latest time."""


class TopicPartition(NamedTuple):
    """A partition's name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class Address(NamedTuple):
    """Where a node is reached."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """A partition and who leads it: -1 if nobody does, and then `error` says why (Kafka's code)."""

    index: int
    leader: int
    epoch: int
    error: int = 0


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic, which the rest of Quorate calls a queue. `error` (Kafka's code, 0 for none) says if it does not exist."""

    name: str
    id: bytes
    partitions: tuple[PartitionInfo, ...]
    error: int = 0
    internal: bool = False


class FoundOffset(NamedTuple):
    """An offset (-1: there is none), the time of its message and its leader's epoch (-1: not told)."""

    offset: int
    timestamp: int
    epoch: int


class Fetched(NamedTuple):
    """Whole batches, the first of which holds the offset that was asked for, if there is one yet."""

    high_watermark: int
    log_start: int
    data: memoryview


class Produced(NamedTuple):
    """Where a batch stands now. With acks=0 nobody knows: -1."""

    base_offset: int
    log_append_time: int


class ProducerId(NamedTuple):
    """Who an idempotent producer is."""

    id: int
    epoch: int


class Closed(NamedTuple):
    """No later append gets a stamp at or below `closed_ms` (-1: unknown); all that have one lie below `end_offset`."""

    closed_ms: int
    end_offset: int


class StagePart(NamedTuple):
    """What a stage holds for one partition."""

    topic: str
    partition: int
    batches: int
    records: int


class Stage(NamedTuple):
    """What one producer id has staged."""

    producer_id: int
    parts: tuple[StagePart, ...]


class Committed(NamedTuple):
    """`already`: other stages, or a later batch, were committed before. `published`: all of it can be read now."""

    outcome: Literal["committed", "already"]
    published: bool
