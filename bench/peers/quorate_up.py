"""Quorate by its own command: `quorate up`, which starts one process per node and says when they are ready."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from bench.peers.api import NotHere, cpu_seconds, tail
from bench.peers.processes import STOP_S, alive, await_condition, free_base_port, kill_pid, launch, stop_all

_READY_S = 60.0

# Not the installed script: this is the source tree that we stand in, which need not be the installed one.
_QUORATE = (sys.executable, "-c", "from quorate.cli.main import main; main()")


class QuorateUp:
    """Nodes 1..n of `quorate up`. A killed node is started again by `quorate node` with the file that `up` wrote for it."""

    def __init__(self, folder: Path, nodes: int = 3) -> None:
        self.name = "quorate"
        self._folder = folder
        self._count = nodes
        self._up: subprocess.Popen[bytes] | None = None
        self._started: dict[int, subprocess.Popen[bytes]] = {}
        self._nodes: dict[int, dict[str, Any]] = {}
        self._pids: dict[int, int] = {}
        self.bootstrap = ""
        self.ready_s = 0.0

    @property
    def pids(self) -> dict[int, int]:
        return {node: pid for node, pid in self._pids.items() if alive(pid)}

    def start(self) -> str:
        began = time.monotonic()
        base = free_base_port([kind + node for kind in (0, 100, 200) for node in range(self._count)])
        options = ["--nodes", str(self._count), "--dir", str(self._data), "--base-port", str(base), "--json"]
        self._folder.mkdir(parents=True, exist_ok=True)
        self._output.unlink(missing_ok=True)
        self._up = launch([*_QUORATE, "up", *options], self._output)
        await_condition(lambda: self._ready_line() is not None, "`quorate up` says ready", _READY_S)
        ready = self._ready_line()
        assert ready is not None
        self.ready_s = time.monotonic() - began
        self.bootstrap = ready["bootstrap"]
        self._nodes = {node["id"]: node for node in ready["nodes"]}
        self._pids = {node: said["pid"] for node, said in self._nodes.items()}
        return self.bootstrap

    def all_ready(self) -> bool:
        """Whether every node says that it serves."""
        return all(_says_ready(f"{said['http']}/readyz") for said in self._nodes.values())

    def kill(self, node: int) -> None:
        kill_pid(self._pids[node])
        if node in self._started:
            self._started[node].wait()

    def restart(self, node: int) -> None:
        self._started[node] = launch([*_QUORATE, "node", "--config", str(self._settings(node))], self._restart_log(node))
        self._pids[node] = self._started[node].pid

    def stop(self) -> None:
        if self._up is not None and self._up.poll() is None:
            # As Ctrl-C does it.
            self._up.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self._up is not None:
                self._up.wait(STOP_S)
        stop_all([*self._started.values(), *([self._up] if self._up is not None else [])])
        for pid in self.pids.values():
            kill_pid(pid)

    def cpu_seconds(self) -> float:
        return cpu_seconds(list(self.pids.values()))

    def log_tail(self, lines: int = 40) -> str:
        logs = [self._output, *sorted(self._data.glob("node-*/log")), *sorted(self._folder.glob("restarted-*.log"))]
        return "\n".join(tail(log, lines) for log in logs if log.is_file())

    def _ready_line(self) -> dict[str, Any] | None:
        if self._up is not None and self._up.poll() is not None:
            raise NotHere(f"`quorate up` ended with {self._up.returncode}:\n{tail(self._output, 20)}")
        for line in self._output.read_text(errors="replace").splitlines(keepends=True):
            if line.startswith("{") and line.endswith("\n"):
                with contextlib.suppress(json.JSONDecodeError):
                    said: dict[str, Any] = json.loads(line)
                    if said.get("event") == "ready":
                        return said
        return None

    def _settings(self, node: int) -> Path:
        return self._data / f"node-{node}" / "node.toml"

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def _output(self) -> Path:
        return self._folder / "up.log"

    def _restart_log(self, node: int) -> Path:
        return self._folder / f"restarted-{node}.log"


def _says_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
