"""`AsyncClient`: all operations under one roof, on the event loop that first uses it. The blocking twin is in `blocking`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Coroutine, Mapping, Sequence
from typing import Any, Self, TypeVar

from quorate.client import groups, producing, reading, staging, topics
from quorate.client.core import Core
from quorate.client.errors import BadInput, ClientClosed
from quorate.client.metadata import Metadata
from quorate.client.pool import Pool
from quorate.client.settings import ClientSettings
from quorate.client.streaming import Stream
from quorate.client.values import (
    Address,
    Buffer,
    Closed,
    Committed,
    Fetched,
    FoundOffset,
    Produced,
    ProducerId,
    Stage,
    TopicInfo,
    TopicPartition,
)

T = TypeVar("T")


class AsyncClient:
    """A client of one cluster. Every method may raise QuorateError; those that are safe to repeat are repeated first."""

    def __init__(self, settings: ClientSettings | str | Sequence[str]) -> None:
        """Settings, or just the bootstrap addresses. Nothing is connected before it is needed."""
        self.settings = settings if isinstance(settings, ClientSettings) else ClientSettings(bootstrap=settings)
        self._core: Core | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections. What is under way fails with ClientClosed. May be called twice."""
        self._closed = True
        core, self._core = self._core, None
        if core is None:
            return
        core.metadata.close()
        core.pool.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _parts(self) -> Core:
        if self._closed:
            raise ClientClosed
        loop = asyncio.get_running_loop()
        if self._core is None:
            pool = Pool(self.settings, loop)
            self._core = Core(self.settings, pool, Metadata(self.settings, pool, loop), loop)
        elif self._core.loop is not loop:
            raise BadInput("an AsyncClient belongs to the event loop that used it first")
        return self._core

    async def _run(self, operation: Coroutine[Any, Any, T]) -> T:
        """Run an operation so that `close` can end it."""
        task = asyncio.create_task(operation)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if self._closed and (current is None or not current.cancelling()):
                raise ClientClosed from None
            raise

    # Looking around.

    async def topics(self, names: Collection[str] | None = None) -> dict[str, TopicInfo]:
        """All topics unless some are named, as one node knows them now. One that does not exist comes with its error."""
        return await self._run(topics.topics(self._parts(), names))

    async def offsets(self, wishes: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        """For each partition the first offset at or after a time in ms, or what EARLIEST, LATEST, MAX_TIMESTAMP mean."""
        return await self._run(reading.offsets(self._parts(), wishes))

    async def closed_time(
        self, parts: Collection[TopicPartition], *, at_least: int = -1, max_wait_ms: int = 0
    ) -> dict[TopicPartition, Closed]:
        """How far each partition's time is closed; waits until it is so up to `at_least`, or `max_wait_ms` is over."""
        return await self._run(staging.closed_time(self._parts(), parts, at_least=at_least, max_wait_ms=max_wait_ms))

    # Reading.

    async def fetch(
        self,
        part: TopicPartition,
        offset: int,
        *,
        max_bytes: int,
        min_bytes: int = 1,
        max_wait_ms: int = 0,
        epoch: int = -1,
    ) -> Fetched:
        """Whole batches from the one that holds `offset` on; at least one if there is any, however large.

        Waits up to `max_wait_ms` until there are `min_bytes`. With an `epoch` only that leader's word counts.
        """
        core = self._parts()
        return await self._run(
            reading.fetch(core, part, offset, max_bytes=max_bytes, min_bytes=min_bytes, max_wait_ms=max_wait_ms, epoch=epoch)
        )

    async def stream(
        self, part: TopicPartition, start: int, end: int, *, max_bytes: int, prefetch: int = 2
    ) -> AsyncGenerator[memoryview, None]:
        """All batches that cover the offsets from `start` to before `end`, each once and in order, several at a time.

        The first may begin before `start`, the last end after `end`. Up to `prefetch` answers of `max_bytes` wait for the
        caller. Offsets that are not there yet are waited for. Leave it early only within `contextlib.aclosing`.
        """
        stream = Stream(self._parts(), part, start, end, max_bytes, prefetch)
        try:
            while True:
                try:
                    self._parts()
                    data = await self._run(stream.__anext__())
                except StopAsyncIteration:
                    return
                yield data
        finally:
            await stream.aclose()

    # Writing.

    async def produce(self, part: TopicPartition, batch: Buffer, *, acks: int = -1) -> Produced:
        """Append one batch (RecordBatch v2), which must not be changed meanwhile.

        Repeated only if its producer is idempotent or it certainly does not stand; else `definite` is false. An idempotent
        producer waits for each batch before the next one: a new leader takes none whose predecessor it does not have.
        """
        return await self._run(producing.produce(self._parts(), part, batch, acks=acks))

    async def new_producer(self) -> ProducerId:
        """An id for an idempotent producer, which nobody has had."""
        return await self._run(producing.new_producer(self._parts()))

    async def stage(self, part: TopicPartition, batch: Buffer) -> int:
        """Keep a batch of an idempotent producer for a later commit; the offset of what keeps it."""
        return await self._run(staging.stage(self._parts(), part, batch))

    async def commit_staged(
        self, application_id: str, batch_id: int, stages: Sequence[Stage], *, timeout_ms: int
    ) -> Committed:
        """Commit stages together, unless this batch of this application was committed before."""
        core = self._parts()
        return await self._run(staging.commit_staged(core, application_id, batch_id, stages, timeout_ms=timeout_ms))

    async def drop_staged(self, stages: Sequence[Stage]) -> None:
        """Forget stages that are not committed."""
        await self._run(staging.drop_staged(self._parts(), stages))

    # Topics and groups.

    async def create_topic(
        self, name: str, partitions: int = -1, replication: int = -1, settings: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic; -1: as many as the cluster thinks fit. After an error that is not definite, look."""
        await self._run(topics.create_topic(self._parts(), name, partitions, replication, settings))

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and all that is in it. After an error that is not definite, look."""
        await self._run(topics.delete_topic(self._parts(), name))

    async def coordinator(self, group: str) -> Address:
        """The node that coordinates a group."""
        return await self._run(groups.coordinator(self._parts(), group))

    async def commit_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of a group that has no members."""
        await self._run(groups.commit_group_offsets(self._parts(), group, offsets))

    async def group_offsets(self, group: str, parts: Collection[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """A group's committed offsets, all of them unless partitions are named; -1 for one that has none."""
        return await self._run(groups.group_offsets(self._parts(), group, parts))
