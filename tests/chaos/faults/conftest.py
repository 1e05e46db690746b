"""What the fault tests share: a toxiproxy server, and the library for faulty disks. Without them the tests are skipped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.chaos.cache import NotHere
from quorate.chaos.faults.disk_control import find_library
from quorate.chaos.toxiproxy_server import ToxiproxyServer, find_server


@pytest.fixture(scope="session")
def toxiproxy_binary() -> Path:
    try:
        return find_server()
    except NotHere as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def disk_library() -> Path:
    try:
        return find_library()
    except NotHere as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def toxiproxy_port(toxiproxy_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server that the tests of a module share."""
    server = ToxiproxyServer(tmp_path_factory.mktemp("toxiproxy") / "log")
    asyncio.run(server.start())
    yield server.port
    asyncio.run(server.stop())
