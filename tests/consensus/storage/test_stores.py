"""Both log stores honour the contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.consensus.core import new_group
from quorate.consensus.storage.api import LogStore
from quorate.consensus.storage.level import LevelLog
from quorate.consensus.storage.memory import MemoryLog
from tests.consensus.storage.conftest import Opener
from tests.consensus.storage.contract import LogStoreContract
from tests.support.batches import THREE


class TestMemoryLog(LogStoreContract):
    @pytest.fixture
    def store(self) -> LogStore:
        return MemoryLog(new_group(THREE))


class TestLevelLog(LogStoreContract):
    @pytest.fixture
    def store(self, open_log: Opener, tmp_path: Path) -> LogStore:
        self._open = open_log
        return open_log(tmp_path / "log")

    def reopened(self, store: LogStore) -> LogStore:
        assert isinstance(store, LevelLog)
        store.close()
        log = self._open(store.path)
        assert log.notes == ()
        return log
