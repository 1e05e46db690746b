"""What the fault tests share: a toxiproxy server for a module."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.chaos.toxiproxy_server import ToxiproxyServer


@pytest.fixture(scope="module")
def toxiproxy_port(toxiproxy_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server that the tests of a module share."""
    server = ToxiproxyServer(tmp_path_factory.mktemp("toxiproxy") / "log")
    asyncio.run(server.start())
    yield server.port
    asyncio.run(server.stop())
