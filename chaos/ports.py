"""Ports that are free and stay so: below those that the kernel gives to outgoing connections, which could take the port of a
node that is down for a moment, and in a block that no other run on this machine uses."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

_FIRST, _LAST, _BLOCK = 12_000, 32_000, 250
_random = random.Random()


class Ports:
    """Ports of this process. Two runs side by side must not get the same one: while a node is down, its port looks free."""

    def __init__(self, folder: Path) -> None:
        """`folder` is where processes see which blocks of ports are taken. A block is this process's until it ends."""
        self._folder = folder
        self._locks: list[int] = []
        self._left: Iterator[int] = iter(())

    def take(self) -> int:
        """A port of loopback that nobody listens on, and that was not given before. Raises OSError."""
        while True:
            for port in self._left:
                if _is_free(port):
                    return port
            self._left = self._take_block()

    def _take_block(self) -> Iterator[int]:
        self._folder.mkdir(exist_ok=True)
        for first in _shuffled(range(_FIRST, _LAST, _BLOCK)):
            lock = os.open(self._folder / str(first), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                continue
            self._locks.append(lock)
            return iter(_shuffled(range(first, first + _BLOCK)))
        raise OSError("no free port found")

    def close(self) -> None:
        """Give the blocks back."""
        for lock in self._locks:
            os.close(lock)
        self._locks.clear()
        self._left = iter(())


def _shuffled(numbers: range) -> list[int]:
    return _random.sample(numbers, len(numbers))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


_ports = Ports(Path(tempfile.gettempdir()) / f"quorate-ports-{os.getuid()}")


def free_port() -> int:
    """A port of loopback that nobody listens on, and that was not given before by this process or another run."""
    return _ports.take()
