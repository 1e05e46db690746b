"""kafka-python."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaConnectionError, KafkaError
from kafka.structs import OffsetAndMetadata

from tests.clients.drivers import kafkapython_admin
from tests.clients.drivers.job import PATIENCE_S, Job, Told, as_record, number_of, numbered, of_record, say


class KafkaPython:
    def produce(self, job: Job) -> None:
        producer = _producer(job)
        sent = [
            producer.send(job.topic, numbered(n, job.size), partition=n % job.partitions)
            for n in range(job.first, job.first + job.count)
        ]
        producer.flush(PATIENCE_S)
        good = sum(one.succeeded() for one in sent)
        producer.close(10)
        say(acked=good, failed=len(sent) - good, left=0)

    def stream(self, job: Job) -> None:
        producer, told = _producer(job), Told()
        sent: list[Any] = []
        done = reported = 0
        while not told:
            if len(sent) - done < 500:
                sent.append(producer.send(job.topic, numbered(len(sent), job.size), partition=0))
            else:
                time.sleep(0.002)
            while done < len(sent) and sent[done].is_done:
                done += 1
            if done - reported >= 200:
                reported = done
                say(acked=done)
        producer.flush(PATIENCE_S)
        good = sum(one.succeeded() for one in sent)
        producer.close(10)
        say(acked=good, failed=len(sent) - good, left=0, sent=len(sent))

    def write(self, job: Job) -> None:
        producer = _producer(job)
        sent = []
        for record in job.records:
            key, value, headers = of_record(record)
            sent.append(producer.send(job.topic, value, key, headers=headers, partition=0))
        producer.flush(PATIENCE_S)
        good = sum(one.succeeded() for one in sent)
        producer.close(10)
        errors = sorted({type(one.exception).__name__ for one in sent if one.exception is not None})
        say(acked=good, failed=len(sent) - good, left=0, errors=errors)

    def read(self, job: Job) -> None:
        consumer = _consumer(job)
        partitions = [TopicPartition(job.topic, p) for p in range(job.partitions)]
        start = {}
        for one in partitions if job.skip else ():
            consumer.assign([one])
            consumer.seek_to_beginning(one)
            start[one] = _messages(consumer, job.skip)[-1].offset + 1
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        for one, offset in start.items():
            consumer.seek(one, offset)
        numbers: dict[int, list[int]] = {p: [] for p in range(job.partitions)}
        for message in _messages(consumer, job.count):
            numbers[message.partition].append(number_of(message.value))
        consumer.close()
        say(numbers=numbers)

    def records(self, job: Job) -> None:
        consumer = _consumer(job)
        consumer.assign([TopicPartition(job.topic, 0)])
        consumer.seek_to_beginning()
        found = [as_record(m.key, m.value, m.headers) for m in _messages(consumer, job.count)]
        consumer.close()
        say(records=found)

    def member(self, job: Job) -> None:
        told = Told()
        consumer = _consumer(job)
        consumer.subscribe([job.topic], listener=_Listener())
        while not told:
            polled = consumer.poll(timeout_ms=100)
            numbers = [number_of(m.value) for messages in polled.values() for m in messages]
            if numbers:
                consumer.commit()
                say(numbers=numbers)
        consumer.close()
        say(left=True)

    def commit(self, job: Job) -> None:
        consumer, partition = _consumer(job), TopicPartition(job.topic, 0)
        consumer.assign([partition])
        consumer.commit({partition: OffsetAndMetadata(job.first, "kept", -1)})
        consumer.close()
        say(error=None)

    def committed(self, job: Job) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            # It raises when a connection is refused, by a node that has just died for one, and leaves it to us to ask again.
            try:
                with closing(_consumer(job)) as consumer:
                    found = consumer.committed(TopicPartition(job.topic, 0), metadata=True)
                return say(offset=found.offset, metadata=found.metadata)
            except KafkaConnectionError:
                if time.monotonic() > deadline:
                    raise

    def seek(self, job: Job) -> None:
        consumer, partition = _consumer(job), TopicPartition(job.topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, job.first)
        try:
            say(number=number_of(_messages(consumer, 1)[0].value))
        except KafkaError as error:
            say(error=type(error).__name__)
        consumer.close()

    def administer(self, job: Job) -> None:
        say(**kafkapython_admin.administer(job))

    def look(self, job: Job) -> None:
        """What its admin client sees."""
        admin = KafkaAdminClient(bootstrap_servers=job.bootstrap.split(","))
        brokers = sorted(broker["broker_id"] for broker in admin.describe_cluster()["brokers"])
        say(topics=sorted(admin.list_topics()), brokers=brokers)
        admin.close()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    def on_partitions_revoked(self, revoked: Any) -> None:
        """Everything read is committed already."""

    def on_partitions_assigned(self, assigned: Any) -> None:
        say(assigned=sorted(one.partition for one in assigned))


def _producer(job: Job) -> KafkaProducer:
    return KafkaProducer(
        bootstrap_servers=job.bootstrap.split(","),
        acks=job.acks,
        compression_type=None if job.compression == "none" else job.compression,
        enable_idempotence=job.idempotent,
        linger_ms=5,
        batch_size=100_000,
        max_request_size=4_000_000,
    )


def _consumer(job: Job) -> KafkaConsumer:
    return KafkaConsumer(
        bootstrap_servers=job.bootstrap.split(","),
        group_id=job.group or None,
        enable_auto_commit=False,
        auto_offset_reset=job.reset,
        group_instance_id=job.instance or None,
        session_timeout_ms=10_000,
        heartbeat_interval_ms=300,
        max_poll_records=2_000,
        max_partition_fetch_bytes=4_000_000,
    )


def _messages(consumer: KafkaConsumer, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        for messages in consumer.poll(timeout_ms=500, max_records=min(10_000, count - len(found))).values():
            found += messages
    return found
