"""The seam of workloads: what one is given, and what it must do. docs/chaos.md shows how to add one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from quorate.chaos.api import System
from quorate.chaos.clients.raw import NodeClient, Refused, Unanswered, Unreached
from quorate.chaos.history import Place, Recorder

_CREATE_S = 60.0
_LOOK_S = 0.1


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What a workload is given: a system that runs, and a history to write."""

    system: System
    recorder: Recorder
    seed: int
    rate: float
    """Messages per second, of all producers together."""
    prefix: str
    """Every name that a workload makes begins with this: nothing of the user's is touched on a running cluster."""

    def random(self, name: str) -> Random:
        """A source of randomness for one process, the same in each run with this seed."""
        return Random(f"{self.seed}/{name}")

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.system.bootstrap, "log_level": 0})


class Workload(Protocol):
    """Clients that use a system and record what they do. One instance serves one run."""

    @property
    def checkers(self) -> Sequence[str]:
        """The names of the checkers that judge it."""

    def topics(self) -> Sequence[str]:
        """The topics that it uses now: who leads them is watched, and in the end their replicas are compared."""

    async def prepare(self, stage: Stage) -> None:
        """Make what is needed, before anything is broken."""

    async def run(self, stage: Stage, stop: asyncio.Event) -> None:
        """Work until `stop` is set, while things break; return when nothing is under way any more."""

    async def finish(self, stage: Stage) -> None:
        """After healing: record what is there in the end."""


async def create_topic(stage: Stage, name: str, partitions: int) -> list[Place]:
    """A topic with as many replicas as there are nodes, three at most, led everywhere. Raises TimeoutError."""
    replicas = min(3, len(stage.system.nodes))
    admin = stage.admin()  # in a variable of its own: without a reference it would end at once
    future = admin.create_topics([NewTopic(name, partitions, replicas)], request_timeout=_CREATE_S)[name]
    try:
        await asyncio.to_thread(future.result, _CREATE_S)
    except KafkaException as error:
        raise TimeoutError(f"topic {name} could not be created: {error}") from error
    places = [Place(name, number) for number in range(partitions)]
    await until_led(stage.system, places)
    return places


async def until_led(system: System, places: Sequence[Place], patience_s: float = _CREATE_S) -> None:
    """Wait until every node knows a leader for each of these partitions. Raises TimeoutError."""
    deadline = time.monotonic() + patience_s
    for node in system.nodes.values():
        client = NodeClient(node.kafka)
        try:
            while not await _led(client, places):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"not all of {', '.join(map(str, places))} had leaders after {patience_s:.0f} s")
                await asyncio.sleep(_LOOK_S)
        finally:
            client.close()


async def _led(client: NodeClient, places: Sequence[Place]) -> bool:
    try:
        topics = (await client.metadata(sorted({place.topic for place in places}))).topics
    except (Refused, Unreached, Unanswered):
        return False
    leaders = [topics.get(place.topic, {}).get(place.partition) for place in places]
    return all(leader is not None and leader.node >= 0 for leader in leaders)
