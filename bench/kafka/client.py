"""One load by confluent-kafka in a process of its own: `python -m bench.kafka.client SPEC`.

As little Python per message as there can be: the brokers need the same cores.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, Message, Producer, TopicPartition

from bench.kafka.job import PATIENCE_S, Spec, gap_ms, latencies, main, wait_for_go

SAMPLE = 100
"""One message in so many carries a callback, which measures its way; the others carry none, which is cheaper."""
_CHUNK = 1_000
_QUEUED = 90_000
_SILENCE_S = 20.0


def _producer(spec: Spec, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": spec.bootstrap, "acks": "all", **spec.settings, **settings})


def _consumer(spec: Spec) -> Consumer:
    return Consumer({"bootstrap.servers": spec.bootstrap, "group.id": "bench", "enable.auto.commit": False})


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
    """For so long, at a rate or as fast as it goes; the clock stops when the last message is acknowledged.

    Successive messages go to successive partitions. `warm` messages were written before the clock started.
    """
    producers = [_producer(spec) for _ in range(spec.connections)]
    for producer in producers:
        for partition in range(spec.partitions):
            producer.produce(spec.topic, b"warm", partition=partition)
    if sum(producer.flush(PATIENCE_S) for producer in producers):
        raise TimeoutError(f"not everything was acknowledged within {PATIENCE_S:.0f} s before the run began")
    way = _Way()
    # With a rate, small chunks: a load that comes in bursts would measure the bursts.
    chunk = _CHUNK if not spec.rate else 10
    chunks = _chunks(spec, chunk, way)
    wait_for_go()
    sent, turn = 0, 0
    began = time.perf_counter()
    while (elapsed := time.perf_counter() - began) < spec.seconds:
        producer = producers[turn % len(producers)]
        if spec.rate and sent >= elapsed * spec.rate:
            _rest(producer, sent / spec.rate - elapsed)
            continue
        while len(producer) > _QUEUED - chunk:
            producer.poll(0.01)
        sent += producer.produce_batch(spec.topic, chunks[turn % len(chunks)])
        turn += 1
        producer.poll(0)
    left = sum(producer.flush(PATIENCE_S) for producer in producers)
    seconds = time.perf_counter() - began
    warm = spec.connections * spec.partitions
    return {"messages": sent - left, "failed": way.failed + left, "warm": warm, "seconds": seconds, **latencies(way.seconds)}


def _chunks(spec: Spec, chunk: int, way: _Way) -> list[list[dict[str, Any]]]:
    """Ready-made chunks that, one after the other, go round the partitions; one message in SAMPLE reports."""
    value = b"x" * spec.size
    chunks, number = [], 0
    while number < max(spec.partitions, chunk, SAMPLE):
        messages = []
        for _ in range(chunk):
            message: dict[str, Any] = {"value": value, "partition": number % spec.partitions}
            if number % SAMPLE == 0:
                message["callback"] = way
            messages.append(message)
            number += 1
        chunks.append(messages)
    return chunks


def _rest(producer: Producer, seconds: float) -> None:
    """Until the next message is due, serving delivery reports. `poll` counts in whole ms: with less it would spin."""
    producer.poll(0)
    time.sleep(min(0.001, max(0.0, seconds)))


def consume(spec: Spec) -> dict[str, Any]:
    """Read so many messages from the beginning."""
    consumer = _consumer(spec)
    wait_for_go()
    consumer.assign([TopicPartition(spec.topic, partition, 0) for partition in range(spec.partitions)])
    found, began = 0, time.perf_counter()
    last = began
    while found < spec.count and time.perf_counter() - last < _SILENCE_S:
        messages = [message for message in consumer.consume(10_000, 0.2) if message.error() is None]
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

    for _ in range(100):
        once()
    wait_for_go()
    began = time.perf_counter()
    while time.perf_counter() < began + spec.seconds:
        waits.append(once())
    return {"messages": len(waits), "seconds": time.perf_counter() - began, **latencies(waits)}


def paced(spec: Spec) -> dict[str, Any]:
    """A steady rate: until acknowledged, and until in the consumer's hands; both here, so that one clock measures."""
    consumer = _consumer(spec)
    consumer.assign([TopicPartition(spec.topic, 0, OFFSET_END)])
    producer = _producer(spec)
    waits: list[float] = []
    begin = [float("inf")]
    way = _Way()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            message = consumer.poll(0.1)
            value = message.value() if message is not None and message.error() is None else None
            # What was sent before the run began may arrive late, and is not part of it.
            if value is not None and (sent_at := float(value[:20])) >= begin[0]:
                waits.append(time.perf_counter() - sent_at)
            elif value is not None:
                begun.set()

    begun = threading.Event()
    reader = threading.Thread(target=read)
    reader.start()
    deadline = time.perf_counter() + PATIENCE_S
    while not begun.is_set() and time.perf_counter() < deadline:
        _stamped(producer, spec)
        producer.poll(0.05)
    producer.flush(PATIENCE_S)
    wait_for_go()
    began, sent = time.perf_counter(), 0
    begin[0] = began
    while (elapsed := time.perf_counter() - began) < spec.seconds:
        if sent < elapsed * spec.rate:
            _stamped(producer, spec, way)
            sent += 1
        else:
            _rest(producer, sent / spec.rate - elapsed)
    left = producer.flush(PATIENCE_S)
    while len(waits) < sent and time.perf_counter() < began + spec.seconds + _SILENCE_S:
        time.sleep(0.01)
    done.set()
    reader.join()
    consumer.close()
    figures = {"messages": len(waits), "failed": way.failed + left + (sent - len(waits)), "seconds": spec.seconds}
    return {**figures, **latencies(way.seconds, "ack_"), **latencies(waits)}


def _stamped(producer: Producer, spec: Spec, way: _Way | None = None) -> None:
    value = (b"%020.9f" % time.perf_counter()).ljust(spec.size, b".")
    if way is None:
        producer.produce(spec.topic, value, partition=0)
    else:
        producer.produce(spec.topic, value, partition=0, on_delivery=way)


def failover(spec: Spec) -> dict[str, Any]:
    """A steady rate while the leader dies: a line tells us just before. The longest silence after it is the gap."""
    producer = _producer(spec, **{"linger.ms": 0})
    moments: list[float] = []
    failed: list[object] = []
    kill: list[float] = []

    def on_delivery(error: object, message: Message) -> None:
        if error is None:
            moments.append(time.perf_counter())
        else:
            failed.append(error)

    def listen() -> None:
        sys.stdin.readline()
        kill.append(time.perf_counter())

    producer.produce(spec.topic, b"warm", partition=0, on_delivery=on_delivery)
    producer.flush(PATIENCE_S)
    wait_for_go()
    threading.Thread(target=listen, daemon=True).start()
    began, sent, sent_at_kill, back = time.perf_counter(), 0, 0, 0.0
    while (now := time.perf_counter()) < began + PATIENCE_S and not (back and now > back + 1.0):
        if sent < (now - began) * spec.rate and len(producer) < _QUEUED:
            producer.produce(spec.topic, b"x" * spec.size, partition=0, on_delivery=on_delivery)
            sent += 1
        else:
            producer.poll(0.001)
        if kill:
            sent_at_kill = sent_at_kill or sent
            # Not the answers that were on their way when the leader died: those of messages sent well after that.
            if not back and len(moments) > sent_at_kill + spec.rate // 10:
                back = now
    left = producer.flush(PATIENCE_S)
    gap = gap_ms(moments, kill[0]) if kill else float("nan")
    return {"messages": len(moments), "failed": len(failed) + left, "seconds": now - began, "gap_ms": gap}


JOBS = {"produce": produce, "consume": consume, "single": single, "paced": paced, "failover": failover}

if __name__ == "__main__":
    main(JOBS)
