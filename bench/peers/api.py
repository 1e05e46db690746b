"""What the benchmark and the client tests ask of a cluster, whoever made it. Nothing here knows a particular broker."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class NotHere(RuntimeError):
    """This peer cannot be had on this machine; the text says why."""


class Peer(Protocol):
    """A cluster of server processes on loopback, nodes 1..n, in a folder that the caller removes."""

    @property
    def name(self) -> str:
        """As the user types it: `quorate`, `kafka`, `kafka-fsync`, `nats`."""

    def start(self) -> str:
        """Start every node, wait until clients are served, and return the bootstrap addresses. Raises NotHere."""

    @property
    def bootstrap(self) -> str:
        """Comma-separated `host:port` of all nodes."""

    @property
    def pids(self) -> dict[int, int]:
        """The process of each node that runs now."""

    def kill(self, node: int) -> None:
        """kill -9."""

    def restart(self, node: int) -> None:
        """Start a killed node again on what it left behind. Does not wait until it has caught up."""

    def stop(self) -> None:
        """Stop everything, and leave no process behind. May be called twice."""

    def cpu_seconds(self) -> float:
        """Processor time of all server processes that run now, since each of them began."""

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of each node's log, for the report of a failure."""


def cpu_seconds(pids: list[int], proc: Path = Path("/proc")) -> float:
    """User and system time of these processes and of all that descend from them."""
    return sum(_ticks(proc / str(pid) / "stat") for pid in _with_children(pids, proc)) / _TICKS_PER_S


def _with_children(pids: list[int], proc: Path) -> set[int]:
    parents = {}
    for entry in proc.iterdir():
        if entry.name.isdigit():
            fields = _stat(entry / "stat")
            if fields:
                parents[int(entry.name)] = int(fields[1])
    found = set(pids)
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _ticks(stat: Path) -> int:
    fields = _stat(stat)
    return int(fields[11]) + int(fields[12]) if fields else 0


def _stat(stat: Path) -> list[str]:
    """The fields from the state on; none if the process is gone. The name before them may hold blanks."""
    try:
        return stat.read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def tail(path: Path, lines: int) -> str:
    """The last lines of a log, under its name."""
    text = path.read_text(errors="replace").splitlines()[-lines:] if path.is_file() else ["(no log)"]
    return "\n".join([f"--- {path}", *text])
