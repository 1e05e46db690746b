"""Topics are created, grown, described and deleted by admin clients, and mistakes there get Kafka's own errors."""

from __future__ import annotations

import os
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from bench.peers.processes import await_condition
from tests.clients.drivers.job import Job
from tests.support.broker_cluster import BrokerCluster

pytestmark = pytest.mark.xdist_group("clients")


def _code(failure: pytest.ExceptionInfo[KafkaException]) -> int:
    return int(failure.value.args[0].code())


def test_create_grow_and_delete(cluster: BrokerCluster) -> None:
    topic = cluster.topic(2)
    admin = cluster.admin
    assert len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 2
    with pytest.raises(KafkaException) as again:
        admin.create_topics([NewTopic(topic, 2, 3)])[topic].result(30)
    assert _code(again) == KafkaError.TOPIC_ALREADY_EXISTS

    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(30)
    cluster.await_whole(topic, 5)
    with pytest.raises(KafkaException) as shrunk:
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    assert _code(shrunk) == KafkaError.INVALID_PARTITIONS
    said = cluster.run(
        Job(client="confluent", do="produce", bootstrap=cluster.bootstrap, topic=topic, partitions=5, count=1_000)
    )
    assert said["acked"] == 1_000

    admin.delete_topics([topic])[topic].result(30)
    await_condition(lambda: topic not in admin.list_topics(timeout=10).topics, "the topic is gone", 30.0)
    with pytest.raises(KafkaException) as gone:
        admin.delete_topics([topic])[topic].result(30)
    assert _code(gone) == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "code"),
    [
        ("bad name", 1, 3, KafkaError.TOPIC_EXCEPTION),
        ("x" * 250, 1, 3, KafkaError.TOPIC_EXCEPTION),
        ("too-many-replicas", 1, 9, KafkaError.INVALID_REPLICATION_FACTOR),
        ("no-partitions", 0, 3, KafkaError.INVALID_PARTITIONS),
    ],
)
def test_bad_topics_are_refused(cluster: BrokerCluster, name: str, partitions: int, replicas: int, code: int) -> None:
    with pytest.raises(KafkaException) as refused:
        cluster.admin.create_topics([NewTopic(name, partitions, replicas)])[name].result(30)
    assert _code(refused) == code


def test_a_setting_is_described(cluster: BrokerCluster) -> None:
    topic = cluster.topic(max_message_bytes="2000000")
    resource = ConfigResource(ResourceType.TOPIC, topic)

    def described() -> bool:
        # A broker that has not heard of the topic yet says so.
        try:
            found = cluster.admin.describe_configs([resource])[resource].result(30)
        except KafkaException as failure:
            if failure.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return False
            raise
        return bool(found["max.message.bytes"].value == "2000000")

    await_condition(described, "the setting is described", 30.0)


def _administer(cluster: BrokerCluster, client: str) -> dict[str, Any]:
    topic = f"administered-by-{client}-{os.getpid()}"
    group = f"group-of-{topic}"
    return cluster.run(
        Job(client=client, do="administer", bootstrap=cluster.bootstrap, topic=topic, group=group, partitions=4)
    ) | {"group": group}


def test_all_that_kafka_pythons_admin_does(cluster: BrokerCluster) -> None:
    said = _administer(cluster, "kafka-python")
    assert said == {
        "again": "TopicAlreadyExistsError",
        "shrunk": "InvalidPartitionsError",
        "config": {"retention.ms": "86400000", "max.message.bytes": "50000"},
        "bad config": True,
        "too many replicas": "InvalidReplicationFactorError",
        "bad name": "InvalidTopicError",
        "latest": 1,
        "newest": 0,
        "earliest": 0,
        "newest after deletion": 0,
        "beyond": "OffsetOutOfRangeError",
        "unknown": "UnknownTopicOrPartitionError",
        "state": "Stable",
        "members": 1,
        "listed": [said["group"]],
        "in use": "NonEmptyGroupError",
        "offset in use": ["GroupSubscribedToTopicError"],
        "deleted": ["NoError"],
        "left": [1],
        "group deleted": "OK",
        "group again": "GroupIdNotFoundError",
        "deleted again": "UnknownTopicOrPartitionError",
        "group": said["group"],
    }


def test_all_that_aiokafkas_admin_does(cluster: BrokerCluster) -> None:
    said = _administer(cluster, "aiokafka")
    assert said == {
        "created": [0],
        "again": [KafkaError.TOPIC_ALREADY_EXISTS],
        "brokers": 3,
        "start": 0,
        "state": "Stable",
        "members": 1,
        "offset": 7,
        "listed": [said["group"]],
        "deleted": [0],
        "group": said["group"],
    }


def test_kafka_pythons_admin_sees_the_cluster(cluster: BrokerCluster) -> None:
    topic = cluster.topic(2)
    said = cluster.run(Job(client="kafka-python", do="look", bootstrap=cluster.bootstrap, topic=topic))
    assert topic in said["topics"]
    assert said["brokers"] == sorted(cluster.peer.pids)
