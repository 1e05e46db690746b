"""Starting and ending server processes whose output goes to a log file, and waiting for them with a deadline."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

STOP_S = 30.0


def launch(command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """A process in a session of its own, so that a Ctrl-C at the terminal reaches us and not it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )


def stop_all(processes: Sequence[subprocess.Popen[bytes]], patience_s: float = STOP_S) -> None:
    """All together: politely, then not."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + patience_s
    for process in processes:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def kill_pid(pid: int, patience_s: float = 10.0) -> None:
    """kill -9 of a process that need not be our child; returns when it is gone (or a zombie of its parent)."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    await_condition(lambda: not alive(pid), f"process {pid} is gone", patience_s)


def alive(pid: int) -> bool:
    """Whether the process runs. A zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


def await_condition(condition: Callable[[], bool], what: str, patience_s: float, pause_s: float = 0.02) -> None:
    """Wait for a condition, with a deadline."""
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {patience_s:.0f} s in vain until {what}")
        time.sleep(pause_s)


def listens(port: int) -> bool:
    """Whether somebody accepts connections there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=0.5):
        return True
    return False


_SLOT = 250
_slots: set[int] = set()
"""Runs of ports that this process has claimed, for as long as it lives: a node that is dead comes back to its port."""


def free_base_port(offsets: Sequence[int], first: int = 20_000, last: int = 32_000) -> int:
    """A base such that base + each offset is free. Below the range of outgoing connections, which would race us.

    A run of ports is claimed by a locked file, so that two processes that look at the same moment do not both find it free.
    """
    assert max(offsets) < _SLOT
    start = first + os.getpid() * _SLOT % (last - first)
    others = [first + (start - first + turn) % (last - first) for turn in range(0, last - first, _SLOT)]
    for base in [*sorted(_slots), *(base for base in others if base not in _slots)]:
        if all(_free(base + offset) for offset in offsets) and _claim(base):
            return base
    raise TimeoutError(f"no free run of ports between {first} and {last}")


def _claim(base: int) -> bool:
    if base in _slots:
        return True
    folder = Path(tempfile.gettempdir()) / f"quorate-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    file = os.open(folder / str(base), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return False
    _slots.add(base)
    return True


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
