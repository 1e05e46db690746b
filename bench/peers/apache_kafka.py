"""Apache Kafka from Maven Central: KRaft nodes, each broker and controller in one, on loopback."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from bench.peers import maven
from bench.peers.api import NotHere, cpu_seconds, tail
from bench.peers.processes import await_condition, free_base_port, kill_pid, launch, listens, stop_all

_READY_S = 90.0
_FORMAT_S = 60.0
_CLUSTER_ID = "cXVvcmF0ZS1iZW5jaC0wMQ"

# Each with less memory than Kafka's scripts give it (1 GiB), because three of them share one machine here.
_HEAP = ("-Xms512m", "-Xmx512m", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Djava.awt.headless=true")

_SETTINGS = """\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}/data
default.replication.factor={replicas}
min.insync.replicas={majority}
offsets.topic.replication.factor={replicas}
offsets.topic.num.partitions=8
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={majority}
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
"""
_LOGGING = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %c: %m%n
"""


class ApacheKafka:
    """Nodes 1..n. As shipped Kafka leaves flushing to the kernel; `fsync` makes it flush each append before the answer."""

    def __init__(
        self, folder: Path, nodes: int = 3, *, fsync: bool = False, settings: Mapping[str, str] | None = None
    ) -> None:
        self.name = "kafka-fsync" if fsync else "kafka"
        self._folder = folder
        self._settings = {**(settings or {}), **({"log.flush.interval.messages": "1"} if fsync else {})}
        self._ids = range(1, nodes + 1)
        self._ports: dict[int, int] = {}
        self._controller_ports: dict[int, int] = {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._classpath = ""

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    @property
    def pids(self) -> dict[int, int]:
        return {node: process.pid for node, process in self._processes.items() if process.poll() is None}

    def start(self) -> str:
        self._classpath = maven.classpath(maven.kafka())
        base = free_base_port([*self._ids, *(100 + node for node in self._ids)])
        self._ports = {node: base + node for node in self._ids}
        self._controller_ports = {node: base + 100 + node for node in self._ids}
        for node in self._ids:
            self._configure(node)
        formatting = [self._format(node) for node in self._ids]
        for node, process in zip(self._ids, formatting, strict=True):
            if process.wait(_FORMAT_S) != 0:
                raise NotHere(f"Kafka's storage tool failed:\n{tail(self._log(node), 20)}")
        for node in self._ids:
            self.restart(node)
        await_condition(self._all_registered, f"{self.name} is ready", _READY_S, pause_s=0.2)
        return self.bootstrap

    def restart(self, node: int) -> None:
        logging = f"-Dlog4j.configuration=file:{self._home(node) / 'log4j.properties'}"
        command = [*self._java(*_HEAP, logging), "kafka.Kafka", str(self._home(node) / "server.properties")]
        self._processes[node] = launch(command, self._log(node))

    def kill(self, node: int) -> None:
        process = self._processes[node]
        kill_pid(process.pid)
        process.wait()

    def stop(self) -> None:
        stop_all(list(self._processes.values()))

    def cpu_seconds(self) -> float:
        return cpu_seconds(list(self.pids.values()))

    def log_tail(self, lines: int = 40) -> str:
        return "\n".join(tail(self._log(node), lines) for node in self._ids)

    def _configure(self, node: int) -> None:
        home = self._home(node)
        home.mkdir(parents=True, exist_ok=True)
        settings = _SETTINGS.format(
            node=node,
            voters=",".join(f"{other}@127.0.0.1:{port}" for other, port in self._controller_ports.items()),
            port=self._ports[node],
            controller_port=self._controller_ports[node],
            folder=home,
            replicas=min(3, len(self._ids)),
            majority=min(3, len(self._ids)) // 2 + 1,
        )
        settings += "".join(f"{name}={value}\n" for name, value in self._settings.items())
        (home / "server.properties").write_text(settings)
        (home / "log4j.properties").write_text(_LOGGING)

    def _format(self, node: int) -> subprocess.Popen[bytes]:
        settings = str(self._home(node) / "server.properties")
        command = [*self._java("-Xmx128m"), "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", settings]
        return launch(command, self._log(node))

    def _java(self, *options: str) -> list[str]:
        return [maven.java(), *options, "-cp", self._classpath]

    def _all_registered(self) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        for node, process in self._processes.items():
            if process.poll() is not None:
                raise NotHere(f"node {node} of Apache Kafka ended:\n{tail(self._log(node), 20)}")
        if not all(map(listens, self._ports.values())):
            return False
        try:
            known = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0}).list_topics(timeout=5).brokers
        except KafkaException:
            return False
        return len(known) == len(self._ids)

    def _home(self, node: int) -> Path:
        return self._folder / f"kafka-{node}"

    def _log(self, node: int) -> Path:
        return self._home(node) / "log.txt"
