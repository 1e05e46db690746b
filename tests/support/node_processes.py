"""Nodes as single processes on loopback, for tests that start, kill, join and remove them one by one."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.peers.api import tail
from bench.peers.processes import free_base_port, launch
from quorate.broker.node import toml
from quorate.broker.node.settings import (
    ClockSection,
    ClusterSection,
    Endpoint,
    ListenSection,
    ManagerSection,
    Member,
    NodeSection,
    NodeSettings,
    QueuesSection,
    RaftSection,
)

PATIENCE_S = 60.0
_HOST = "127.0.0.1"
_MOST = 9


def until(condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.05)


class Nodes:
    """Processes of one cluster, by their numbers. Whatever runs at the end is killed."""

    def __init__(
        self,
        folder: Path,
        founders: int = 3,
        *,
        suspect_after_ms: int = 1_000,
        dead_after_s: int = 300,
        moves_at_once: int = 4,
        move_bytes_per_s: int = 64 << 20,
        racks: Mapping[int, str] | None = None,
        uncertainty_ms: int = -1,
    ) -> None:
        self.folder = folder
        self._base = free_base_port([kind + node for kind in (0, 100, 200) for node in range(_MOST)])
        self._members = tuple(Member(node, self._endpoint(node, 200)) for node in range(1, founders + 1))
        self._clock = ClockSection(uncertainty_ms=uncertainty_ms)
        self._manager = ManagerSection(
            suspect_after_ms=suspect_after_ms,
            dead_after_s=dead_after_s,
            moves_at_once=moves_at_once,
            move_bytes_per_s=move_bytes_per_s,
        )
        self._racks = racks or {}
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        for member in self._members:
            self.start(member.node)
        for member in self._members:
            self.await_ready(member.node)
        return self

    def __exit__(self, *_: object) -> None:
        for node in list(self.running):
            self.kill(node)

    def _endpoint(self, node: int, kind: int) -> Endpoint:
        return Endpoint(_HOST, self._base + kind + node - 1)

    def http(self, node: int) -> str:
        return f"http://{self._endpoint(node, 100)}"

    @property
    def bootstrap(self) -> str:
        return ",".join(str(self._endpoint(node, 0)) for node in self.running)

    def home(self, node: int) -> Path:
        return self.folder / f"node-{node}"

    def settings(self, node: int, *, join: int | None = None, cluster: str = "test") -> NodeSettings:
        """A founder's settings, or those of a node that asks node `join` to be let in."""
        endpoints = () if join is None else (self._endpoint(join, 100),)
        return NodeSettings(
            node=NodeSection(id=node, dir=self.home(node), rack=self._racks.get(node, "")),
            cluster=ClusterSection(id=cluster, members=() if endpoints else self._members, join=endpoints),
            listen=ListenSection(
                kafka=self._endpoint(node, 0), http=self._endpoint(node, 100), peer=self._endpoint(node, 200)
            ),
            queues=QueuesSection(group_partitions=2),
            raft=RaftSection(heartbeat_ms=50, election_ms=500),
            clock=self._clock,
            manager=self._manager,
        )

    def start(self, node: int, *, join: int | None = None, cluster: str = "test", peer_of: int | None = None) -> None:
        """Start a process. `peer_of` gives it the addresses of another number, as a mistaken operator might."""
        settings = self.settings(node, join=join, cluster=cluster)
        if peer_of is not None:
            settings = dataclasses.replace(settings, listen=self.settings(peer_of, join=join).listen)
        file = self.folder / f"node-{node}.toml"
        self.folder.mkdir(parents=True, exist_ok=True)
        file.write_text(toml.dump(settings))
        self.running[node] = launch([sys.executable, "-m", "quorate.broker.node", str(file)], self.log(node))

    def log(self, node: int) -> Path:
        return self.folder / f"node-{node}.log"

    def said(self, node: int) -> str:
        return self.log(node).read_text(errors="replace")

    def ready(self, node: int) -> bool:
        try:
            with urllib.request.urlopen(f"{self.http(node)}/readyz", timeout=5) as answer:
                return int(answer.status) == 200
        except OSError:
            return False

    def await_ready(self, node: int) -> None:
        def check() -> bool:
            assert self.running[node].poll() is None, tail(self.log(node), 20)
            return self.ready(node)

        until(check, f"node {node} is ready")

    def await_end(self, node: int) -> int:
        """The exit code of a process that ends by itself."""
        try:
            return self.running[node].wait(PATIENCE_S)
        finally:
            self.kill(node)

    def kill(self, node: int) -> None:
        """kill -9."""
        process = self.running.pop(node)
        process.kill()
        process.wait()

    def stop(self, node: int) -> int:
        """As an operator does it; the exit code."""
        process = self.running.pop(node)
        process.send_signal(signal.SIGTERM)
        return process.wait(PATIENCE_S)

    # What the cluster says.

    def ask(self, path: str, method: str = "GET", body: dict[str, Any] | None = None, node: int | None = None) -> Any:
        http = self.http(node if node is not None else min(self.running))
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(http + path, data, method=method), timeout=20) as answer:
            return json.load(answer)

    def nodes(self) -> dict[int, dict[str, Any]]:
        return {one["id"]: one for one in self.ask("/v1/nodes")["nodes"]}

    def ask_about(self, node: int, asked: int) -> dict[str, Any]:
        """What one node says of another."""
        return next(one for one in self.ask("/v1/nodes", node=asked)["nodes"] if one["id"] == node)

    def partitions(self) -> list[dict[str, Any]]:
        return [one for queue in self.ask("/v1/queues")["queues"] for one in queue["partitions"]]

    def manager(self) -> int:
        """The node that leads `@cluster`; 0 while nobody does."""
        with contextlib.suppress(OSError):
            return int(self.ask("/v1/cluster")["manager"] or 0)
        return 0

    def create(self, name: str, partitions: int, replication: int = 3) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(name, partitions, replication)])[name].result(30)

    def delete(self, name: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.delete_topics([name])[name].result(30)

    def leader(self, name: str, partition: int = 0) -> int:
        """The node that leads a partition."""
        queue = next(one for one in self.ask("/v1/queues")["queues"] if one["name"] == name)
        return int(queue["partitions"][partition]["leader"])

    def cli(self, *arguments: str, node: int | None = None) -> subprocess.CompletedProcess[str]:
        """The real command, carried out."""
        command = self.command(*arguments, node=node)
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def command(self, *arguments: str, node: int | None = None) -> list[str]:
        http = self.http(node if node is not None else min(self.running))
        return [sys.executable, "-m", "quorate.cli", *arguments, "--http", http]


class Producing:
    """An idempotent producer that goes on until it is left, and what was acknowledged."""

    def __init__(self, bootstrap: str, queue: str, partitions: int) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2, "delivery.timeout.ms": 60_000}
        )
        self._queue, self._partitions = queue, partitions
        self.acknowledged: list[int] = []
        self.failed: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        number = 0
        while not self._over.wait(0.002):
            self._producer.produce(
                self._queue,
                str(number).encode(),
                partition=number % self._partitions,
                on_delivery=self._delivered,
            )
            self._producer.poll(0)
            number += 1
        if self._producer.flush(PATIENCE_S):
            self.failed.append("not everything was delivered in time")

    def _delivered(self, error: object, message: Message) -> None:
        if error is None:
            self.acknowledged.append(int(message.value() or b""))
        else:
            self.failed.append(str(error))

    def await_progress(self, count: int = 50) -> None:
        """Until so many more were acknowledged."""
        goal = len(self.acknowledged) + count
        until(lambda: len(self.acknowledged) >= goal, f"{count} more messages are acknowledged")

    def check(self, bootstrap: str) -> None:
        """Everything acknowledged is there, once and in order."""
        assert not self.failed, self.failed[:3]
        found = self._read(bootstrap)
        for partition, numbers in found.items():
            acknowledged = [one for one in sorted(self.acknowledged) if one % self._partitions == partition]
            assert numbers == sorted(set(numbers)), f"partition {partition} has something twice or out of order"
            missing = set(acknowledged) - set(numbers)
            assert not missing, (
                f"partition {partition} has lost {len(missing)} of {len(acknowledged)}: {sorted(missing)[:5]}"
            )

    def _read(self, bootstrap: str) -> dict[int, list[int]]:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
        consumer.assign([TopicPartition(self._queue, partition, 0) for partition in range(self._partitions)])
        found: dict[int, list[int]] = {partition: [] for partition in range(self._partitions)}
        deadline = time.monotonic() + PATIENCE_S
        while sum(map(len, found.values())) < len(self.acknowledged) and time.monotonic() < deadline:
            for message in consumer.consume(500, 0.2):
                value, partition = message.value(), message.partition()
                assert message.error() is None, message.error()
                assert value is not None
                assert partition is not None
                found[partition].append(int(value))
        consumer.close()
        return found
