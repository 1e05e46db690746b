"""A cluster in memory with the client's interface, for tests of whoever uses a `Client`. One thread at a time.

Offsets, times and errors are as with the real one; what a test wants otherwise, it sets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from quorate.broker.protocol.records import Record, read_records
from quorate.client import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    Closed,
    Committed,
    Fetched,
    FoundOffset,
    OffsetOutOfRange,
    PartitionInfo,
    Produced,
    ProducerId,
    QuorateError,
    Stage,
    StagePart,
    TopicInfo,
    TopicPartition,
    UnknownTopic,
)
from quorate.consensus.batch.header import read_header, stamp, stamp_append_time
from quorate.consensus.batch.validate import validate

UNKNOWN_TOPIC = 3


@dataclass
class FakeLog:
    """One partition. `closed_ms`: how far its time is closed."""

    batches: list[bytes] = field(default_factory=list)
    log_start: int = 0
    end: int = 0
    closed_ms: int = -1
    staged: dict[int, list[bytes]] = field(default_factory=dict)

    def append(self, data: bytes | bytearray | memoryview, time_ms: int) -> int:
        header = validate(data)
        batch = bytearray(data)
        stamp_append_time(batch, time_ms)
        stamp(batch, self.end, 1)
        base, self.end = self.end, self.end + header.records
        self.batches.append(bytes(batch))
        return base

    def records(self) -> list[Record]:
        return [record for batch in self.batches for record in read_records(batch) if record.offset >= self.log_start]


class FakeCluster:
    """Queues by name; `now_ms` is the clock of all leaders."""

    def __init__(self, **partitions: int) -> None:
        self.logs: dict[TopicPartition, FakeLog] = {}
        self.now_ms = 1_000
        self.internal: set[str] = set()
        self.groups: dict[str, dict[TopicPartition, int]] = {}
        self.failure: QuorateError | None = None
        """What every call raises."""
        self.asked: list[str] = []
        self.commits: dict[str, int] = {}
        self._producers = 0
        for name, count in partitions.items():
            self.grow(name, count)

    def grow(self, name: str, partitions: int) -> None:
        for index in range(partitions):
            self.logs.setdefault(TopicPartition(name, index), FakeLog())

    def delete(self, name: str) -> None:
        self.logs = {part: log for part, log in self.logs.items() if part.topic != name}

    def _call(self, name: str) -> None:
        self.asked.append(name)
        if self.failure is not None:
            raise self.failure

    def _log(self, part: TopicPartition) -> FakeLog:
        if part not in self.logs:
            raise UnknownTopic(*part)
        return self.logs[part]

    def topics(self, names: Collection[str] | None = None) -> dict[str, TopicInfo]:
        self._call("topics")
        found: dict[str, list[PartitionInfo]] = {}
        for part in sorted(self.logs):
            found.setdefault(part.topic, []).append(PartitionInfo(part.partition, 1, 1))
        infos = {
            name: TopicInfo(name, name.encode(), tuple(parts), internal=name in self.internal)
            for name, parts in found.items()
        }
        if names is None:
            return infos
        return {name: infos.get(name) or TopicInfo(name, b"", (), UNKNOWN_TOPIC) for name in names}

    def offsets(self, wishes: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        self._call("offsets")
        return {part: self._find(self._log(part), wish) for part, wish in wishes.items()}

    def _find(self, log: FakeLog, wish: int) -> FoundOffset:
        if wish in (EARLIEST, LATEST):
            return FoundOffset(log.log_start if wish == EARLIEST else log.end, -1, 1)
        headers = [read_header(batch) for batch in log.batches]
        if wish == MAX_TIMESTAMP:
            wish = max((header.max_timestamp for header in headers), default=0)
        for header in headers:
            if header.max_timestamp >= wish and header.last >= log.log_start:
                return FoundOffset(max(header.base, log.log_start), header.max_timestamp, 1)
        return FoundOffset(-1, -1, -1)

    def closed_time(
        self, parts: Collection[TopicPartition], *, at_least: int = -1, max_wait_ms: int = 0
    ) -> dict[TopicPartition, Closed]:
        self._call("closed_time")
        return {part: Closed(self._log(part).closed_ms, self._log(part).end) for part in parts}

    def fetch(self, part: TopicPartition, offset: int, *, max_bytes: int) -> Fetched:
        self._call("fetch")
        log = self._log(part)
        if not log.log_start <= offset <= log.end:
            raise OffsetOutOfRange(part, offset, log.log_start, log.end)
        found = bytearray()
        for batch in log.batches:
            if read_header(batch).last >= offset and (not found or len(found) + len(batch) <= max_bytes):
                found += batch
        return Fetched(log.end, log.log_start, memoryview(bytes(found)))

    def stream(
        self, part: TopicPartition, start: int, end: int, *, max_bytes: int, prefetch: int = 2
    ) -> Iterator[memoryview]:
        while start < end:
            data = self.fetch(part, start, max_bytes=max_bytes).data
            if not data:
                raise AssertionError(f"{part} holds no {start}")
            start = read_header(self._last(part, data)).last + 1
            yield data

    def _last(self, part: TopicPartition, data: memoryview) -> bytes:
        return next(batch for batch in reversed(self.logs[part].batches) if data[-len(batch) :] == batch)

    def produce(self, part: TopicPartition, batch: bytes | bytearray | memoryview, *, acks: int = -1) -> Produced:
        self._call("produce")
        return Produced(self._log(part).append(batch, self.now_ms), self.now_ms)

    def new_producer(self) -> ProducerId:
        self._call("new_producer")
        self._producers += 1
        return ProducerId(self._producers, 0)

    def stage(self, part: TopicPartition, batch: bytes | bytearray | memoryview) -> int:
        self._call("stage")
        header = validate(batch)
        log = self._log(part)
        log.staged.setdefault(header.producer_id, []).append(bytes(batch))
        log.end += 1
        return log.end - 1

    def commit_staged(self, application_id: str, batch_id: int, stages: Sequence[Stage], *, timeout_ms: int) -> Committed:
        self._call("commit_staged")
        if batch_id <= self.commits.get(application_id, -1):
            self.drop_staged(stages)
            return Committed("already", True)
        for stage in stages:
            for part in stage.parts:
                self._check(stage, part)
        self.commits[application_id] = batch_id
        for stage in stages:
            for part in stage.parts:
                log = self.logs[TopicPartition(part.topic, part.partition)]
                for batch in log.staged.pop(stage.producer_id):
                    log.append(batch, self.now_ms)
        return Committed("committed", True)

    def _check(self, stage: Stage, part: StagePart) -> None:
        batches = self.logs[TopicPartition(part.topic, part.partition)].staged.get(stage.producer_id, [])
        records = sum(read_header(batch).records for batch in batches)
        if (len(batches), records) != (part.batches, part.records):
            raise AssertionError(f"{stage} is not whole: {len(batches)} batches, {records} records")

    def drop_staged(self, stages: Sequence[Stage]) -> None:
        self._call("drop_staged")
        for stage in stages:
            for part in stage.parts:
                self.logs[TopicPartition(part.topic, part.partition)].staged.pop(stage.producer_id, None)

    def commit_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        self._call("commit_group_offsets")
        self.groups.setdefault(group, {}).update(offsets)
