"""Removes batches below the log's start from LevelDB, a bounded number at a time, and gives their files back."""

from __future__ import annotations

from quorate.consensus.core import Offset
from quorate.consensus.core.types import Buffer
from quorate.consensus.storage import keys
from quorate.consensus.storage.database import Database
from quorate.consensus.storage.settings import StorageSettings


class Trimmer:
    """What one log still has to remove. Used by one thread at a time."""

    def __init__(self, database: Database, settings: StorageSettings) -> None:
        self._database = database
        self._settings = settings
        self._done: Offset | None = None
        """Everything up to here was removed; None until it was looked up."""
        self._freed_from = b""
        self._freed = 0
        """Bytes that were removed and whose room LevelDB still holds."""

    def step(self, start: Offset, keep: bytes) -> bool:
        """Remove the oldest dead keys, but never `keep`; whether there are more."""
        if self._done is not None and self._done >= start:
            return False
        changes: dict[bytes, Buffer | None] = {}
        limit = keys.batch_key(start + 1)
        with self._database.cursor() as cursor:
            cursor.seek(keys.LOG_BEGIN)
            while cursor.valid() and len(changes) < self._settings.trim_batches:
                key = cursor.key()
                place = keys.parse_key(key)
                if key >= limit or place is None or place[0] > start:
                    break
                if key != keep:
                    changes[key] = None
                    self._freed += len(cursor.value()) if place[1] == keys.BATCH else 0
                cursor.next()
        more = len(changes) >= self._settings.trim_batches
        if changes:
            self._freed_from = self._freed_from or min(changes)
            # Not synced: what comes back after a crash is dead, and is removed again.
            self._database.write(changes, sync=False)
        if not more:
            self._done = start
        return more

    def compact_if_due(self, more: bool) -> None:
        """Have LevelDB drop the files that hold only removed batches."""
        if not more and self._freed >= self._settings.compact_bytes and self._done is not None:
            begin, self._freed_from, self._freed = self._freed_from, b"", 0
            self._database.compact(begin, keys.batch_key(self._done + 1))
