"""Nodes die under load: nothing acknowledged is lost, doubled or out of order, and what a group committed stays."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.clients.drivers.job import Job
from tests.support.broker_cluster import BrokerCluster, ClientProcess

pytestmark = [pytest.mark.xdist_group("clients"), pytest.mark.timeout(900)]


def _job(cluster: BrokerCluster, topic: str, client: str, do: str, count: int = 0) -> Job:
    return Job(client=client, do=do, bootstrap=cluster.bootstrap, topic=topic, count=count, idempotent=True)


def _progress(client: ClientProcess, by: int = 1_000) -> None:
    """Until more is acknowledged than was on its way."""
    goal = client.acked + by
    client.until(lambda: client.acked >= goal, f"{goal} messages are acknowledged")


def _check(cluster: BrokerCluster, topic: str, client: str, said: dict[str, int]) -> None:
    assert said["failed"] == 0
    assert said["left"] == 0
    assert said["acked"] == said["sent"]
    found = cluster.run(_job(cluster, topic, client, "read", said["acked"]))["numbers"]["0"]
    assert found == list(range(said["acked"]))
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "nobody", "enable.partition.eof": True})
    try:
        assert _behind(consumer, topic, said["acked"]) == 0
    finally:
        consumer.close()


def _behind(consumer: Consumer, topic: str, expected: int) -> int:
    """How many messages are in partition 0 beyond the expected ones."""
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = 0
    while True:
        messages = consumer.consume(10_000, 30.0)
        assert messages, "the end of the partition was not reached"
        found += sum(message.error() is None for message in messages)
        if any(message.error() is not None for message in messages):
            return found - expected


@pytest.mark.parametrize("client", ["confluent", "kafka-python", "aiokafka"])
def test_idempotent_producer_outlives_its_leader(cluster: BrokerCluster, client: str) -> None:
    topic = cluster.topic()
    with ClientProcess(_job(cluster, topic, client, "stream")) as producer:
        _progress(producer)
        with cluster.without(cluster.leader(topic)):
            _progress(producer)
        producer.tell()
        said = producer.last()
    cluster.await_whole(topic)
    _check(cluster, topic, client, said)


def test_each_node_in_turn_dies_under_load(cluster: BrokerCluster, kill_rounds: int) -> None:
    topic = cluster.topic()
    nodes = sorted(cluster.peer.pids)
    with ClientProcess(_job(cluster, topic, "confluent", "stream")) as producer:
        _progress(producer)
        for turn in range(kill_rounds):
            with cluster.without(nodes[turn % len(nodes)]):
                _progress(producer)
            cluster.await_whole(topic)
        producer.tell()
        said = producer.last()
    print(f"{kill_rounds} rounds, {said['acked']} messages acknowledged")
    _check(cluster, topic, "confluent", said)


@pytest.mark.parametrize("client", ["confluent", "kafka-python", "aiokafka"])
def test_committed_offsets_outlive_the_coordinator(cluster: BrokerCluster, client: str) -> None:
    topic = cluster.topic()
    group = f"group-of-{topic}"

    def job(do: str) -> Job:
        return Job(client=client, do=do, bootstrap=cluster.bootstrap, topic=topic, group=group, first=123)

    assert cluster.run(job("commit")) == {"error": None}
    with cluster.without(cluster.coordinator(group)):
        assert cluster.run(job("committed")) == {"offset": 123, "metadata": "kept"}
    cluster.await_whole(topic)


def test_two_of_five_nodes_die(five_nodes: BrokerCluster) -> None:
    topic = five_nodes.topic(replicas=5)
    with ClientProcess(_job(five_nodes, topic, "confluent", "stream")) as producer:
        _progress(producer)
        for _ in range(2):
            five_nodes.peer.kill(five_nodes.leader(topic))
            _progress(producer)
        producer.tell()
        said = producer.last()
    _check(five_nodes, topic, "confluent", said)
