"""The Java client, driven by Kafka's own tools from Maven Central. Skipped where they cannot be had."""

from __future__ import annotations

import json
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bench.peers import maven
from bench.peers.api import NotHere
from tests.clients.drivers.job import Job
from tests.support.broker_cluster import BrokerCluster, SpeakingProcess

pytestmark = pytest.mark.xdist_group("clients")

COUNT = 100_000
PARTITIONS = 6
_TOOLS = "org.apache.kafka.tools."


@pytest.fixture(scope="module", params=["3.9.0", "4.1.0"])
def classpath(request: pytest.FixtureRequest) -> str:
    try:
        return maven.classpath(maven.kafka(request.param))
    except NotHere as missing:
        pytest.skip(f"the Java client is not here: {missing}")


def _command(classpath: str, name: str, *arguments: str) -> list[str]:
    return [maven.java(), "-Xmx256m", "-cp", classpath, name, *arguments]


def _tool(classpath: str, name: str, *arguments: str) -> str:
    command = _command(classpath, name if "." in name else _TOOLS + name, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _speaking(classpath: str, name: str, *arguments: str) -> SpeakingProcess:
    return SpeakingProcess(name, _command(classpath, _TOOLS + name, *arguments))


def test_performance_tools(cluster: BrokerCluster, classpath: str) -> None:
    topic = cluster.topic(3)
    properties = ("--producer-props", f"bootstrap.servers={cluster.bootstrap}", "acks=all", "enable.idempotence=true")
    load = ("--topic", topic, "--num-records", str(COUNT), "--record-size", "100", "--throughput", "-1")
    said = _tool(classpath, "ProducerPerformance", *load, *properties)
    assert f"{COUNT} records sent" in said

    read = ("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--messages", str(COUNT), "--timeout", "60000")
    said = _tool(classpath, "ConsumerPerformance", *read, "--group", f"group-of-{topic}")
    header, figures = (line.split(", ") for line in said.splitlines()[:2])
    assert int(figures[header.index("data.consumed.in.nMsg")]) >= COUNT


def _heard(process: SpeakingProcess, name: str) -> list[dict[str, Any]]:
    process.listen()
    return [said for said in process.said if said.get("name") == name]


def test_an_idempotent_producer_outlives_its_leader(cluster: BrokerCluster, classpath: str, tmp_path: Path) -> None:
    topic, count = cluster.topic(), 6_000
    # The tool itself would have no retries.
    settings = {"enable.idempotence": "true", "retries": "2147483647", "delivery.timeout.ms": "90000"}
    (tmp_path / "producer").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    load = ("--topic", topic, "--max-messages", str(count), "--throughput", "1500", "--acks", "-1")
    where = ("--bootstrap-server", cluster.bootstrap, "--producer.config", str(tmp_path / "producer"))
    with _speaking(classpath, "VerifiableProducer", *where, *load) as producer:
        producer.until(lambda: len(_heard(producer, "producer_send_success")) > 1_000, "some are acknowledged")
        with cluster.without(cluster.leader(topic)):
            producer.last()
    names = [said.get("name") for said in producer.said]
    assert "producer_send_error" not in names
    assert names.count("producer_send_success") == count
    cluster.await_whole(topic)
    found = cluster.run(Job(client="confluent", do="read", bootstrap=cluster.bootstrap, topic=topic, count=count))
    assert found["numbers"]["0"] == list(range(count))


def test_members_join_and_leave(cluster: BrokerCluster, classpath: str) -> None:
    topic = cluster.topic(PARTITIONS)
    options = ("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--group-id", f"group-of-{topic}")

    def share(member: SpeakingProcess) -> list[int]:
        given = _heard(member, "partitions_assigned")
        return sorted(one["partition"] for one in given[-1]["partitions"]) if given else []

    def shared(members: list[SpeakingProcess]) -> bool:
        shares = [share(member) for member in members]
        return sorted(p for one in shares for p in one) == list(range(PARTITIONS)) and all(
            len(one) == PARTITIONS // len(members) for one in shares
        )

    def read(members: list[SpeakingProcess]) -> int:
        return sum(said["count"] for member in members for said in _heard(member, "records_consumed"))

    with ExitStack() as stack:
        members = [stack.enter_context(_speaking(classpath, "VerifiableConsumer", *options)) for _ in range(3)]
        members[0].until(lambda: shared(members), "three members share the partitions")
        job = Job(
            client="confluent", do="produce", bootstrap=cluster.bootstrap, topic=topic, partitions=PARTITIONS, count=3_000
        )
        assert cluster.run(job)["acked"] == 3_000
        members[0].until(lambda: read(members) >= 3_000, "everything is read")
        members[0].end()
        members[1].until(lambda: shared(members[1:]), "the others share what it had")
        assert cluster.run(job)["acked"] == 3_000
        members[1].until(lambda: read(members) >= 6_000, "everything is read")


def test_tools_for_administrators(cluster: BrokerCluster, classpath: str, tmp_path: Path) -> None:
    topic = f"java-{tmp_path.parent.name}-{tmp_path.name}".replace("_", "-")
    at = ("--bootstrap-server", cluster.bootstrap)
    named = (*at, "--topic", topic)
    _tool(classpath, "TopicCommand", *named, "--create", "--partitions", "2", "--config", "retention.ms=86400000")
    _tool(classpath, "TopicCommand", *named, "--alter", "--partitions", "3")
    cluster.await_whole(topic, 3)
    described = _tool(classpath, "TopicCommand", *named, "--describe")
    assert "PartitionCount: 3" in described
    assert "retention.ms=86400000" in described

    entity = (*at, "--entity-type", "topics", "--entity-name", topic)
    _tool(classpath, "kafka.admin.ConfigCommand", *entity, "--alter", "--add-config", "max.message.bytes=50000")
    assert "max.message.bytes=50000" in _tool(classpath, "kafka.admin.ConfigCommand", *entity, "--describe")

    job = Job(client="confluent", do="produce", bootstrap=cluster.bootstrap, topic=topic, count=100)
    assert cluster.run(job)["acked"] == 100

    def offset(time: int) -> int:
        said = _tool(classpath, "GetOffsetShell", *at, "--topic-partitions", f"{topic}:0", "--time", str(time))
        return int(said.strip().rpartition(":")[2])

    latest = offset(-1)
    assert offset(-3) < latest, "the newest message is before the end"
    (tmp_path / "delete").write_text(
        json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": latest - 10}]})
    )
    _tool(classpath, "DeleteRecordsCommand", *at, "--offset-json-file", str(tmp_path / "delete"))
    assert offset(-2) == latest - 10

    group = (*at, "--group", f"group-of-{topic}", "--timeout", "60000")
    groups = "consumer.group.ConsumerGroupCommand"
    _tool(classpath, _TOOLS + groups, *group, "--topic", topic, "--reset-offsets", "--to-earliest", "--execute")
    assert str(latest - 10) in _tool(classpath, _TOOLS + groups, *group, "--describe")
    said = _tool(classpath, _TOOLS + groups, *group, "--delete-offsets", "--topic", f"{topic}:0")
    assert said.count("Successful") == 1
    said = _tool(classpath, _TOOLS + groups, *group, "--delete")
    assert "Error" not in said

    _tool(classpath, "TopicCommand", *named, "--delete")
    assert topic not in _tool(classpath, "TopicCommand", *at, "--list").split()
