"""Consumer groups: members that join, read, commit, leave and come back, and one that commits without being a member."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from random import Random
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from quorate.chaos.clients.crew import pause
from quorate.chaos.clients.outcome import commit_failed
from quorate.chaos.clients.raw import NodeClient, Refused, Unanswered, Unreached
from quorate.chaos.clients.reading import place_of, record_of
from quorate.chaos.history import UNKNOWN, Action, Place, Record, Recorder

_BATCH = 100
_POLL_S = 0.1
_ASK_S = 10.0
_COMMIT_EVERY_S = 0.3


class Member:
    """One member of a group after another, in one thread: each lives for a while, leaves, and the next one resumes."""

    def __init__(
        self, recorder: Recorder, name: str, bootstrap: str, group: str, topic: str, *, strategy: str, random: Random
    ) -> None:
        self._recorder = recorder
        self._name = name
        self._group = group
        self._topic = topic
        self._random = random
        self._stream = ""
        self._changes = itertools.count()
        self._fresh: set[Place] = set()
        """Newly assigned: what is committed there is asked for before anything is committed."""
        self._next: dict[Place, int] = {}
        self._settings: dict[str, str | int | bool] = {
            "bootstrap.servers": bootstrap,
            "client.id": name,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": strategy,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 1000,
            "fetch.wait.max.ms": 100,
            "log_level": 0,
            "reconnect.backoff.max.ms": 1000,
        }

    def __call__(self, stop: threading.Event) -> None:
        while not stop.is_set():
            consumer = Consumer(self._settings)
            self._changed(consumer, [])
            consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._changed, on_lost=self._changed)
            life_s = self._random.uniform(5.0, 20.0)
            until = time.monotonic() + life_s
            try:
                while not stop.is_set() and time.monotonic() < until:
                    self._take(consumer)
                    self._ask(consumer)
                    self._commit(consumer)
            finally:
                consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._changed(consumer, partitions)
        self._fresh |= {Place(one.topic, one.partition) for one in partitions}

    def _changed(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """What was read so far may be another member's now."""
        self._stream = str(next(self._changes))
        self._next.clear()
        self._fresh -= {Place(one.topic, one.partition) for one in partitions}

    def _take(self, consumer: Consumer) -> None:
        """Read for a moment. One at a time: a rebalance between two messages begins another stream."""
        records: dict[tuple[str, Place], list[Record]] = defaultdict(list)
        until = time.monotonic() + _POLL_S
        for _ in range(_BATCH):
            message = consumer.poll(max(0.0, until - time.monotonic()))
            if message is None:
                break
            if message.error() is None:
                place, record = place_of(message), record_of(message)
                records[self._stream, place].append(record)
                self._next[place] = record.offset + 1
        for (stream, place), seen in records.items():
            what = {"topic": place.topic, "partition": place.partition, "group": self._group, "stream": stream}
            self._recorder.ok(self._recorder.invoke(self._name, Action.READ, **what), records=seen)

    def _ask(self, consumer: Consumer) -> None:
        """What is committed where this member has just begun."""
        for place in sorted(self._fresh):
            number = self._recorder.invoke(self._name, Action.COMMITTED, **self._what(place))
            try:
                (found,) = consumer.committed([TopicPartition(place.topic, place.partition)], _ASK_S)
            except KafkaException as error:
                self._recorder.fail(number, str(error))
                return
            if found.error is not None:
                self._recorder.fail(number, str(found.error))
                return
            self._recorder.ok(number, offset=max(found.offset, UNKNOWN))
            self._fresh.discard(place)

    def _commit(self, consumer: Consumer) -> None:
        """Everything that was read. librdkafka tries more than once, so that no error is definite."""
        due = dict(self._next)
        self._next.clear()
        if not due:
            return
        numbers = {
            place: self._recorder.invoke(self._name, Action.COMMIT, **self._what(place), offset=offset)
            for place, offset in due.items()
        }
        wanted = [TopicPartition(place.topic, place.partition, offset) for place, offset in due.items()]
        try:
            done = consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            for number in numbers.values():
                self._recorder.info(number, str(error))
            return
        for one in done or ():
            number = numbers.pop(Place(one.topic, one.partition))
            if one.error is None:
                self._recorder.ok(number)
            else:
                self._recorder.info(number, str(one.error))
        for number in numbers.values():
            self._recorder.info(number, "no word of it in the answer")

    def _what(self, place: Place) -> dict[str, Any]:
        return {"topic": place.topic, "partition": place.partition, "group": self._group}


class Committer:
    """Commits rising offsets of a group without members, and asks for them; never repeats a request."""

    def __init__(self, recorder: Recorder, name: str, addresses: Sequence[str], group: str, places: Sequence[Place]) -> None:
        self._recorder = recorder
        self._name = name
        self._clients = {address: NodeClient(address) for address in addresses}
        self._group = group
        self._places = places
        self._coordinator: NodeClient | None = None

    async def __call__(self, stop: asyncio.Event) -> None:
        try:
            for offset in itertools.count(1):
                for place in self._places:
                    if stop.is_set():
                        return
                    # Before it too: another coordinator may have taken over, and this commit would hide what it forgot.
                    await self._do(Action.COMMITTED, place)
                    await self._do(Action.COMMIT, place, offset)
                    await self._do(Action.COMMITTED, place)
                await pause(stop, _COMMIT_EVERY_S)
        finally:
            self.close()

    async def ask_all(self) -> None:
        """What is committed everywhere, now."""
        for place in self._places:
            await self._do(Action.COMMITTED, place)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    async def _do(self, action: Action, place: Place, offset: int = UNKNOWN) -> None:
        try:
            client = self._coordinator = self._coordinator or await self._find()
        except (Refused, Unreached, Unanswered):
            await asyncio.sleep(0.2)
            return
        what = {"topic": place.topic, "partition": place.partition, "group": self._group, "offset": offset}
        number = self._recorder.invoke(self._name, action, **what)
        try:
            if action is Action.COMMIT:
                await client.commit(self._group, place, offset)
                self._recorder.ok(number)
            else:
                self._recorder.ok(number, offset=await client.committed(self._group, place))
            return
        except Refused as error:
            (self._recorder.fail if commit_failed(error.code) else self._recorder.info)(number, str(error))
        except Unreached as error:
            self._recorder.fail(number, f"no connection: {error}")
        except Unanswered as error:
            self._recorder.info(number, f"no answer: {error}")
        self._coordinator = None
        await asyncio.sleep(0.2)

    async def _find(self) -> NodeClient:
        """The coordinator, asked of each node in turn until one knows."""
        last: Exception = Unreached("there are no nodes")
        for client in list(self._clients.values()):
            try:
                address = await client.coordinator(self._group)
            except (Refused, Unreached, Unanswered) as error:
                last = error
            else:
                return self._clients.setdefault(address, NodeClient(address))
        raise last
