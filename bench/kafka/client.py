"""One load by confluent-kafka in a process of its own: `python -m bench.kafka.client SPEC`. It says "ready",
waits for a line, does its work and prints its figures. As little Python per message as there can be: the cores are shared.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, Message, Producer, TopicPartition

SAMPLE = 100
"""One message in so many carries a callback, which measures its way; the others carry none, which is cheaper."""
_CHUNK = 1_000
_PATIENCE_S = 90.0


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What to do."""

    do: str
    bootstrap: str
    topic: str
    partitions: int = 1
    size: int = 100
    seconds: float = 5.0
    count: int = 0
    rate: int = 1_000
    connections: int = 1
    settings: dict[str, Any] = field(default_factory=dict)

    def encode(self) -> str:
        return json.dumps(asdict(self))


def percentile(sorted_values: list[float], share: float) -> float:
    """NaN of nothing."""
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))] if sorted_values else float("nan")


def latencies(seconds: list[float]) -> dict[str, float]:
    """Median and 99th percentile in ms."""
    ordered = sorted(seconds)
    return {"p50_ms": percentile(ordered, 0.5) * 1e3, "p99_ms": percentile(ordered, 0.99) * 1e3}


def _producer(spec: Spec, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": spec.bootstrap, "acks": "all", **spec.settings, **settings})


class _Way:
    """Delivery reports: how long each message was under way."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.failed = 0

    def __call__(self, error: object, message: Message) -> None:
        if error is not None:
            self.failed += 1
        else:
            self.seconds.append(message.latency() or 0.0)


def produce(spec: Spec) -> dict[str, Any]:
    """As fast as it goes, for so long; the clock stops when the last message is acknowledged."""
    producers = [_producer(spec) for _ in range(spec.connections)]
    way = _Way()
    for producer in producers:
        for partition in range(spec.partitions):
            producer.produce(spec.topic, b"warm", partition=partition)
    for producer in producers:
        producer.flush(_PATIENCE_S)
    wait_for_go()
    value = b"x" * spec.size
    plain = [{"value": value} for _ in range(_CHUNK - _CHUNK // SAMPLE)]
    sampled = [{"value": value, "callback": way} for _ in range(_CHUNK // SAMPLE)]
    sent, turn = 0, 0
    began = time.perf_counter()
    while time.perf_counter() - began < spec.seconds:
        producer = producers[turn % len(producers)]
        partition = turn % spec.partitions
        turn += 1
        for chunk in (plain, sampled):
            while len(producer) > 90_000 - _CHUNK:
                producer.poll(0.01)
            sent += producer.produce_batch(spec.topic, chunk, partition=partition)
        producer.poll(0)
    left = sum(producer.flush(_PATIENCE_S) for producer in producers)
    seconds = time.perf_counter() - began
    return {"messages": sent - left, "failed": way.failed + left, "seconds": seconds, **latencies(way.seconds)}


def consume(spec: Spec) -> dict[str, Any]:
    """Read so many messages from the beginning."""
    consumer = Consumer({"bootstrap.servers": spec.bootstrap, "group.id": "bench", "enable.auto.commit": False})
    wait_for_go()
    consumer.assign([TopicPartition(spec.topic, partition, 0) for partition in range(spec.partitions)])
    found, began = 0, time.perf_counter()
    last = began
    while found < spec.count and time.perf_counter() - last < 20.0:
        messages = consumer.consume(10_000, 0.2)
        if messages:
            found, last = found + len(messages), time.perf_counter()
    consumer.close()
    return {"messages": found, "seconds": last - began}


def single(spec: Spec) -> dict[str, Any]:
    """One message at a time, each acknowledged before the next: what a careful application waits for."""
    producer = _producer(spec, **{"linger.ms": 0})
    value, waits, answers = b"x" * spec.size, [], [0]

    def on_delivery(error: object, message: Message) -> None:
        if error is not None:
            raise RuntimeError(f"not delivered: {error}")
        answers[0] += 1

    def once() -> float:
        began = time.perf_counter()
        before = answers[0]
        producer.produce(spec.topic, value, partition=0, on_delivery=on_delivery)
        while answers[0] == before:
            producer.poll(1.0)
        return time.perf_counter() - began

    for _ in range(200):
        once()
    wait_for_go()
    ends = time.perf_counter() + spec.seconds
    while time.perf_counter() < ends:
        waits.append(once())
    return {"messages": len(waits), "seconds": spec.seconds, **latencies(waits)}


def end_to_end(spec: Spec) -> dict[str, Any]:
    """A steady rate; from the call of produce to the consumer's hands, both in this process so that one clock measures."""
    consumer = Consumer({"bootstrap.servers": spec.bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(spec.topic, 0, OFFSET_END)])
    producer = _producer(spec, **{"linger.ms": 0})
    waits: list[float] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            message = consumer.poll(0.1)
            value = message.value() if message is not None and message.error() is None else None
            if value is not None:
                waits.append(time.perf_counter() - float(value[:20]))

    reader = threading.Thread(target=read)
    reader.start()
    deadline = time.perf_counter() + _PATIENCE_S
    while len(waits) < 10 and time.perf_counter() < deadline:
        _stamped(producer, spec)
        producer.poll(0.05)
    wait_for_go()
    waits.clear()
    began, sent = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - began) < spec.seconds:
        if sent < elapsed * spec.rate:
            _stamped(producer, spec)
            sent += 1
        else:
            producer.poll(0.0005)
    producer.flush(_PATIENCE_S)
    while len(waits) < sent and time.perf_counter() < began + spec.seconds + 5.0:
        time.sleep(0.01)
    done.set()
    reader.join()
    consumer.close()
    return {"messages": len(waits), "seconds": spec.seconds, **latencies(waits)}


def _stamped(producer: Producer, spec: Spec) -> None:
    producer.produce(spec.topic, (b"%020.9f" % time.perf_counter()).ljust(spec.size, b"."), partition=0)


def failover(spec: Spec) -> dict[str, Any]:
    """A steady rate while the leader dies: a line tells us when it did. The longest silence is the gap."""
    producer = _producer(spec, **{"linger.ms": 0})
    moments: list[float] = []
    failed = [0]
    killed = threading.Event()

    def on_delivery(error: object, message: Message) -> None:
        moments.append(time.perf_counter()) if error is None else failed.append(1)

    producer.produce(spec.topic, b"warm", partition=0, on_delivery=on_delivery)
    producer.flush(_PATIENCE_S)
    wait_for_go()

    def listen() -> None:
        sys.stdin.readline()
        killed.set()

    threading.Thread(target=listen, daemon=True).start()
    began, sent, at_kill, back = time.perf_counter(), 0, 0, 0.0
    while (now := time.perf_counter()) < began + _PATIENCE_S:
        if sent < (now - began) * spec.rate and len(producer) < 50_000:
            producer.produce(spec.topic, b"x" * spec.size, partition=0, on_delivery=on_delivery)
            sent += 1
        else:
            producer.poll(0.001)
        if killed.is_set():
            at_kill = at_kill or sent
            if len(moments) > at_kill + spec.rate // 10:
                back = back or now
                if now > back + 1.0:
                    break
    producer.flush(_PATIENCE_S)
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    return {"messages": len(moments), "failed": len(failed) - 1, "gap_ms": max(gaps, default=float("nan")) * 1e3}


def wait_for_go() -> None:
    """Everything is prepared; begin when told."""
    print("ready", flush=True)
    sys.stdin.readline()


JOBS = {"produce": produce, "consume": consume, "single": single, "end_to_end": end_to_end, "failover": failover}

if __name__ == "__main__":
    spec = Spec(**json.loads(sys.argv[1]))
    print(json.dumps(JOBS[spec.do](spec)), flush=True)
