"""A running cluster as tests see it: its topics, who leads what, and client processes beside it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.peers.api import Peer
from bench.peers.processes import await_condition
from tests.clients.drivers.job import PATIENCE_S, Job

_numbers = itertools.count(1)


class BrokerCluster:
    """A started peer, with what tests need beside it."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.bootstrap = peer.start()
        self.admin = self._new_admin()
        self._seen = "nothing"

    def _new_admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def topic(self, partitions: int = 1, replicas: int = 3, **config: str) -> str:
        """A new topic with a name of its own, led everywhere."""
        name = f"t{next(_numbers)}-{os.getpid()}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        # A node that was started again a moment ago may still be missing to the one that is asked.
        await_condition(
            lambda: self._created(NewTopic(name, partitions, replicas, config=settings)), f"{name} is made", 30.0
        )
        self.await_whole(name, partitions)
        return name

    def _created(self, new: NewTopic) -> bool:
        try:
            self.admin.create_topics([new])[new.topic].result(30)
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
                raise
            return False
        return True

    def await_whole(self, topic: str, partitions: int = 1) -> None:
        """Wait until every partition has a leader and all its replicas are in sync."""
        try:
            await_condition(lambda: self._whole(topic, partitions), f"{topic} is whole", 90.0, pause_s=0.1)
        except TimeoutError as late:
            raise TimeoutError(f"{late}; last seen: {self._seen}") from late

    def leader(self, topic: str, partition: int = 0) -> int:
        """The node that leads it."""
        return int(self.admin.list_topics(topic, timeout=10).topics[topic].partitions[partition].leader)

    def coordinator(self, group: str) -> int:
        """The node that coordinates a group."""
        found = self.admin.describe_consumer_groups([group], request_timeout=10)[group].result(20)
        return int(found.coordinator.id)

    def _whole(self, topic: str, partitions: int) -> bool:
        try:
            known = self.admin.list_topics(topic, timeout=10).topics[topic]
        except KafkaException as failure:
            # Nodes come and go in these tests: a new client begins with all of them.
            self._seen, self.admin = repr(failure), self._new_admin()
            return False
        found = known.partitions.values()
        self._seen = f"{known.error}, {[(one.leader, one.isrs) for one in found]}"
        return (
            known.error is None
            and len(found) == partitions
            and all(p.leader >= 0 and len(p.isrs) == len(p.replicas) for p in found)
        )

    @contextlib.contextmanager
    def without(self, node: int) -> Iterator[None]:
        """kill -9 now, and start it again afterwards, whatever happened."""
        self.peer.kill(node)
        try:
            yield
        finally:
            self.peer.restart(node)

    def run(self, job: Job) -> dict[str, Any]:
        """Run a client to its end; the last thing it said."""
        with ClientProcess(job) as client:
            return client.last()


class SpeakingProcess:
    """A process that says JSON objects, one per line. What it says is collected as it comes."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._rest = b""
        self.said: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def listen(self, patience_s: float = 0.0) -> bool:
        """Collect what has been said; False once the process has said its last."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], patience_s)
        if not ready:
            return True
        data = os.read(self._process.stdout.fileno(), 1 << 20)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.said += [json.loads(line) for line in lines if line.startswith(b"{")]
        return bool(data)

    def until(self, condition: Callable[[], bool], what: str, patience_s: float = 60.0) -> None:
        """Listen until a condition holds."""
        deadline = time.monotonic() + patience_s
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name}: waited in vain until {what}; last said {self.said[-1:]}")
            if not self.listen(0.1):
                raise RuntimeError(f"{self.name} ended before {what}")

    def tell(self) -> None:
        """Ask it to stop."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"stop\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """Ask it to end as an operator does, and wait for that."""
        self._process.terminate()
        self._process.wait(PATIENCE_S)

    def last(self) -> dict[str, Any]:
        """Wait for its end; the last thing it said."""
        deadline = time.monotonic() + 1.5 * PATIENCE_S
        while self.listen(0.2):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} does not end")
        code = self._process.wait(20)
        if code != 0 or not self.said:
            raise RuntimeError(f"{self.name} ended with {code}, its reason is above")
        return self.said[-1]


class ClientProcess(SpeakingProcess):
    """A Python client at work."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"{job.client} {job.do}", [sys.executable, "-m", "tests.clients.drivers", job.encode()])

    @property
    def acked(self) -> int:
        return max((said["acked"] for said in self.said if "acked" in said), default=0)

    @property
    def assigned(self) -> list[int]:
        return next((said["assigned"] for said in reversed(self.said) if "assigned" in said), [])

    @property
    def numbers(self) -> list[int]:
        return [number for said in self.said for number in said.get("numbers", ())]
