"""A real cluster under test, with a producer and a reader beside it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from quorate.chaos.admin import ask
from quorate.chaos.cluster import ClusterOptions, ClusterUnderTest

TOPIC = "t"
PATIENCE_S = 60.0


class Stand:
    """Blocking calls of the client run in threads, so that the cluster's own coroutines go on."""

    def __init__(self, cluster: ClusterUnderTest, *, idempotent: bool = True) -> None:
        self.cluster = cluster
        self.acked: list[str] = []
        common: dict[str, str | int | float | bool] = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
        self.admin = AdminClient(common)
        # A node that is paused keeps its connections: without a short timeout a client waits a minute for it.
        brisk = {"socket.timeout.ms": 3_000, "request.timeout.ms": 3_000, "delivery.timeout.ms": int(PATIENCE_S * 1000)}
        # A topic that is gone stays gone: only a bug that was planted loses one.
        brisk["topic.metadata.propagation.max.ms"] = 5_000
        self._producer = Producer(common | brisk | {"acks": "all", "enable.idempotence": idempotent, "linger.ms": 0})

    async def create(self) -> None:
        made = self.admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC]
        await asyncio.to_thread(made.result, PATIENCE_S)

    async def leader(self) -> int:
        """The node that leads the topic, as the cluster says."""
        said = await asyncio.to_thread(self.admin.list_topics, TOPIC, 20)
        return int(said.topics[TOPIC].partitions[0].leader)

    async def produce(self, count: int = 1) -> float:
        """Produce, each acknowledged before the next; how long the slowest took."""
        return await asyncio.to_thread(self._produce, count)

    def _produce(self, count: int) -> float:
        slowest = 0.0
        for _ in range(count):
            value, begun = f"v{len(self.acked)}", time.monotonic()
            errors: list[KafkaError | None] = []

            def delivered(error: KafkaError | None, message: Message, errors: list[KafkaError | None] = errors) -> None:
                errors.append(error)

            self._producer.produce(TOPIC, value, on_delivery=delivered)
            self._producer.flush(2 * PATIENCE_S)
            # Not compared with ==, which breaks on a KafkaError.
            if not errors or errors[0] is not None:
                raise RuntimeError(f"{value} was not acknowledged: {errors[0] if errors else 'no answer'}")
            self.acked.append(value)
            slowest = max(slowest, time.monotonic() - begun)
        return slowest

    async def read(self) -> list[tuple[str, int]]:
        """Everything in the topic up to its end: values and log times."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> list[tuple[str, int]]:
        consumer = Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": "reader", "log_level": 0})
        try:
            place = TopicPartition(TOPIC, 0, 0)
            found, deadline = list[tuple[str, int]](), time.monotonic() + PATIENCE_S
            end = self._end(consumer, place, deadline)
            consumer.assign([place])
            while consumer.position([place])[0].offset < end:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{len(found)} messages read, and {end} is the end")
                message = consumer.poll(0.2)
                if message is not None and message.error() is None:
                    found.append(((message.value() or b"").decode(), message.timestamp()[1]))
            return found
        finally:
            consumer.close()

    def _end(self, consumer: Consumer, place: TopicPartition, deadline: float) -> int:
        """The topic's end. Leaders may be moving to where there are fewer: this client does not ask again by itself."""
        while True:
            try:
                return int(consumer.get_watermark_offsets(place, timeout=10)[1])
            except KafkaException:
                if time.monotonic() > deadline:
                    raise

    async def states(self, asked: int) -> dict[int, str]:
        """How a node sees the others."""
        said = await ask(self.cluster.http(asked), "GET", "/v1/nodes")
        return {one["id"]: one["state"] for one in said["nodes"]}

    async def until_held(self, node: int) -> None:
        """Wait until a node holds a replica, as the cluster says."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                said: Any = await self.cluster.ask_any("GET", "/v1/nodes", but=node)
                if any(one["id"] == node and one["replicas"] for one in said["nodes"]):
                    return
                await asyncio.sleep(0.1)

    async def until_seen(self, asked: int, state: str, nodes: list[int]) -> None:
        """Wait until a node sees others in a state."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                seen = await self.states(asked)
                if all(seen[node] == state for node in nodes):
                    return
                await asyncio.sleep(0.05)


@asynccontextmanager
async def stand(folder: Path, sabotage: str | None = None, *, idempotent: bool = True) -> AsyncIterator[Stand]:
    """A cluster of three, and one topic. Nothing of it is left afterwards."""
    cluster = ClusterUnderTest(folder, ClusterOptions(sabotage=sabotage))
    try:
        await cluster.start()
        made = Stand(cluster, idempotent=idempotent)
        await made.create()
        yield made
    finally:
        await cluster.stop()
