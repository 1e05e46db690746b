"""aiokafka's admin client: a queue and a group from their beginning to their end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.clients.drivers.job import PATIENCE_S, Job


async def administer(job: Job) -> dict[str, Any]:
    """All of it; what was seen on the way."""
    admin = AIOKafkaAdminClient(bootstrap_servers=job.bootstrap)
    await admin.start()
    try:
        return {
            **await _queue(admin, job),
            **await _records(admin, job),
            **await _group(admin, job),
            **await _end(admin, job),
        }
    finally:
        await admin.close()


async def _queue(admin: AIOKafkaAdminClient, job: Job) -> dict[str, Any]:
    new = NewTopic(job.topic, 2, 3, topic_configs={"retention.ms": "86400000"})
    created = _codes(await admin.create_topics([new]))
    again = _codes(await admin.create_topics([new]))

    async def count() -> int:
        [said] = await admin.describe_topics([job.topic])
        return sum(partition["leader"] >= 0 for partition in said["partitions"])

    await _until(count, 2)
    await admin.create_partitions({job.topic: NewPartitions(job.partitions)})
    await _until(count, job.partitions)

    async def retention() -> Any:
        resource = ConfigResource(ConfigResourceType.TOPIC, job.topic, {"retention.ms": None})
        [said] = await admin.describe_configs([resource])
        [(_, _, _, _, configs)] = said.resources
        return next((config[1] for config in configs if config[0] == "retention.ms"), None)

    await _until(retention, "86400000")
    return {"created": created, "again": again, "brokers": len((await admin.describe_cluster())["brokers"])}


async def _records(admin: AIOKafkaAdminClient, job: Job) -> dict[str, Any]:
    partition = TopicPartition(job.topic, 0)
    async with AIOKafkaProducer(bootstrap_servers=job.bootstrap, acks="all") as producer:
        placed = [(await producer.send_and_wait(job.topic, b"value", partition=0)).offset for _ in range(10)]
    start = (await admin.delete_records({partition: RecordsToDelete(placed[5])}))[partition]
    return {"start": start - placed[5]}


async def _group(admin: AIOKafkaAdminClient, job: Job) -> dict[str, Any]:
    partition = TopicPartition(job.topic, 0)
    consumer = AIOKafkaConsumer(job.topic, bootstrap_servers=job.bootstrap, group_id=job.group, enable_auto_commit=False)
    async with consumer:

        async def assigned() -> int:
            await consumer.getmany(timeout_ms=50)
            return len(consumer.assignment())

        await _until(assigned, job.partitions)
        await consumer.commit({partition: (7, "")})
        [said] = await admin.describe_consumer_groups([job.group])
        [group] = said.groups
        offsets = await admin.list_consumer_group_offsets(job.group)
        listed = [name for name, _ in await admin.list_consumer_groups() if name == job.group]
        return {"state": group[2], "members": len(group[5]), "offset": offsets[partition].offset, "listed": listed}


async def _end(admin: AIOKafkaAdminClient, job: Job) -> dict[str, Any]:
    deleted = [code for _, code in (await admin.delete_topics([job.topic])).topic_error_codes]

    async def there() -> bool:
        return job.topic in await admin.list_topics()

    await _until(there, False)
    return {"deleted": deleted}


def _codes(answer: Any) -> list[int]:
    return [one[1] for one in answer.topic_errors]


async def _until(look: Callable[[], Awaitable[Any]], wanted: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (found := await look()) != wanted:
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited in vain for {wanted!r}; there is {found!r}")
        await asyncio.sleep(0.05)
