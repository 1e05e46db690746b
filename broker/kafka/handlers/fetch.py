"""Fetch: the hot path out. Whole batches go from the log into the answer untouched; a long poll waits without a task.

What is in memory is answered at once. What has to come from the disk, or is not there yet, is waited for by callbacks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from quorate.broker.kafka.backend import Backend, Cancel, Fetched, KafkaFailure, Partition, QueueView
from quorate.broker.kafka.context import Context
from quorate.broker.kafka.request import Request
from quorate.broker.protocol.kafka.errors import Error
from quorate.broker.protocol.kafka.fetch import (
    FetchedPartition,
    FetchRequest,
    PartitionWish,
    decode_fetch,
    encode_fetch_response,
)

_SESSIONS_FROM = 7


def fetch(context: Context, request: Request) -> None:
    """Answer with what there is, as soon as there is enough of it or the client's patience is over."""
    message = decode_fetch(request.version, request.body)
    if request.version >= _SESSIONS_FROM and message.session_id:
        # We give no sessions out, so this one is not ours. The client goes on without.
        request.send(
            encode_fetch_response(request.version, request.correlation_id, (), error=Error.FETCH_SESSION_ID_NOT_FOUND)
        )
        return
    _Poll(context, request, message).look()


class _Wish:
    """One partition of a request, and what was found for it."""

    __slots__ = ("answer", "epoch", "index", "max_bytes", "name", "offset", "partition")

    def __init__(self, name: str | bytes, wish: PartitionWish) -> None:
        self.name = name
        self.index, self.epoch, self.offset, self.max_bytes = wish
        self.partition: Partition | None = None
        self.answer: FetchedPartition | None = None


class _Poll:
    """One Fetch. It looks, and if that is not enough it waits for more and looks again; it answers once."""

    __slots__ = ("_cancels", "_context", "_message", "_over", "_request", "_timer", "_wishes")

    def __init__(self, context: Context, request: Request, message: FetchRequest) -> None:
        self._context = context
        self._request = request
        self._message = message
        self._wishes = [_Wish(name, wish) for name, wishes in message.topics for wish in wishes]
        self._cancels: list[Cancel] = []
        self._timer: asyncio.TimerHandle | None = None
        self._over = False

    def look(self) -> None:
        """Read every partition. If all of it is in memory, this ends with an answer or a wait; else a task goes on."""
        slow = self._read_all(0, self._budget(), 0, failed=False)
        if slow is not None:
            self._context.spawn(self._go_on(*slow))

    def _budget(self) -> int:
        return max(0, min(self._message.max_bytes, self._context.settings.fetch_max_bytes))

    def _read_all(
        self, at: int, left: int, size: int, *, failed: bool
    ) -> tuple[int, int, int, bool, Awaitable[Fetched]] | None:
        """Read from the wish at `at` on; what to go on with when one has to be waited for, or None when all is read."""
        wishes = self._wishes
        while at < len(wishes):
            one = wishes[at]
            try:
                found = self._begin(one, left, at_least_one=not size)
            except KafkaFailure as failure:
                one.answer, failed = self._refused(one, failure), True
                at += 1
                continue
            if not isinstance(found, Fetched):
                return at, left, size, failed, found
            self._found(one, found)
            left, size, at = left - found.size, size + found.size, at + 1
        self._conclude(size, failed)
        return None

    async def _go_on(self, at: int, left: int, size: int, failed: bool, reading: Awaitable[Fetched]) -> None:
        while True:
            one = self._wishes[at]
            try:
                found = await reading
                self._found(one, found)
                left, size = left - found.size, size + found.size
            except KafkaFailure as failure:
                one.answer, failed = self._refused(one, failure), True
            slow = self._read_all(at + 1, left, size, failed=failed)
            if slow is None:
                return
            at, left, size, failed, reading = slow

    def _begin(self, one: _Wish, left: int, *, at_least_one: bool) -> Fetched | Awaitable[Fetched]:
        if one.partition is None:
            one.partition = _partition(self._context.backend, one.name, one.index)
        most = max(0, min(left, one.max_bytes))
        return one.partition.fetch(one.offset, most, one.epoch, at_least_one)

    def _found(self, one: _Wish, found: Fetched) -> None:
        end = found.high_watermark
        one.answer = FetchedPartition(one.index, 0, end, end, found.log_start, found.records)

    def _refused(self, one: _Wish, failure: KafkaFailure) -> FetchedPartition:
        leader = epoch = -1
        if failure.error in (Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH):
            queue = _queue(self._context.backend, one.name)
            if queue is not None and one.index < len(queue.partitions):
                view = queue.partitions[one.index]
                leader, epoch = view.leader, view.epoch
        return FetchedPartition(one.index, failure.error, -1, -1, -1, (), leader, epoch)

    def _conclude(self, size: int, failed: bool) -> None:
        """Everything was looked at: is that enough?"""
        if self._over:
            return
        message = self._message
        if failed or size >= message.min_bytes or message.max_wait_ms <= 0 or not self._wishes:
            self._answer()
            return
        loop = self._context.loop
        if self._timer is None:
            wait_ms = min(message.max_wait_ms, self._context.settings.fetch_max_wait_ms)
            self._timer = loop.call_later(wait_ms / 1000, self._answer)
            self._request.hurry = self._answer
        self._cancels = [one.partition.wait(_end(one), self._wake) for one in self._wishes if one.partition is not None]

    def _wake(self) -> None:
        if not self._over:
            self._cancel()
            self.look()

    def _cancel(self) -> None:
        cancels, self._cancels = self._cancels, []
        for cancel in cancels:
            cancel()

    def _answer(self) -> None:
        if self._over:
            return
        self._over = True
        self._cancel()
        if self._timer is not None:
            self._timer.cancel()
        request = self._request
        request.hurry = None
        topics: dict[str | bytes, list[FetchedPartition]] = {}
        for one in self._wishes:
            if one.answer is not None:
                topics.setdefault(one.name, []).append(one.answer)
        request.send(encode_fetch_response(request.version, request.correlation_id, list(topics.items())))


def _end(one: _Wish) -> int:
    """Where something new would be."""
    return max(one.offset, one.answer.high_watermark) if one.answer is not None else one.offset


def _partition(backend: Backend, name: str | bytes, index: int) -> Partition:
    if isinstance(name, bytes):
        queue = backend.queue_by_id(name)
        if queue is None:
            raise KafkaFailure(Error.UNKNOWN_TOPIC_ID, "there is no queue with that id")
        name = queue.name
    return backend.partition(name, index)


def _queue(backend: Backend, name: str | bytes) -> QueueView | None:
    return backend.queue_by_id(name) if isinstance(name, bytes) else backend.queue(name)
