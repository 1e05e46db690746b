"""kafka-python's admin client: a queue and a group from their beginning to their end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.errors import KafkaError, UnknownTopicOrPartitionError
from kafka.structs import OffsetAndMetadata

from tests.clients.drivers.job import PATIENCE_S, Job


def administer(job: Job) -> dict[str, Any]:
    """All of it; what was seen on the way."""
    admin = KafkaAdminClient(bootstrap_servers=job.bootstrap.split(","))
    try:
        return {**_queue(admin, job), **_offsets(admin, job), **_group(admin, job), **_end(admin, job)}
    finally:
        admin.close()


def _queue(admin: KafkaAdminClient, job: Job) -> dict[str, Any]:
    wanted = {"num_partitions": 2, "replication_factor": 3, "configs": {"retention.ms": "86400000"}}
    admin.create_topics({job.topic: wanted}, wait_for_metadata=True)
    again = _refusal(lambda: admin.create_topics({job.topic: wanted}))
    admin.create_partitions({job.topic: job.partitions})
    shrunk = _refusal(lambda: admin.create_partitions({job.topic: 1}))
    _until(lambda: len(admin.describe_topics([job.topic])[0]["partitions"]) == job.partitions)
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, job.topic, {"max.message.bytes": "50000"})])
    _until(lambda: _config(admin, job.topic).get("max.message.bytes") == "50000")
    bad = ConfigResource(ConfigResourceType.TOPIC, job.topic, {"max.message.bytes": "many"})
    return {
        "again": again,
        "shrunk": shrunk,
        "config": _config(admin, job.topic),
        "bad config": "InvalidConfigurationError" in admin.alter_configs([bad])["topic"][job.topic],
        "too many replicas": _refusal(
            lambda: admin.create_topics({f"{job.topic}-wide": {"num_partitions": 1, "replication_factor": 9}})
        ),
        "bad name": _refusal(lambda: admin.create_topics({"bad name": {"num_partitions": 1, "replication_factor": 3}})),
    }


def _config(admin: KafkaAdminClient, topic: str) -> dict[str, str]:
    try:
        found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    except UnknownTopicOrPartitionError:
        return {}  # a broker that has not heard of it yet
    return {name: one["value"] for name, one in found["topic"][topic].items()}


def _offsets(admin: KafkaAdminClient, job: Job) -> dict[str, Any]:
    producer = KafkaProducer(bootstrap_servers=job.bootstrap.split(","), acks="all")
    placed = []
    for _ in range(10):
        placed.append(producer.send(job.topic, b"value", partition=0).get(PATIENCE_S).offset)
        time.sleep(0.002)  # so that their times differ
    producer.close()
    partition = TopicPartition(job.topic, 0)

    def listed(spec: OffsetSpec) -> int:
        return int(admin.list_partition_offsets({partition: spec})[partition].offset)

    before = [listed(OffsetSpec.LATEST), listed(OffsetSpec.MAX_TIMESTAMP)]
    admin.delete_records({partition: placed[5]})
    return {
        "latest": before[0] - placed[-1],
        "newest": before[1] - placed[-1],
        "earliest": listed(OffsetSpec.EARLIEST) - placed[5],
        "newest after deletion": listed(OffsetSpec.MAX_TIMESTAMP) - placed[-1],
        "beyond": _refusal(lambda: admin.delete_records({partition: 1_000_000})),
        "unknown": _refusal(lambda: admin.delete_records({TopicPartition(job.topic, 99): 0})),
    }


def _group(admin: KafkaAdminClient, job: Job) -> dict[str, Any]:
    consumer = KafkaConsumer(bootstrap_servers=job.bootstrap.split(","), group_id=job.group, enable_auto_commit=False)
    partitions = [TopicPartition(job.topic, 0), TopicPartition(job.topic, 1)]
    consumer.subscribe([job.topic])
    _until(lambda: consumer.poll(timeout_ms=100) is not None and bool(consumer.assignment()))
    consumer.commit({partition: OffsetAndMetadata(7, "", -1) for partition in partitions})
    [described] = admin.describe_groups([job.group]).values()
    told = {
        "state": described["group_state"],
        "members": len(described["members"]),
        "listed": [one["group_id"] for one in admin.list_groups() if one["group_id"] == job.group],
        "in use": admin.delete_groups([job.group])[job.group],
        "offset in use": _partition_errors(admin.delete_group_offsets(job.group, partitions[:1])),
    }
    consumer.close()
    _until(lambda: admin.describe_groups([job.group])[job.group]["group_state"] == "Empty")
    told["deleted"] = _partition_errors(admin.delete_group_offsets(job.group, partitions[:1]))
    left = admin.list_group_offsets({job.group: None})[job.group]
    told["left"] = sorted(partition.partition for partition in left)
    told["group deleted"] = admin.delete_groups([job.group])[job.group]
    told["group again"] = admin.delete_groups([job.group])[job.group]
    return told


def _end(admin: KafkaAdminClient, job: Job) -> dict[str, Any]:
    admin.delete_topics([job.topic])
    _until(lambda: job.topic not in admin.list_topics())
    return {"deleted again": _refusal(lambda: admin.delete_topics([job.topic]))}


def _partition_errors(found: dict[TopicPartition, Any]) -> list[str]:
    return [error.__name__ for error in found.values()]


def _refusal(ask: Callable[[], Any]) -> str | None:
    """What an error is called."""
    try:
        ask()
    except KafkaError as error:
        return type(error).__name__
    return None


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("waited in vain")
        time.sleep(0.05)
