"""Producers: librdkafka in a thread, idempotent or plain, and our own client that writes to one given node.

Values are unique. An outcome is recorded as definite only where it is: a plain librdkafka producer sends a message once (a
refusal that it repeats by itself is definite each time), an idempotent one repeats what was not answered, so that the last
error says nothing of the tries before.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from quorate.broker.protocol.kafka.errors import Error
from quorate.chaos.clients.crew import pause
from quorate.chaos.clients.outcome import name_of, produce_failed
from quorate.chaos.clients.raw import NodeClient, Refused, Unanswered, Unreached
from quorate.chaos.history import UNKNOWN, Action, Place, Recorder

Places = Callable[[], Sequence[Place]]
"""Where to write: asked before each message, because topics come and go."""

_IN_FLIGHT = 500
_FLUSH_S = 10.0
_RETRY_PLACE_S = 1.0


class LibrdkafkaProducer:
    """Writes at a steady rate until it is told to stop. Run it in a thread of its own."""

    def __init__(
        self, recorder: Recorder, name: str, bootstrap: str, places: Places, *, rate: float, idempotent: bool, random: Random
    ) -> None:
        self._recorder = recorder
        self._name = name
        self._places = places
        self._rate = rate
        self._idempotent = idempotent
        self._random = random
        self._numbers = itertools.count()
        self._in_flight = 0
        self._fatal = False
        self._settings: dict[str, str | int | bool] = {
            "bootstrap.servers": bootstrap,
            "client.id": name,
            "acks": "all",
            "linger.ms": 2,
            "log_level": 0,
            "reconnect.backoff.max.ms": 1000,
            "topic.metadata.refresh.interval.ms": 5000,
            "request.timeout.ms": 5000,
        }
        if idempotent:
            # Without a time limit: when some messages of a batch in flight reach theirs, librdkafka (2.16) gives up on those
            # and sends the others again under a new epoch, which no broker can know for a repetition.
            self._settings |= {"enable.idempotence": True, "message.timeout.ms": 0}
        else:
            self._settings |= {"retries": 0, "message.timeout.ms": 10_000}

    def __call__(self, stop: threading.Event) -> None:
        producer = Producer(self._settings)
        due = time.monotonic()
        while not stop.is_set():
            wait_s = max(0.0, min(due - time.monotonic(), 0.1))
            self._serve(partial(producer.poll, wait_s))
            if self._fatal:
                producer = self._replace(producer)
            if time.monotonic() >= due and self._in_flight < _IN_FLIGHT:
                due = max(due + 1 / self._rate, time.monotonic() - 0.1)
                self._send(producer)
        self._serve(partial(producer.flush, _FLUSH_S))

    def _serve(self, call: Callable[[], int]) -> None:
        """Let librdkafka call back. It raises fatal errors wherever it happens to be; messages are told of them as well."""
        try:
            call()
        except KafkaException as error:
            if not error.args[0].fatal():
                raise
            self._fatal = True

    def _replace(self, producer: Producer) -> Producer:
        """A fatal error ends an idempotent producer's life. What it had under way is given up."""
        producer.purge()
        self._serve(partial(producer.flush, _FLUSH_S))
        self._fatal = False
        return Producer(self._settings)

    def _send(self, producer: Producer) -> None:
        places = self._places()
        if not places:
            return
        place, value = self._random.choice(places), f"{self._name}-{next(self._numbers)}"
        what = {"topic": place.topic, "partition": place.partition, "value": value, "once": True}
        number = self._recorder.invoke(self._name, Action.PRODUCE, **what)
        try:
            done = partial(self._delivered, number)
            producer.produce(place.topic, value.encode(), partition=place.partition, on_delivery=done)
            self._in_flight += 1
        except BufferError:
            self._recorder.fail(number, "the producer's queue is full")
        except KafkaException as error:
            # Not even queued.
            self._recorder.fail(number, str(error))

    def _delivered(self, number: int, error: KafkaError | None, message: Message) -> None:
        self._in_flight -= 1
        if error is None:
            offset = message.offset()
            self._recorder.ok(number, offset=offset if offset is not None and offset >= 0 else UNKNOWN)
            return
        self._fatal |= error.fatal()
        if not self._idempotent and produce_failed(error.code()):
            self._recorder.fail(number, name_of(error.code()))
        else:
            self._recorder.info(number, error.str())


class NodeProducer:
    """Writes to the partitions that one node leads, or believes to lead; never twice, and always to that node."""

    def __init__(self, recorder: Recorder, name: str, address: str, places: Places, *, rate: float, random: Random) -> None:
        self._recorder = recorder
        self._name = name
        self._client = NodeClient(address)
        self._places = places
        self._rate = rate
        self._random = random
        self._numbers = itertools.count()
        self._not_before: dict[Place, float] = {}

    async def __call__(self, stop: asyncio.Event) -> None:
        try:
            while not stop.is_set():
                now = time.monotonic()
                places = [place for place in self._places() if self._not_before.get(place, 0.0) <= now]
                if places:
                    await self._send(self._random.choice(places))
                await pause(stop, 1 / self._rate)
        finally:
            self._client.close()

    async def _send(self, place: Place) -> None:
        value = f"{self._name}-{next(self._numbers)}"
        what = {"topic": place.topic, "partition": place.partition, "value": value, "once": True}
        number = self._recorder.invoke(self._name, Action.PRODUCE, **what)
        try:
            self._recorder.ok(number, offset=await self._client.produce(place, value))
        except Refused as error:
            if error.code in (Error.NOT_LEADER_OR_FOLLOWER, Error.UNKNOWN_TOPIC_OR_PARTITION):
                self._not_before[place] = time.monotonic() + _RETRY_PLACE_S
            outcome = self._recorder.fail if produce_failed(error.code) else self._recorder.info
            outcome(number, str(error))
        except Unreached as error:
            self._recorder.fail(number, f"no connection: {error}")
        except Unanswered as error:
            self._recorder.info(number, f"no answer: {error}")
