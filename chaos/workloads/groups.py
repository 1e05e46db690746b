"""`groups`: members of two groups that join, read, commit, leave and resume, while messages flow."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from quorate.chaos.clients.crew import run_crew
from quorate.chaos.clients.ending import PATIENCE_S, Finisher
from quorate.chaos.clients.members import Committer, Member
from quorate.chaos.clients.producing import LibrdkafkaProducer
from quorate.chaos.history import Action, Place
from quorate.chaos.workloads.api import Stage, create_topic
from quorate.chaos.workloads.log import LOG_CHECKERS

PARTITIONS = 3
_MEMBERS = 2
_STRATEGIES = {"eager": "range", "cooperative": "cooperative-sticky"}
_LONE = tuple(f"alone-{number}" for number in range(1, 5))
"""Groups have different coordinators: with several of them, whoever is hit coordinates one."""


class GroupsWorkload:
    """One group rebalances eagerly, one cooperatively; some have no members and only commit."""

    checkers = (*LOG_CHECKERS, "commit-back", "group-skipped")

    def __init__(self) -> None:
        self._places: list[Place] = []

    def topics(self) -> Sequence[str]:
        return sorted({place.topic for place in self._places})

    async def prepare(self, stage: Stage) -> None:
        self._places = await create_topic(stage, f"{stage.prefix}-groups", PARTITIONS)

    async def run(self, stage: Stage, stop: asyncio.Event) -> None:
        recorder, bootstrap = stage.recorder, stage.system.bootstrap
        threads: list[LibrdkafkaProducer | Member] = [
            LibrdkafkaProducer(
                recorder,
                "idempotent",
                bootstrap,
                lambda: self._places,
                rate=stage.rate,
                idempotent=True,
                random=stage.random("idempotent"),
            )
        ]
        for kind, strategy in _STRATEGIES.items():
            for number in range(1, _MEMBERS + 1):
                name, group = f"{kind}-{number}", f"{stage.prefix}-{kind}"
                random = stage.random(name)
                topic = self._places[0].topic
                threads.append(Member(recorder, name, bootstrap, group, topic, strategy=strategy, random=random))
        await run_crew(stop, threads, [self._committer(stage, kind) for kind in _LONE])

    async def finish(self, stage: Stage) -> None:
        finisher = Finisher(stage.system, stage.recorder)
        try:
            await finisher.read_all(self._places)
            for group in (*_STRATEGIES, *_LONE):
                await self._ask(stage, group)
        finally:
            finisher.close()

    async def _ask(self, stage: Stage, kind: str) -> None:
        """Ask until there is an answer: a coordinator may have moved a moment ago."""
        committer = self._committer(stage, kind)
        try:
            async with asyncio.timeout(PATIENCE_S):
                answered = 0
                while answered < len(self._places):
                    before = len(stage.recorder.snapshot().operations)
                    await committer.ask_all()
                    asked = stage.recorder.snapshot().operations[before:]
                    answered = sum(one.action is Action.COMMITTED and one.outcome == "ok" for one in asked)
        finally:
            committer.close()

    def _committer(self, stage: Stage, kind: str) -> Committer:
        addresses = [one.kafka for one in stage.system.nodes.values()]
        return Committer(stage.recorder, kind, addresses, f"{stage.prefix}-{kind}", self._places)
