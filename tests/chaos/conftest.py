"""What tests of real clusters need: a toxiproxy server, and the library for faulty disks. Without them they are skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.chaos.cache import NotHere
from quorate.chaos.faults.disk_control import find_library
from quorate.chaos.toxiproxy_server import find_server


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
