"""`metadata`: topics are created, grown and deleted while others write to them and read them."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from random import Random

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from quorate.broker.protocol.kafka.errors import Error
from quorate.chaos.clients.crew import Work, run_crew
from quorate.chaos.clients.ending import PATIENCE_S, Finisher
from quorate.chaos.clients.producing import LibrdkafkaProducer, NodeProducer
from quorate.chaos.clients.raw import Refused, Unanswered, Unreached
from quorate.chaos.clients.reading import LibrdkafkaReader
from quorate.chaos.history import Action, Place, Recorder
from quorate.chaos.workloads.api import Stage, create_topic
from quorate.chaos.workloads.log import LOG_CHECKERS

_MOST_TOPICS = 6
_MOST_PARTITIONS = 5
_CHANGE_S = 10.0
_REST_S = 0.5
# librdkafka may have sent a request twice, so that even "it exists" is no proof of anything.
_REFUSED = frozenset(
    {
        Error.INVALID_TOPIC_EXCEPTION,
        Error.INVALID_PARTITIONS,
        Error.INVALID_REPLICATION_FACTOR,
        Error.INVALID_CONFIG,
        Error.POLICY_VIOLATION,
    }
)


class Changer:
    """One administrator. Knows which topics there are, as far as it was told; names are never used again."""

    def __init__(self, recorder: Recorder, admin: AdminClient, prefix: str, replicas: int, random: Random) -> None:
        self._recorder = recorder
        self._admin = admin
        self._prefix = prefix
        self._replicas = replicas
        self._random = random
        self._numbers = itertools.count()
        self.topics: dict[str, int] = {}
        """Known to be there, with their partitions. Others read this while it changes: replaced, never changed in place."""

    def __call__(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self._random.choice((self._create, self._create, self._grow, self._delete))()
            stop.wait(_REST_S)

    def places(self) -> list[Place]:
        """Every partition that is known to be there."""
        return [Place(topic, number) for topic, count in self.topics.items() for number in range(count)]

    def _create(self) -> None:
        if len(self.topics) >= _MOST_TOPICS:
            return
        topic, count = f"{self._prefix}-{next(self._numbers)}", self._random.randint(1, 2)
        wanted = [NewTopic(topic, count, self._replicas)]
        if self._do(Action.CREATE, topic, count, lambda: self._admin.create_topics(wanted, request_timeout=_CHANGE_S)):
            self.topics = {**self.topics, topic: count}

    def _grow(self) -> None:
        small = [topic for topic, count in self.topics.items() if count < _MOST_PARTITIONS]
        if small:
            topic = self._random.choice(small)
            count = self.topics[topic] + 1
            wanted = [NewPartitions(topic, count)]
            if self._do(Action.GROW, topic, count, lambda: self._admin.create_partitions(wanted, request_timeout=_CHANGE_S)):
                self.topics = {**self.topics, topic: count}

    def _delete(self) -> None:
        if len(self.topics) < 2:
            return
        topic = self._random.choice(list(self.topics))
        self.topics = {name: count for name, count in self.topics.items() if name != topic}
        self._do(Action.DELETE, topic, 0, lambda: self._admin.delete_topics([topic], request_timeout=_CHANGE_S))

    def _do(self, action: Action, topic: str, count: int, begin: Callable[[], Mapping[str, Future[None]]]) -> bool:
        number = self._recorder.invoke("changer", action, topic=topic, count=count)
        try:
            begin()[topic].result(2 * _CHANGE_S)
        except KafkaException as error:
            outcome = self._recorder.fail if error.args[0].code() in _REFUSED else self._recorder.info
            outcome(number, str(error))
            return False
        except TimeoutError:
            self._recorder.info(number, "no answer")
            return False
        self._recorder.ok(number)
        return True


class MetadataWorkload:
    """One topic stays, so that there is always somewhere to write."""

    checkers = (*LOG_CHECKERS, "metadata")

    def __init__(self) -> None:
        self._changer: Changer | None = None
        self._stays: list[Place] = []

    def topics(self) -> Sequence[str]:
        return sorted({place.topic for place in self._places()})

    async def prepare(self, stage: Stage) -> None:
        self._stays = await create_topic(stage, f"{stage.prefix}-stays", 1)
        replicas = min(3, len(stage.system.nodes))
        self._changer = Changer(stage.recorder, stage.admin(), f"{stage.prefix}-t", replicas, stage.random("changer"))

    async def run(self, stage: Stage, stop: asyncio.Event) -> None:
        assert self._changer is not None, "prepared first"
        recorder, bootstrap = stage.recorder, stage.system.bootstrap

        def producer(name: str, *, idempotent: bool) -> LibrdkafkaProducer:
            random = stage.random(name)
            return LibrdkafkaProducer(
                recorder, name, bootstrap, self._places, rate=stage.rate / 3, idempotent=idempotent, random=random
            )

        threads: list[Work] = [
            self._changer,
            producer("idempotent", idempotent=True),
            producer("plain", idempotent=False),
            LibrdkafkaReader(recorder, "reader", bootstrap, self._places, random=stage.random("reader")),
        ]
        rate = stage.rate / 3 / max(1, len(stage.system.nodes))
        writers = [
            NodeProducer(recorder, f"to-node-{node}", one.kafka, self._places, rate=rate, random=stage.random(f"to-{node}"))
            for node, one in stage.system.nodes.items()
        ]
        await run_crew(stop, threads, writers)

    async def finish(self, stage: Stage) -> None:
        finisher = Finisher(stage.system, stage.recorder)
        try:
            there = await self._list(stage, finisher)
            places = [place for place in self._places() if place.partition < there.get(place.topic, 0)]
            await finisher.read_all(places)
        finally:
            finisher.close()

    async def _list(self, stage: Stage, finisher: Finisher) -> dict[str, int]:
        """Every node's list of topics, once they agree, or when patience is over: then it is for the checker to say."""
        deadline = time.monotonic() + PATIENCE_S
        lists: dict[int, dict[str, int]] = {}
        while time.monotonic() < deadline:
            lists = {}
            for node, client in finisher.clients.items():
                try:
                    known = (await client.metadata()).topics
                except (Refused, Unreached, Unanswered):
                    continue
                lists[node] = {name: len(found) for name, found in known.items() if name.startswith(stage.prefix)}
            if len(lists) == len(finisher.clients) and all(one == next(iter(lists.values())) for one in lists.values()):
                break
            await asyncio.sleep(_REST_S)
        for node in finisher.clients:
            number = stage.recorder.invoke("end", Action.TOPICS, node=node)
            if node in lists:
                stage.recorder.ok(number, topics=lists[node])
            else:
                stage.recorder.info(number, "no answer")
        return next(iter(lists.values()), {})

    def _places(self) -> list[Place]:
        return self._stays + (self._changer.places() if self._changer is not None else [])
