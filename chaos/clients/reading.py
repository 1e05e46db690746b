"""Readers by offset: librdkafka in a thread, and our own client that reads from one given node.

Reads are recorded when they have returned something. librdkafka fetches ahead, so that the time of a read says nothing about
when it was served; no checker looks at it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from random import Random

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from quorate.broker.protocol.kafka.errors import Error
from quorate.chaos.clients.crew import pause
from quorate.chaos.clients.producing import Places
from quorate.chaos.clients.raw import LATEST, NodeClient, Refused, Unanswered, Unreached
from quorate.chaos.history import UNKNOWN, Action, Place, Record, Recorder

_BATCH = 500
_LOOK_S = 0.2
_RETRY_PLACE_S = 0.5


def record_of(message: Message) -> Record:
    """A message as histories hold it."""
    kind, stamp = message.timestamp()
    offset = message.offset()
    value = message.value()
    text = "" if value is None else value.decode("latin-1")
    return Record(UNKNOWN if offset is None else offset, text, stamp if kind else UNKNOWN)


def place_of(message: Message) -> Place:
    """Where a message is."""
    partition = message.partition()
    return Place(message.topic() or "", UNKNOWN if partition is None else partition)


class LibrdkafkaReader:
    """Reads every partition from its beginning on. With `again_s` it seeks to somewhere before, now and then."""

    def __init__(
        self, recorder: Recorder, name: str, bootstrap: str, places: Places, *, random: Random, again_s: float = 0.0
    ) -> None:
        self._recorder = recorder
        self._name = name
        self._places = places
        self._random = random
        self._again_s = again_s
        self._stream = 0
        self._next: dict[Place, int] = {}
        self._highest: dict[Place, int] = {}
        self._settings: dict[str, str | int | bool] = {
            "bootstrap.servers": bootstrap,
            "client.id": name,
            "group.id": f"{name}-never-joined",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.wait.max.ms": 100,
            "log_level": 0,
            "reconnect.backoff.max.ms": 1000,
            "topic.metadata.refresh.interval.ms": 5000,
        }

    def __call__(self, stop: threading.Event) -> None:
        consumer = Consumer(self._settings)
        try:
            seek_at = time.monotonic() + self._again_s
            while not stop.is_set():
                again = self._again_s > 0 and time.monotonic() >= seek_at
                if again:
                    seek_at = time.monotonic() + self._again_s
                    self._seek()
                if again or set(self._places()) != set(self._next):
                    self._assign(consumer)
                if self._take(consumer.consume(_BATCH, _LOOK_S)):
                    # A partition has stopped: from where it is, again.
                    stop.wait(_LOOK_S)
                    self._assign(consumer)
        finally:
            consumer.close()

    def _seek(self) -> None:
        self._stream += 1
        self._next = {place: self._random.randint(0, self._highest.get(place, 0)) for place in self._next}

    def _assign(self, consumer: Consumer) -> None:
        self._next = {place: self._next.get(place, 0) for place in self._places()}
        consumer.assign([TopicPartition(place.topic, place.partition, at) for place, at in self._next.items()])

    def _take(self, messages: Iterable[Message]) -> bool:
        """Record what was read; whether a partition needs to be assigned again."""
        records: dict[Place, list[Record]] = defaultdict(list)
        stopped = False
        for message in messages:
            error = message.error()
            if error is None:
                records[place_of(message)].append(record_of(message))
            else:
                stopped |= error.code() == KafkaError._AUTO_OFFSET_RESET
        for place, seen in records.items():
            if place in self._next:
                what = {"topic": place.topic, "partition": place.partition, "stream": str(self._stream)}
                number = self._recorder.invoke(self._name, Action.READ, **what, offset=self._next[place])
                self._recorder.ok(number, records=seen)
                self._next[place] = seen[-1].offset + 1
                self._highest[place] = max(self._highest.get(place, 0), seen[-1].offset)
        return stopped


class NodeReader:
    """Reads what one node says it leads, each partition in order, and asks it where they end."""

    def __init__(self, recorder: Recorder, name: str, node: int, address: str, places: Places) -> None:
        self._recorder = recorder
        self._name = name
        self._node = node
        self._client = NodeClient(address)
        self._places = places
        self._next: dict[Place, int] = {}
        self._not_before: dict[Place, float] = {}

    async def __call__(self, stop: asyncio.Event) -> None:
        try:
            while not stop.is_set():
                now = time.monotonic()
                for place in self._places():
                    if self._not_before.get(place, 0.0) <= now and not stop.is_set():
                        await self._visit(place)
                await pause(stop, _LOOK_S)
        finally:
            self._client.close()

    async def _visit(self, place: Place) -> None:
        try:
            await self._latest(place)
            await self._read(place)
        except Refused as error:
            # Not the leader, most of the time. A deposed leader may not even have what was read elsewhere.
            pause_s = _LOOK_S if error.code == Error.OFFSET_OUT_OF_RANGE else _RETRY_PLACE_S
            self._not_before[place] = time.monotonic() + pause_s
        except (Unreached, Unanswered):
            self._not_before[place] = time.monotonic() + _RETRY_PLACE_S

    async def _latest(self, place: Place) -> None:
        number = self._recorder.invoke(
            self._name, Action.LATEST, topic=place.topic, partition=place.partition, node=self._node
        )
        try:
            self._recorder.ok(number, offset=await self._client.list_offset(place, LATEST))
        except (Refused, Unreached, Unanswered) as error:
            self._recorder.fail(number, str(error))
            raise

    async def _read(self, place: Place) -> None:
        at = self._next.get(place, 0)
        fetched = await self._client.fetch(place, at)
        if fetched.records:
            what = {"topic": place.topic, "partition": place.partition, "node": self._node, "offset": at}
            self._recorder.ok(self._recorder.invoke(self._name, Action.READ, **what), records=fetched.records)
        self._next[place] = fetched.next_offset
