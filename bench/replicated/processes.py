"""Starting, killing and stopping the benchmark's processes."""

from __future__ import annotations

import json
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.replicated.client import ClientSpec
from bench.replicated.node import NodeSpec

_START_S = 180.0
_STOP_S = 30.0


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on just now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def start(module: str, argument: str) -> subprocess.Popen[str]:
    """A process of ours; its log goes to our stderr."""
    return subprocess.Popen([sys.executable, "-m", module, argument], stdout=subprocess.PIPE, text=True)


def line_of(process: subprocess.Popen[str], patience_s: float) -> str:
    """The next line that a process prints. Raises TimeoutError, or RuntimeError if it ends instead."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], patience_s)
    if not ready:
        raise TimeoutError(f"{process.args!r} said nothing for {patience_s} s")
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"{process.args!r} ended with {process.wait(_STOP_S)}")
    return line.strip()


def stop(process: subprocess.Popen[str], *, patience_s: float = _STOP_S) -> None:
    """Stop a process: politely, then not."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()


class NodeProcesses:
    """Three node processes with so many groups, in a folder that is removed afterwards."""

    def __init__(self, folder: Path, groups: int, nodes: int = 3) -> None:
        self.folder = folder
        self.groups = groups
        self.ids = list(range(1, nodes + 1))
        ports = free_ports(2 * nodes)
        self.peer_ports = dict(zip(self.ids, ports[:nodes], strict=True))
        self.client_ports = dict(zip(self.ids, ports[nodes:], strict=True))
        self.processes: dict[int, subprocess.Popen[str]] = {}

    def __enter__(self) -> NodeProcesses:
        shutil.rmtree(self.folder, ignore_errors=True)
        for node in self.ids:
            self.start(node)
        for node in self.ids:
            self.await_ready(node)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def spec(self, node: int) -> NodeSpec:
        return NodeSpec(
            node=node,
            folder=str(self.folder / f"n{node}"),
            groups=self.groups,
            peers=self.peer_ports,
            client_port=self.client_ports[node],
        )

    def start(self, node: int) -> None:
        """Start a node, on what it left behind if it ran before."""
        self.processes[node] = start("bench.replicated.node", self.spec(node).encode())

    def await_ready(self, node: int) -> None:
        line = line_of(self.processes[node], _START_S)
        if line != "ready":
            raise RuntimeError(f"node {node} said {line!r}")

    def kill(self, node: int) -> float:
        """kill -9; returns when."""
        process = self.processes[node]
        process.kill()
        moment = time.perf_counter()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
        return moment

    def pause(self, node: int) -> float:
        """SIGSTOP: the node goes silent, and its connections stay open. Returns when."""
        self.processes[node].send_signal(signal.SIGSTOP)
        return time.perf_counter()

    def resume(self, node: int) -> None:
        """SIGCONT: the node goes on where it was, and does not know that it was away."""
        self.processes[node].send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Stop all nodes cleanly."""
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self.processes.values():
            stop(process)


def run_client(spec: ClientSpec) -> dict[str, Any]:
    """Run a client for its duration; its figures."""
    process = start("bench.replicated.client", spec.encode())
    try:
        line_of(process, _START_S)
        said = line_of(process, _START_S)
        process.wait(_STOP_S)
    finally:
        stop(process)
    figures: dict[str, Any] = json.loads(said)
    return figures
