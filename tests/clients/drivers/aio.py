"""aiokafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from tests.clients.drivers import aio_admin
from tests.clients.drivers.job import PATIENCE_S, Job, Told, as_record, number_of, numbered, of_record, say


class AioKafka:
    def produce(self, job: Job) -> None:
        _run(self._produce(job))

    def stream(self, job: Job) -> None:
        _run(self._stream(job))

    def write(self, job: Job) -> None:
        _run(self._write(job))

    def read(self, job: Job) -> None:
        _run(self._read(job))

    def records(self, job: Job) -> None:
        _run(self._records(job))

    def member(self, job: Job) -> None:
        _run(self._member(job))

    def commit(self, job: Job) -> None:
        _run(self._commit(job))

    def committed(self, job: Job) -> None:
        _run(self._committed(job))

    def seek(self, job: Job) -> None:
        _run(self._seek(job))

    def administer(self, job: Job) -> None:
        async def work() -> None:
            say(**await aio_admin.administer(job))

        _run(work())

    async def _produce(self, job: Job) -> None:
        async with _producer(job) as producer:
            sent = [
                await producer.send(job.topic, numbered(n, job.size), partition=n % job.partitions)
                for n in range(job.first, job.first + job.count)
            ]
            await _report(producer, sent)

    async def _stream(self, job: Job) -> None:
        told = Told()
        async with _producer(job) as producer:
            sent: list[asyncio.Future[Any]] = []
            done = reported = 0
            while not told:
                if len(sent) - done < 500:
                    sent.append(await producer.send(job.topic, numbered(len(sent), job.size), partition=0))
                else:
                    await asyncio.sleep(0.002)
                while done < len(sent) and sent[done].done():
                    done += 1
                if done - reported >= 200:
                    reported = done
                    say(acked=done)
            await _report(producer, sent)

    async def _write(self, job: Job) -> None:
        async with _producer(job) as producer:
            sent = []
            for record in job.records:
                key, value, headers = of_record(record)
                sent.append(await producer.send(job.topic, value, key, headers=headers, partition=0))
            await _report(producer, sent)

    async def _read(self, job: Job) -> None:
        async with _consumer(job) as consumer:
            partitions = [TopicPartition(job.topic, p) for p in range(job.partitions)]
            start = {}
            for one in partitions if job.skip else ():
                consumer.assign([one])
                await consumer.seek_to_beginning(one)
                start[one] = (await _messages(consumer, job.skip))[-1].offset + 1
            consumer.assign(partitions)
            await consumer.seek_to_beginning()
            for one, offset in start.items():
                consumer.seek(one, offset)
            numbers: dict[int, list[int]] = {p: [] for p in range(job.partitions)}
            for message in await _messages(consumer, job.count):
                numbers[message.partition].append(number_of(message.value))
            say(numbers=numbers)

    async def _records(self, job: Job) -> None:
        async with _consumer(job) as consumer:
            consumer.assign([TopicPartition(job.topic, 0)])
            await consumer.seek_to_beginning()
            say(records=[as_record(m.key, m.value, m.headers) for m in await _messages(consumer, job.count)])

    async def _member(self, job: Job) -> None:
        told = Told()
        consumer = _consumer(job)
        consumer.subscribe([job.topic], listener=_Listener())
        async with consumer:
            while not told:
                polled = await consumer.getmany(timeout_ms=100, max_records=2_000)
                numbers = [number_of(m.value) for messages in polled.values() for m in messages]
                if numbers:
                    await consumer.commit()
                    say(numbers=numbers)
        say(left=True)

    async def _commit(self, job: Job) -> None:
        async with _consumer(job) as consumer:
            partition = TopicPartition(job.topic, 0)
            consumer.assign([partition])
            await consumer.commit({partition: (job.first, "kept")})
        say(error=None)

    async def _committed(self, job: Job) -> None:
        async with _consumer(job) as consumer:
            partition = TopicPartition(job.topic, 0)
            consumer.assign([partition])
            # It gives the offset alone.
            say(offset=await consumer.committed(partition), metadata="kept")

    async def _seek(self, job: Job) -> None:
        async with _consumer(job) as consumer:
            partition = TopicPartition(job.topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, job.first)
            try:
                say(number=number_of((await consumer.getone()).value))
            except KafkaError as error:
                say(error=type(error).__name__)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    def on_partitions_revoked(self, revoked: Any) -> None:
        """Everything read is committed already."""

    def on_partitions_assigned(self, assigned: Any) -> None:
        say(assigned=sorted(one.partition for one in assigned))


def _run(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner() as runner:
        runner.run(work)


def _producer(job: Job) -> AIOKafkaProducer:
    return AIOKafkaProducer(
        bootstrap_servers=job.bootstrap,
        acks="all" if job.acks == -1 else job.acks,
        compression_type=None if job.compression == "none" else job.compression,
        enable_idempotence=job.idempotent,
        linger_ms=5,
        max_batch_size=100_000,
        max_request_size=4_000_000,
    )


def _consumer(job: Job) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        bootstrap_servers=job.bootstrap,
        group_id=job.group or None,
        enable_auto_commit=False,
        auto_offset_reset=job.reset,
        group_instance_id=job.instance or None,
        session_timeout_ms=10_000,
        heartbeat_interval_ms=300,
        max_partition_fetch_bytes=4_000_000,
    )


async def _report(producer: AIOKafkaProducer, sent: list[asyncio.Future[Any]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        answers = await asyncio.gather(*sent, return_exceptions=True)
    errors = [type(answer).__name__ for answer in answers if isinstance(answer, BaseException)]
    say(acked=len(sent) - len(errors), failed=len(errors), left=0, sent=len(sent), errors=sorted(set(errors)))


async def _messages(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        for messages in (await consumer.getmany(timeout_ms=500, max_records=min(10_000, count - len(found)))).values():
            found += messages
    return found
