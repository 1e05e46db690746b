"""What the proofs share: a driver process that can be killed whole, numbered messages, and what a queue holds in the end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from confluent_kafka import Producer

from bench.peers.processes import await_condition
from tests.spark.proofs.hooked import FOLDER, reached
from tests.support.broker_cluster import BrokerCluster
from tests.support.queue_contents import contents
from tests.support.spark_home import spark_home

START_S = 240.0
"""A JVM, a session and a first batch, on a machine that does other things too."""


class Driver:
    """The driver in a session of its own, so that Java and the workers die with it."""

    def __init__(self, spec: dict[str, str], hooks: Path, log: Path) -> None:
        self._log = log
        home = spark_home(log.parent)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.proofs.driver", json.dumps(spec)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, FOLDER: str(hooks), "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": home},
            )

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """kill -9 of all of it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait, as long as it lives."""

        def met() -> bool:
            if self._process.poll() is not None:
                raise RuntimeError(f"the driver ended with {self._process.returncode} before {what}:\n{self.tail()}")
            return condition()

        try:
            await_condition(met, what, START_S, pause_s=0.05)
        except TimeoutError as late:
            raise TimeoutError(f"{late}\n{self.tail()}") from late

    def until_reached(self, hooks: Path, step: str) -> None:
        self.until(lambda: reached(hooks), f"it is at {step}")

    def until_done(self) -> None:
        try:
            code = self._process.wait(START_S)
        except subprocess.TimeoutExpired as late:
            raise TimeoutError(f"the driver does not end:\n{self.tail()}") from late
        assert code == 0, self.tail()

    def tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-40:])


def produce(cluster: BrokerCluster, queue: str, numbers: Iterable[int], partitions: int) -> None:
    """Numbered messages, one after the other over the partitions; all acknowledged."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for number in numbers:
        producer.produce(
            queue, str(number).encode(), partition=number % partitions, on_delivery=lambda error, _: failed.append(error)
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not any(failed)


def held(cluster: BrokerCluster, queue: str) -> Counter[int]:
    """How often each number stands in a queue."""
    return Counter(int(record.value or b"-1") for _, record in contents(cluster.bootstrap, queue))


def holds_each_once(cluster: BrokerCluster, queue: str, numbers: Iterable[int], patience_s: float = 60.0) -> None:
    """Wait until all of them can be read (a commit is published soon after), then look whether any came twice."""
    wanted = set(numbers)
    deadline = time.monotonic() + patience_s
    while not wanted <= (found := held(cluster, queue)).keys() and time.monotonic() < deadline:
        time.sleep(0.2)
    missing, doubled = wanted - found.keys(), sorted(number for number, times in found.items() if times > 1)
    assert not missing, f"{len(missing)} are missing: {sorted(missing)[:10]}"
    assert not doubled, f"{len(doubled)} came twice: {doubled[:10]}"
    assert found.keys() == wanted, f"nobody sent {sorted(found.keys() - wanted)[:10]}"
