"""`log`: producers of unique values, idempotent, plain and bound to one node, and readers by offset from every node."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from quorate.chaos.clients.crew import Work, run_crew
from quorate.chaos.clients.ending import Finisher
from quorate.chaos.clients.producing import LibrdkafkaProducer, NodeProducer
from quorate.chaos.clients.reading import LibrdkafkaReader, NodeReader
from quorate.chaos.history import Place
from quorate.chaos.workloads.api import Stage, create_topic

PARTITIONS = 4
_AGAIN_S = 2.0
LOG_CHECKERS = (
    "lost",
    "duplicate",
    "two-values",
    "reader",
    "uncommitted",
    "time-back",
    "order",
    "replicas",
    "false-fail",
    "stale",
)
"""What holds for every log, whoever writes and reads it."""


class LogWorkload:
    """Half of the rate is librdkafka's, the other half goes to each node directly."""

    checkers = LOG_CHECKERS

    def __init__(self) -> None:
        self._places: Sequence[Place] = ()

    def topics(self) -> Sequence[str]:
        return sorted({place.topic for place in self._places})

    async def prepare(self, stage: Stage) -> None:
        self._places = await create_topic(stage, f"{stage.prefix}-log", PARTITIONS)

    async def run(self, stage: Stage, stop: asyncio.Event) -> None:
        recorder, bootstrap, nodes = stage.recorder, stage.system.bootstrap, stage.system.nodes

        def producer(name: str, *, idempotent: bool) -> LibrdkafkaProducer:
            random = stage.random(name)
            return LibrdkafkaProducer(
                recorder, name, bootstrap, self._now, rate=stage.rate / 4, idempotent=idempotent, random=random
            )

        threads: list[Work] = [
            producer("idempotent", idempotent=True),
            producer("plain", idempotent=False),
            LibrdkafkaReader(recorder, "reader", bootstrap, self._now, random=stage.random("reader")),
            LibrdkafkaReader(recorder, "rereader", bootstrap, self._now, random=stage.random("again"), again_s=_AGAIN_S),
        ]
        rate = stage.rate / 2 / max(1, len(nodes))
        writers = [
            NodeProducer(recorder, f"to-node-{node}", one.kafka, self._now, rate=rate, random=stage.random(f"to-{node}"))
            for node, one in nodes.items()
        ]
        readers = [NodeReader(recorder, f"from-node-{node}", node, one.kafka, self._now) for node, one in nodes.items()]
        await run_crew(stop, threads, [*writers, *readers])

    async def finish(self, stage: Stage) -> None:
        finisher = Finisher(stage.system, stage.recorder)
        try:
            await finisher.read_all(self._places)
        finally:
            finisher.close()

    def _now(self) -> Sequence[Place]:
        return self._places
