"""confluent-kafka (librdkafka)."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from tests.clients.drivers.job import PATIENCE_S, Job, Told, as_record, number_of, numbered, of_record, say


class Confluent:
    def produce(self, job: Job) -> None:
        acks = _Acks()
        producer = _producer(job)
        for number in range(job.first, job.first + job.count):
            _send(producer, job.topic, numbered(number, job.size), number % job.partitions, acks)
        left = producer.flush(PATIENCE_S)
        say(acked=acks.good, failed=acks.failed, left=left)

    def stream(self, job: Job) -> None:
        acks, told = _Acks(), Told()
        producer = _producer(job)
        number, reported = 0, 0
        while not told:
            # So many on their way and no more: the stream outlives failovers, and its queue must not.
            if number - acks.good < 500:
                _send(producer, job.topic, numbered(number, job.size), 0, acks)
                number += 1
            producer.poll(0 if number % 50 else 0.005)
            if acks.good - reported >= 200:
                reported = acks.good
                say(acked=reported)
        left = producer.flush(PATIENCE_S)
        say(acked=acks.good, failed=acks.failed, left=left, sent=number)

    def write(self, job: Job) -> None:
        acks = _Acks()
        producer = _producer(job)
        for record in job.records:
            key, value, headers = of_record(record)
            producer.produce(job.topic, value, key, partition=0, headers=list(headers), on_delivery=acks)
        left = producer.flush(PATIENCE_S)
        say(acked=acks.good, failed=acks.failed, left=left, errors=sorted(acks.errors))

    def read(self, job: Job) -> None:
        consumer = _consumer(job)
        numbers: dict[int, list[int]] = {p: [] for p in range(job.partitions)}
        start = [TopicPartition(job.topic, p, OFFSET_BEGINNING) for p in range(job.partitions)]
        if job.skip:
            # To offsets of messages that were seen: a log may have offsets that hold no message.
            start = [TopicPartition(job.topic, tp.partition, _offset_after(consumer, tp, job.skip)) for tp in start]
        consumer.assign(start)
        for message in _messages(consumer, job.count):
            numbers[message.partition() or 0].append(number_of(message.value() or b""))
        consumer.close()
        say(numbers=numbers)

    def records(self, job: Job) -> None:
        consumer = _consumer(job)
        consumer.assign([TopicPartition(job.topic, 0, OFFSET_BEGINNING)])
        found = [as_record(_bytes(m.key()), _bytes(m.value()), m.headers()) for m in _messages(consumer, job.count)]
        consumer.close()
        say(records=found)

    def member(self, job: Job) -> None:
        told = Told()
        consumer = _consumer(job)
        consumer.subscribe([job.topic], on_assign=lambda _, found: say(assigned=sorted(tp.partition for tp in found)))
        while not told:
            messages = [m for m in consumer.consume(2_000, 0.1) if m.error() is None]
            if messages:
                consumer.commit(asynchronous=False)
                say(numbers=[number_of(m.value() or b"") for m in messages])
        consumer.close()
        say(left=True)

    def commit(self, job: Job) -> None:
        consumer = _consumer(job)
        wanted = TopicPartition(job.topic, 0, job.first, metadata="kept")
        [done] = consumer.commit(offsets=[wanted], asynchronous=False) or []
        consumer.close()
        say(error=None if done.error is None else done.error.name())

    def committed(self, job: Job) -> None:
        consumer = _consumer(job)
        [found] = consumer.committed([TopicPartition(job.topic, 0)], timeout=PATIENCE_S)
        consumer.close()
        say(offset=found.offset, metadata=found.metadata)

    def seek(self, job: Job) -> None:
        consumer = _consumer(job)
        consumer.assign([TopicPartition(job.topic, 0, job.first)])
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        error = message.error()
        say(error=error.name()) if error is not None else say(number=number_of(message.value() or b""))
        consumer.close()


class _Acks:
    """Counts delivery reports."""

    def __init__(self) -> None:
        self.good, self.failed = 0, 0
        self.errors: set[str] = set()

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.good += 1
        else:
            self.failed += 1
            self.errors.add(error.name())


def _bytes(data: str | bytes | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data


def _producer(job: Job) -> Producer:
    return Producer(
        {
            "bootstrap.servers": job.bootstrap,
            "compression.type": job.compression,
            "enable.idempotence": job.idempotent,
            "message.max.bytes": 4_000_000,
            "acks": job.acks,
        }
    )


def _send(producer: Producer, topic: str, value: bytes, partition: int, acks: _Acks) -> None:
    while True:
        try:
            return producer.produce(topic, value, partition=partition, on_delivery=acks)
        except BufferError:
            producer.poll(0.05)


def _consumer(job: Job) -> Consumer:
    settings: dict[str, Any] = {
        "bootstrap.servers": job.bootstrap,
        "group.id": job.group or "nobody",
        "enable.auto.commit": False,
        "auto.offset.reset": "error" if job.reset == "none" else job.reset,
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 300,
    }
    if job.instance:
        settings["group.instance.id"] = job.instance
    return Consumer(settings)


def _messages(consumer: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        found += [message for message in consumer.consume(min(10_000, count - len(found)), 0.5) if message.error() is None]
    return found


def _offset_after(consumer: Consumer, partition: TopicPartition, skip: int) -> int:
    consumer.assign([partition])
    last = _messages(consumer, skip)[-1]
    return (last.offset() or 0) + 1
