"""A local cluster of real processes, as `quorate up` starts it: drain, removal, restart, refusals."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.peers.processes import free_base_port

PATIENCE_S = 60.0
COUNT = 2_000


def free_base(nodes: int) -> int:
    """A base port whose three ranges nobody else uses."""
    return free_base_port([kind + node for kind in (0, 100, 200) for node in range(nodes)])


@contextmanager
def up(folder: Path, base: int, nodes: int) -> Iterator[dict[str, Any]]:
    """`quorate up`, and what it says when it is ready."""
    command = [sys.executable, "-m", "quorate.cli", "up", "--nodes", str(nodes), "--dir", str(folder)]
    process = subprocess.Popen([*command, "--base-port", str(base), "--json"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(PATIENCE_S)
        assert process.stdout is not None
        process.stdout.close()
    assert code == 0


def ask(http: str, path: str, method: str = "GET", body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(http + path, data, method=method), timeout=20) as answer:
        return json.load(answer)


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.05)


def create(bootstrap: str, name: str, partitions: int, replication: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, replication)])[name].result(30)


def produce(bootstrap: str, name: str, partitions: int) -> None:
    failed = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2})
    for number in range(COUNT):
        producer.produce(
            name, str(number).encode(), partition=number % partitions, on_delivery=lambda error, _: failed.append(error)
        )
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    assert not any(failed)


def consume(bootstrap: str, name: str, partitions: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(name, partition, 0) for partition in range(partitions)])
    numbers: list[int] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(numbers) < COUNT and time.monotonic() < deadline:
        for message in consumer.consume(500, 0.2):
            value = message.value()
            assert message.error() is None
            assert value is not None
            numbers.append(int(value))
    consumer.close()
    return sorted(numbers)


def replicas(http: str, node: int) -> int:
    return next(int(one["replicas"]) for one in ask(http, "/v1/nodes")["nodes"] if one["id"] == node)


@pytest.mark.timeout(240)
def test_a_node_is_drained_and_removed_and_everything_is_found_again(tmp_path: Path) -> None:
    base = free_base(4)
    with up(tmp_path / "c", base, 4) as said:
        http, bootstrap = said["http"], said["bootstrap"]
        create(bootstrap, "orders", 4, 3)
        produce(bootstrap, "orders", 4)
        assert replicas(http, 4) > 0
        ask(http, "/v1/nodes/4/drain", "POST")
        until(lambda: replicas(http, 4) == 0, "node 4 holds nothing")
        logs = tmp_path / "c" / "node-4" / "logs"
        until(lambda: [one.name for one in logs.glob("g[0-9]*")] == ["g0-1"], "its space is given back")
        for queue in ask(http, "/v1/queues")["queues"]:
            assert all(4 not in one["replicas"] and len(one["replicas"]) == 3 for one in queue["partitions"])
        assert consume(bootstrap, "orders", 4) == list(range(COUNT))
    with up(tmp_path / "c", base, 4) as said:
        assert consume(said["bootstrap"], "orders", 4) == list(range(COUNT))
        ask(said["http"], "/v1/nodes/4/undrain", "POST")
        moves = ask(said["http"], "/v1/rebalance", "POST", {"dry_run": True})["moves"]
        assert moves
        assert {move["to"] for move in moves} == {4}


@pytest.mark.timeout(240)
def test_a_running_cluster_is_left_alone_and_starts_again_on_other_ports(tmp_path: Path) -> None:
    folder, base = tmp_path / "c", free_base(3)
    with up(folder, base, 3) as said:
        create(said["bootstrap"], "orders", 2, 3)
        produce(said["bootstrap"], "orders", 2)
        files = {file: file.read_text() for file in folder.glob("node-*/node.toml")}
        elsewhere = free_base(3)
        ended = run("up", "--dir", str(folder), "--base-port", str(elsewhere))
        assert ended.returncode == 1
        assert "is in use: a cluster runs there already" in ended.stderr
        assert {file: file.read_text() for file in files} == files
        ended = run("node", "--config", str(folder / "node-1" / "node.toml"))
        assert ended.returncode == 1
        assert "is in use: node 1 runs there already" in ended.stderr
        assert "connected with" not in ended.stderr, "the others must not take it for node 1"
    with up(folder, elsewhere, 3) as said:
        assert {node["kafka"] for node in ask(said["http"], "/v1/nodes")["nodes"]} == set(said["bootstrap"].split(","))
        assert consume(said["bootstrap"], "orders", 2) == list(range(COUNT))


@pytest.mark.timeout(120)
def test_a_deleted_queue_gives_its_space_back(tmp_path: Path) -> None:
    with up(tmp_path / "c", free_base(1), 1) as said:
        create(said["bootstrap"], "short-lived", 3, 1)
        logs = tmp_path / "c" / "node-1" / "logs"
        before = set(logs.glob("g[0-9]*"))
        admin = AdminClient({"bootstrap.servers": said["bootstrap"]})
        admin.delete_topics(["short-lived"])["short-lived"].result(30)
        until(lambda: len(before - set(logs.glob("g[0-9]*"))) == 3, "the folders are gone")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "quorate.cli", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_folder_belongs_to_one_node_of_one_cluster(tmp_path: Path) -> None:
    (tmp_path / "c" / "node-1").mkdir(parents=True)
    (tmp_path / "c" / "node-1" / "identity").write_text("other\n1\n")
    ended = run("up", "--nodes", "1", "--dir", str(tmp_path / "c"), "--base-port", str(free_base(1)))
    assert ended.returncode == 1
    assert "belongs to node 1 of cluster 'other'" in ended.stderr


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    base = free_base(1)
    with socket.create_server(("127.0.0.1", base)):
        ended = run("up", "--nodes", "1", "--dir", str(tmp_path / "c"), "--base-port", str(base))
    assert ended.returncode == 1
    assert f"cannot listen on 127.0.0.1:{base} for Kafka clients" in ended.stderr


def test_the_number_of_nodes_is_fixed_by_the_folder(tmp_path: Path) -> None:
    for node in (1, 2):
        (tmp_path / f"node-{node}").mkdir()
        (tmp_path / f"node-{node}" / "node.toml").write_text("")
    ended = run("up", "--nodes", "3", "--dir", str(tmp_path))
    assert ended.returncode == 2
    assert "holds a cluster of 2 nodes" in ended.stderr
