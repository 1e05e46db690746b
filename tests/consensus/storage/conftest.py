"""Log stores for tests: opened in a folder of the test's own, and closed at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quorate.consensus.core import Restored, new_group
from quorate.consensus.storage.level import LevelLog
from quorate.consensus.storage.settings import KIB, StorageSettings
from tests.support.batches import THREE

SMALL = StorageSettings(
    write_buffer_bytes=64 * KIB,
    table_bytes=1024 * KIB,
    block_bytes=4 * KIB,
    reserve_bytes=1024 * KIB,
    trim_batches=8,
    compact_bytes=64 * KIB,
)
"""Small enough that a short test has journals and tables."""

Opener = Callable[..., LevelLog]


@pytest.fixture
def open_log(tmp_path: Path) -> Iterator[Opener]:
    """Opens a LevelLog in the test's folder; whatever is open at the end is closed."""
    opened: list[LevelLog] = []

    def opener(path: Path = tmp_path / "log", fresh: Restored | None = None, settings: StorageSettings = SMALL) -> LevelLog:
        log = LevelLog.open(path, fresh if fresh is not None else new_group(THREE), settings)
        opened.append(log)
        return log

    yield opener
    for log in opened:
        log.close()
