"""Fetch: the hot path out. What is there is answered at once, without a task and without a copy of the records.

Otherwise the request waits with its partitions, which wake it: nothing is polled. Reads that need the disk, and only those,
go on in a coroutine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from quorate.broker.kafka.backend import Buffer, Cancel, Fetched, KafkaFailure, Partition
from quorate.broker.kafka.context import Context
from quorate.broker.kafka.handlers.leaders import NOBODY, endpoints, leader_if_moved
from quorate.broker.kafka.handlers.reading import partition_to_read
from quorate.broker.kafka.request import Request
from quorate.broker.protocol.kafka.errors import Error
from quorate.broker.protocol.kafka.fetch import FetchedPartition, FetchRequest, decode_fetch, encode_fetch_response


def fetch(context: Context, request: Request) -> None:
    """Answer now or when there is enough, or when the client's time is over."""
    message = decode_fetch(request.version, request.body)
    if message.session_id:
        # Session 0 was all that we ever offered, so this one is not ours.
        request.send(
            encode_fetch_response(request.version, request.correlation_id, [], error=int(Error.FETCH_SESSION_ID_NOT_FOUND))
        )
        return
    _Job(context, request, message).begin()


class _Part:
    """One partition of a request, and what was read of it so far."""

    __slots__ = (
        "cancel",
        "epoch",
        "error",
        "high_watermark",
        "index",
        "left",
        "log_start",
        "name",
        "next",
        "partition",
        "records",
    )

    def __init__(self, name: str | None, index: int, epoch: int, offset: int, max_bytes: int) -> None:
        self.name = name
        self.index = index
        self.epoch = epoch
        self.next = offset
        self.left = max_bytes
        self.error = 0
        self.high_watermark = self.log_start = -1
        self.records: list[Buffer] = []
        self.partition: Partition | None = None
        """None once there is nothing more to be read: it failed, or is not known."""
        self.cancel: Cancel | None = None

    def fail(self, error: int) -> None:
        self.error = int(error)
        self.partition = None
        self.records = []
        self.high_watermark = self.log_start = -1


class _Job:
    """One request. Invariant: it is answered once; nothing waits for it after that."""

    __slots__ = (
        "_answered",
        "_answers",
        "_context",
        "_failed",
        "_left",
        "_min_bytes",
        "_parts",
        "_planned",
        "_request",
        "_size",
        "_timer",
        "_topics",
        "_until",
        "_woken",
    )

    def __init__(self, context: Context, request: Request, message: FetchRequest) -> None:
        self._context = context
        self._answers = context.answers
        self._request = request
        settings = context.settings
        self._min_bytes = message.min_bytes
        self._left = min(max(0, message.max_bytes), settings.fetch_max_bytes)
        self._until = min(max(0, message.max_wait_ms), settings.fetch_max_wait_ms) / 1000
        self._size = 0
        self._failed = self._answered = self._planned = False
        self._timer: asyncio.TimerHandle | None = None
        self._woken: list[_Part] = []
        self._topics: list[tuple[str | bytes, list[_Part]]] = []
        self._parts: list[_Part] = []
        for topic, wishes in message.topics:
            self._add(topic, wishes)

    def _add(self, topic: str | bytes, wishes: list[tuple[int, int, int, int]]) -> None:
        backend = self._context.backend
        name: str | None = None
        if isinstance(topic, str):
            name = topic
        else:
            queue = backend.queue_by_id(topic)
            name = queue.name if queue is not None else None
        parts = [_Part(name, *wish) for wish in wishes]
        self._topics.append((topic, parts))
        self._parts += parts
        for part in parts:
            if name is None:
                self._fail(part, Error.UNKNOWN_TOPIC_ID)
                continue
            try:
                part.partition = partition_to_read(backend, name, part.index)
            except KafkaFailure as failure:
                self._fail(part, failure.error)

    def _fail(self, part: _Part, error: int) -> None:
        part.fail(error)
        self._failed = True

    def begin(self) -> None:
        """Read everything once."""
        self._read(self._parts, 0, self._decide)

    # Reading.

    def _read(self, parts: list[_Part], at: int, then: Callable[[], None]) -> None:
        """Read these partitions, from number `at` on, then go on. Leaves for a coroutine where the disk is needed."""
        while at < len(parts):
            part = parts[at]
            at += 1
            if part.partition is None:
                continue
            try:
                found = self._ask(part, part.partition)
            except KafkaFailure as failure:
                self._fail(part, failure.error)
                continue
            if not isinstance(found, Fetched):
                return self._context.spawn(self._read_later(parts, at, then, part, found))
            self._keep(part, found)
        return then()

    async def _read_later(
        self, parts: list[_Part], at: int, then: Callable[[], None], part: _Part, found: Awaitable[Fetched]
    ) -> None:
        try:
            self._keep(part, await found)
        except KafkaFailure as failure:
            self._fail(part, failure.error)
        self._read(parts, at, then)

    def _ask(self, part: _Part, partition: Partition) -> Fetched | Awaitable[Fetched]:
        """At least one batch, however large, comes from the first partition that has something."""
        most = min(part.left, self._left, self._answers.share)
        return partition.fetch(part.next, max(0, most), part.epoch, not self._size)

    def _keep(self, part: _Part, found: Fetched) -> None:
        if self._answered:
            return  # this read has taken too long
        self._request.bulk += found.size
        self._answers.take(found.size)
        part.records.extend(found.records)
        part.next, part.high_watermark, part.log_start = found.next_offset, found.high_watermark, found.log_start
        part.left -= found.size
        self._left -= found.size
        self._size += found.size

    # Waiting.

    def _decide(self) -> None:
        """Answer, or wait for more."""
        if self._answered:
            return
        if self._failed or self._size >= self._min_bytes or self._until <= 0 or self._left <= 0:
            return self._answer()
        # Where there is more than its limit lets through, nothing is to be waited for.
        open_parts = [part for part in self._parts if part.partition is not None and part.next >= part.high_watermark]
        if not open_parts:
            return self._answer()
        if self._timer is None:
            self._timer = self._context.loop.call_later(self._until, self._answer)
            self._request.hurry = self._answer
        for part in open_parts:
            if part.cancel is None and part.partition is not None:
                part.cancel = part.partition.wait(part.next, lambda part=part: self._wake(part))  # type: ignore[misc]
        return None

    def _wake(self, part: _Part) -> None:
        """A partition has more. Those that have more in the same turn are read together."""
        part.cancel = None
        self._woken.append(part)
        if not self._planned and not self._answered:
            self._planned = True
            self._context.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._planned = False
        if not self._answered:
            woken, self._woken = self._woken, []
            self._read(woken, 0, self._decide)

    # The end.

    def _answer(self) -> None:
        if self._answered:
            return
        self._answered = True
        if self._timer is not None:
            self._timer.cancel()
        moved: set[int] = set()
        topics = []
        for topic, parts in self._topics:
            topics.append((topic, [self._result(part, moved) for part in parts]))
        request = self._request
        request.hurry = None
        nodes = endpoints(self._context.backend, moved)
        request.send(encode_fetch_response(request.version, request.correlation_id, topics, endpoints=nodes))

    def _result(self, part: _Part, moved: set[int]) -> FetchedPartition:
        if part.cancel is not None:
            part.cancel()
            part.cancel = None
        leader, epoch = NOBODY
        if part.error and part.name is not None:
            leader, epoch = leader_if_moved(self._context.backend, part.name, part.index, part.error)
            if leader >= 0:
                moved.add(leader)
        hw = part.high_watermark
        return FetchedPartition(part.index, part.error, hw, hw, part.log_start, part.records, leader, epoch)
