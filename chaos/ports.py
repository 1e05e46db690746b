"""Ports that are free and stay so: below those that the kernel gives to outgoing connections, which could take the port of a
node that is down for a moment."""

from __future__ import annotations

import random
import socket

_FIRST, _LAST = 12_000, 32_000
_random = random.Random()
_given: set[int] = set()


def free_port() -> int:
    """A port of loopback that nobody listens on, and that was not given before by this process."""
    for _ in range(10_000):
        port = _random.randrange(_FIRST, _LAST)
        if port in _given:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port
    raise OSError("no free port found")
