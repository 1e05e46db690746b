"""A local cluster for a desk or a test: one process per node, on loopback, in one folder."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Self

from quorate.broker.node import toml
from quorate.broker.node.folder import CannotStart, kept_to_itself
from quorate.broker.node.settings import (
    BadSettings,
    ClockSection,
    ClusterSection,
    Endpoint,
    ListenSection,
    Member,
    NodeSection,
    NodeSettings,
    PeersSection,
    QueuesSection,
)

READY = "ready"
"""What a node's process prints when it takes requests."""
_READY_S = 60.0
_STOP_S = 20.0
_HOST = "127.0.0.1"
_TAIL_LINES = 15
_UNCERTAINTY_MS = 10
"""The nodes share one clock, so they agree whatever it says; this much is for its small corrections."""


class NotReady(RuntimeError):
    """The cluster did not start. The text ends with what the node that failed wrote last."""


@dataclass(frozen=True, slots=True)
class LocalNode:
    """One process."""

    settings: NodeSettings
    process: subprocess.Popen[bytes]
    log: Path

    def facts(self) -> dict[str, object]:
        listen = self.settings.listen
        return {
            "id": self.settings.node.id,
            "pid": self.process.pid,
            "kafka": str(listen.kafka),
            "http": f"http://{listen.http}",
            "peer": str(listen.peer),
        }


def local_settings(folder: Path, nodes: int, base_port: int, auto_create: bool) -> list[NodeSettings]:
    """The settings of each node. A folder that is in use keeps its cluster's size. Raises BadSettings."""
    replication = min(nodes, 3)
    made = sorted(folder.glob("node-*/node.toml"))
    if made and len(made) != nodes:
        raise BadSettings(
            f"{folder} holds a cluster of {len(made)} nodes; start it with --nodes {len(made)}, or name another --dir"
        )
    members = tuple(Member(n, Endpoint(_HOST, base_port + 199 + n)) for n in range(1, nodes + 1))
    # Whoever starts on other ports than before must find the others there, and not where they were.
    dial = {n: tuple(member for member in members if member.node != n) for n in range(1, nodes + 1)}
    return [
        NodeSettings(
            node=NodeSection(id=n, dir=folder.absolute() / f"node-{n}"),
            cluster=ClusterSection(id="local", members=members),
            listen=ListenSection(
                kafka=Endpoint(_HOST, base_port + n - 1),
                http=Endpoint(_HOST, base_port + 99 + n),
                peer=Endpoint(_HOST, base_port + 199 + n),
            ),
            peers=PeersSection(dial=dial[n]),
            queues=QueuesSection(replication=replication, auto_create=auto_create),
            clock=ClockSection(uncertainty_ms=_UNCERTAINTY_MS),
        )
        for n in range(1, nodes + 1)
    ]


class LocalCluster:
    """Use it as a context manager: entered when every node is ready; left when every node has stopped."""

    def __init__(self, folder: Path, *, nodes: int = 3, base_port: int = 9092, auto_create: bool = False) -> None:
        self._settings = local_settings(folder, nodes, base_port, auto_create)
        self._folder = folder
        self._held = ExitStack()
        self.nodes: list[LocalNode] = []
        self._over = False

    def __enter__(self) -> Self:
        try:
            # Before the nodes' files are written: those of a cluster that runs must stay as they are.
            self._held.enter_context(kept_to_itself(self._folder, "a cluster"))
        except CannotStart as error:
            raise NotReady(str(error)) from error
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._told_to_stop)
        try:
            self.nodes = [self._start(settings) for settings in self._settings]
            deadline = time.monotonic() + _READY_S
            for node in self.nodes:
                self._await_ready(node, deadline)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap(self) -> str:
        return ",".join(str(settings.listen.kafka) for settings in self._settings)

    def ready_json(self) -> str:
        """The line that DESIGN fixes for scripts."""
        first = self._settings[0].listen.http
        facts = {"event": READY, "bootstrap": self.bootstrap, "http": f"http://{first}"}
        return json.dumps(facts | {"nodes": [node.facts() for node in self.nodes]}, separators=(",", ":"))

    def ready_text(self) -> str:
        """The same for people."""
        return (
            f"ready: {len(self.nodes)} nodes. Kafka clients: {self.bootstrap}  HTTP: http://{self._settings[0].listen.http}"
            "  (Ctrl-C stops)"
        )

    def wait(self, say: Callable[[str], None]) -> None:
        """Until a signal comes, or the last node has ended."""
        gone: set[int] = set()
        while not self._over and len(gone) < len(self.nodes):
            for node in self.nodes:
                code, number = node.process.poll(), node.settings.node.id
                if code is not None and number not in gone:
                    gone.add(number)
                    say(f"node {number} has ended with code {code}; its log: {node.log}")
            # Interrupted by the signal that ends this.
            with suppress(InterruptedError):
                select.select([], [], [], 0.2)

    def stop(self) -> None:
        """Stop every node: politely, all at once, and then not."""
        for node in self.nodes:
            if node.process.poll() is None:
                node.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _STOP_S
        for node in self.nodes:
            try:
                node.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                node.process.kill()
                node.process.wait()
            if node.process.stdout is not None:
                node.process.stdout.close()
        self._held.close()

    def _told_to_stop(self, number: int, frame: FrameType | None) -> None:
        self._over = True

    def _start(self, settings: NodeSettings) -> LocalNode:
        folder = settings.node.dir
        folder.mkdir(parents=True, exist_ok=True)
        file, log = folder / "node.toml", folder / "log"
        file.write_text(toml.dump(settings))
        command = [sys.executable, "-m", "quorate.broker.node", str(file)]
        with log.open("ab") as out:
            # In a session of its own: Ctrl-C reaches `up` alone, which stops the nodes in its own way.
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=out,
                start_new_session=True,
                env=node_environment(),
            )
        return LocalNode(settings, process, log)

    def _await_ready(self, node: LocalNode, deadline: float) -> None:
        out = node.process.stdout
        assert out is not None, "it was started with a pipe"
        while not self._over:
            ready, _, _ = select.select([out], [], [], min(0.2, max(0.0, deadline - time.monotonic())))
            if ready:
                if out.readline().strip() == READY.encode():
                    return
                raise NotReady(f"node {node.settings.node.id} did not start{_tail(node.log)}")
            if time.monotonic() >= deadline:
                raise NotReady(f"node {node.settings.node.id} was not ready after {_READY_S:.0f} s{_tail(node.log)}")


def node_environment() -> dict[str, str]:
    """The nodes find the package where this process found it."""
    root = str(Path(sys.modules["quorate"].__path__[0]).parent)
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
    return f". The end of {log}:\n" + "\n".join(lines)
