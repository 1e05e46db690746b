"""A peer as the benchmark uses it: topics with three replicas, who leads one, and which client loads it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from bench.peers.apache_kafka import ApacheKafka
from bench.peers.api import NotHere, Peer
from bench.peers.nats import Nats
from bench.peers.processes import await_condition
from bench.peers.quorate_up import QuorateUp

SYSTEMS = ("quorate", "kafka", "kafka-fsync", "nats")
"""In the order of the tables."""
TITLES = {
    "quorate": "Quorate",
    "kafka": "Kafka as shipped",
    "kafka-fsync": "Kafka, flush.messages=1",
    "nats": "NATS JetStream, sync always",
}

_REPLICAS = 3
_SETTLE_S = 60.0

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Load:
    """How a throughput reading is made: a name for the table, and what the client is told."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    window: int = 0


DEFAULTS = Load(name="defaults")
BATCHED = Load(name="20 ms, 1 MB", settings={"linger.ms": 20, "batch.size": 1_000_000})
WINDOW = Load(name="4,000 in flight", window=4_000)


class System(Protocol):
    """What the measurements ask."""

    peer: Peer
    client: str
    loads: tuple[Load, ...]

    def create(self, topic: str, partitions: int = 1) -> None:
        """A topic with three replicas; returns when it can be used."""

    def leader(self, topic: str) -> int:
        """The node that leads its first partition. 0: nobody does just now."""

    def await_whole(self, topic: str) -> None:
        """Until every node has caught up with the first partition."""


class KafkaSystem:
    """Quorate or Kafka: both are asked by the same client library."""

    def __init__(self, peer: Peer) -> None:
        self.peer: Peer = peer
        self.client = "bench.kafka.client"
        self.loads: tuple[Load, ...] = (DEFAULTS, BATCHED)

    def create(self, topic: str, partitions: int = 1) -> None:
        from confluent_kafka.cimpl import NewTopic

        # Kept until the result is there: it would take the request with it.
        admin = self._admin()
        made = admin.create_topics(
            [NewTopic(topic, num_partitions=partitions, replication_factor=_REPLICAS)], operation_timeout=_SETTLE_S
        )
        made[topic].result(_SETTLE_S)
        await_condition(lambda: self._led(topic) == partitions, f"each partition of {topic} has a leader", _SETTLE_S)

    def leader(self, topic: str) -> int:
        first = self._partitions(topic).get(0)
        return max(int(first.leader), 0) if first is not None else 0

    def await_whole(self, topic: str) -> None:
        await_condition(lambda: self._whole(topic), f"{topic} is whole", _SETTLE_S, pause_s=0.1)

    def _whole(self, topic: str) -> bool:
        first = self._partitions(topic).get(0)
        return first is not None and first.leader > 0 and len(first.isrs) == _REPLICAS

    def _led(self, topic: str) -> int:
        return sum(partition.leader >= 0 for partition in self._partitions(topic).values())

    def _partitions(self, topic: str) -> dict[int, Any]:
        from confluent_kafka import KafkaException

        try:
            return dict(self._admin().list_topics(topic, timeout=10).topics[topic].partitions)
        except KafkaException:
            # A node that was asked is not there just now; the caller asks again.
            return {}

    def _admin(self) -> Any:
        """A new one each time: an old one would go on trying to reach nodes that we killed, and say so."""
        from confluent_kafka.admin import AdminClient

        silent = logging.Logger("silent")
        silent.addHandler(logging.NullHandler())
        return AdminClient({"bootstrap.servers": self.peer.bootstrap}, logger=silent)


class QuorateSystem(KafkaSystem):
    """Its metadata counts a replica as in sync while its node still starts: the nodes themselves are asked too."""

    def __init__(self, peer: QuorateUp) -> None:
        super().__init__(peer)
        self._nodes = peer

    def _whole(self, topic: str) -> bool:
        return self._nodes.all_ready() and super()._whole(topic)


class NatsSystem:
    """A topic is a stream of one subject; streams are not partitioned."""

    def __init__(self, peer: Peer) -> None:
        self.peer: Peer = peer
        self.client = "bench.kafka.nats_client"
        self.loads: tuple[Load, ...] = (WINDOW,)

    def create(self, topic: str, partitions: int = 1) -> None:
        from nats.errors import Error
        from nats.js.api import StorageType

        async def once(stream: Any) -> None:
            await stream.add_stream(name=topic, subjects=[topic], num_replicas=_REPLICAS, storage=StorageType.FILE)

        def made() -> bool:
            try:
                self._ask(once)
            except Error:
                # The cluster elects its own leader after its ports are open.
                return False
            return True

        await_condition(made, f"{topic} is made", _SETTLE_S, pause_s=0.2)
        self.await_whole(topic)

    def leader(self, topic: str) -> int:
        leader, _ = self._cluster(topic)
        return int(leader.removeprefix("n")) if leader else 0

    def await_whole(self, topic: str) -> None:
        def whole() -> bool:
            leader, current = self._cluster(topic)
            return bool(leader) and current == _REPLICAS - 1

        await_condition(whole, f"{topic} is whole", _SETTLE_S, pause_s=0.1)

    def _cluster(self, topic: str) -> tuple[str, int]:
        """The leader's name and how many replicas have caught up with it."""
        from nats.errors import Error

        async def once(stream: Any) -> tuple[str, int]:
            cluster = (await stream.stream_info(topic)).cluster
            current = sum(bool(replica.current) and not replica.offline for replica in cluster.replicas or ())
            return cluster.leader or "", current

        try:
            return self._ask(once)
        except Error:
            return "", 0

    def _ask(self, question: Callable[[Any], Awaitable[T]]) -> T:
        import nats

        async def ask() -> T:
            servers = [f"nats://{address}" for address in self.peer.bootstrap.split(",")]
            connection = await nats.connect(servers, error_cb=_quiet)
            try:
                return await question(connection.jetstream(timeout=2))
            finally:
                await connection.close()

        return asyncio.run(ask())


async def _quiet(_: Exception) -> None:
    """A server that was killed is no news here."""


def make(name: str, folder: Path) -> System:
    """One of SYSTEMS, not yet started. Raises NotHere."""
    if name == "nats":
        try:
            import nats  # noqa: F401 - only whether it is there
        except ImportError as missing:
            raise NotHere("there is no nats-py here (pip install nats-py, or make bench)") from missing
        return NatsSystem(Nats(folder))
    if name == "quorate":
        return QuorateSystem(QuorateUp(folder))
    return KafkaSystem(ApacheKafka(folder, fsync=name == "kafka-fsync"))
