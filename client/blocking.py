"""`Client`: the blocking twin of `AsyncClient`, for any number of threads. It runs one on an event loop in its own thread.

Methods do what those of the same name there do. After a fork a child makes a client of its own: the parent's is of no use to
it, and is left alone, because its connections are the parent's.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Collection, Coroutine, Generator, Mapping, Sequence
from typing import Any, Self, TypeVar

from quorate.client.aio import AsyncClient
from quorate.client.errors import ClientClosed
from quorate.client.loop_thread import LoopThread
from quorate.client.settings import ClientSettings
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


class Client:
    """A client of one cluster. Every method may raise QuorateError."""

    def __init__(self, settings: ClientSettings | str | Sequence[str]) -> None:
        """Settings, or just the bootstrap addresses. Nothing is connected before it is needed."""
        self._client = AsyncClient(settings)
        self.settings = self._client.settings
        self._thread = LoopThread(self.settings.client_id)
        # Also when nobody closes it: at the latest when the interpreter ends.
        self._end = weakref.finalize(self, _end, self._thread, self._client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all connections and the thread. What is under way fails with ClientClosed. May be called twice."""
        self._end()

    def _call(self, operation: Coroutine[Any, Any, T]) -> T:
        if not self._thread.mine:
            operation.close()
            raise ClientClosed("this client was made before a fork, in the parent: make another one here")
        if not self._end.alive:
            operation.close()
            raise ClientClosed
        return self._thread.call(operation)

    # Looking around.

    def topics(self, names: Collection[str] | None = None) -> dict[str, TopicInfo]:
        """All topics unless some are named, as one node knows them now. One that does not exist comes with its error."""
        return self._call(self._client.topics(names))

    def offsets(self, wishes: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        """For each partition the first offset at or after a time in ms, or what EARLIEST, LATEST, MAX_TIMESTAMP mean."""
        return self._call(self._client.offsets(wishes))

    def closed_time(
        self, parts: Collection[TopicPartition], *, at_least: int = -1, max_wait_ms: int = 0
    ) -> dict[TopicPartition, Closed]:
        """How far each partition's time is closed; waits until it is so up to `at_least`, or `max_wait_ms` is over."""
        return self._call(self._client.closed_time(parts, at_least=at_least, max_wait_ms=max_wait_ms))

    # Reading.

    def fetch(
        self,
        part: TopicPartition,
        offset: int,
        *,
        max_bytes: int,
        min_bytes: int = 1,
        max_wait_ms: int = 0,
        epoch: int = -1,
    ) -> Fetched:
        """Whole batches from the one that holds `offset` on; at least one if there is any, however large."""
        return self._call(
            self._client.fetch(part, offset, max_bytes=max_bytes, min_bytes=min_bytes, max_wait_ms=max_wait_ms, epoch=epoch)
        )

    def stream(
        self, part: TopicPartition, start: int, end: int, *, max_bytes: int, prefetch: int = 2
    ) -> Generator[memoryview, None, None]:
        """All batches that cover the offsets from `start` to before `end`, each once and in order, several at a time.

        The next fetches are under way while the caller works. It may be left early: that ends them.
        """
        stream = self._client.stream(part, start, end, max_bytes=max_bytes, prefetch=prefetch)
        try:
            while (data := self._call(_next(stream))) is not None:
                yield data
        finally:
            if self._thread.mine and self._end.alive:
                self._call(_close(stream))

    # Writing.

    def produce(self, part: TopicPartition, batch: Buffer, *, acks: int = -1) -> Produced:
        """Append one batch (RecordBatch v2). Repeated only if its producer is idempotent or it certainly does not stand."""
        return self._call(self._client.produce(part, batch, acks=acks))

    def new_producer(self) -> ProducerId:
        """An id for an idempotent producer, which nobody has had."""
        return self._call(self._client.new_producer())

    def stage(self, part: TopicPartition, batch: Buffer) -> int:
        """Keep a batch of an idempotent producer for a later commit; the offset of what keeps it."""
        return self._call(self._client.stage(part, batch))

    def commit_staged(self, application_id: str, batch_id: int, stages: Sequence[Stage], *, timeout_ms: int) -> Committed:
        """Commit stages together, unless this batch of this application was committed before."""
        return self._call(self._client.commit_staged(application_id, batch_id, stages, timeout_ms=timeout_ms))

    def drop_staged(self, stages: Sequence[Stage]) -> None:
        """Forget stages that are not committed."""
        self._call(self._client.drop_staged(stages))

    # Topics and groups.

    def create_topic(
        self, name: str, partitions: int = -1, replication: int = -1, settings: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic; -1: as many as the cluster thinks fit. After an error that is not definite, look."""
        self._call(self._client.create_topic(name, partitions, replication, settings))

    def delete_topic(self, name: str) -> None:
        """Delete a topic and all that is in it. After an error that is not definite, look."""
        self._call(self._client.delete_topic(name))

    def coordinator(self, group: str) -> Address:
        """The node that coordinates a group."""
        return self._call(self._client.coordinator(group))

    def commit_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of a group that has no members."""
        self._call(self._client.commit_group_offsets(group, offsets))

    def group_offsets(self, group: str, parts: Collection[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """A group's committed offsets, all of them unless partitions are named; -1 for one that has none."""
        return self._call(self._client.group_offsets(group, parts))


def _end(thread: LoopThread, client: AsyncClient) -> None:
    if thread.mine:
        thread.stop(client.close())


async def _next(stream: AsyncGenerator[memoryview, None]) -> memoryview | None:
    return await anext(stream, None)


async def _close(stream: AsyncGenerator[memoryview, None]) -> None:
    await stream.aclose()
