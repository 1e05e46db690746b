"""The only place that knows plyvel: opening, closing, and turning its errors into ours.

Reads come from any thread, and closing a LevelDB under a running read crashes the process; so users are counted, and
whoever closes waits for them.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import plyvel

from quorate.consensus.storage.api import Corrupt, StorageError, StorageFailed, StorageFull
from quorate.consensus.storage.settings import StorageSettings

_NO_ROOM = tuple(os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_NOT_DAMAGE = tuple(os.strerror(code) for code in (errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EPERM, errno.EROFS))


class Cursor:
    """A place among the keys of a LevelDB as it was when the cursor was made. Whatever cannot be read is Corrupt."""

    __slots__ = ("_iterator", "_where", "key", "valid", "value")

    def __init__(self, iterator: plyvel._plyvel.RawIterator, where: str) -> None:
        self._iterator = iterator
        self._where = where
        # These cannot fail: they look at what a move has found.
        self.valid: Callable[[], bool] = iterator.valid
        self.key: Callable[[], bytes] = iterator.key
        self.value: Callable[[], bytes] = iterator.value

    def seek(self, key: bytes) -> None:
        """Go to this key, or to the first one after it."""
        self._move(self._iterator.seek, key)

    def last(self) -> None:
        """Go to the last key of all."""
        self._move(self._iterator.seek_to_last)

    def next(self) -> None:
        """Go to the key after this one."""
        self._move(self._iterator.next)

    def prev(self) -> None:
        """Go to the key before this one."""
        self._move(self._iterator.prev)

    def close(self) -> None:
        self._iterator.close()

    def _move(self, move: Callable[..., None], *key: bytes) -> None:
        try:
            move(*key)
        except plyvel.Error as error:
            raise _reading_failed(self._where, error) from error


class Database:
    """One LevelDB, which can be closed and opened again while others read from it."""

    def __init__(self, path: Path, settings: StorageSettings) -> None:
        self.path = path
        self._settings = settings
        self._db: plyvel.DB | None = None
        self._users = 0
        self._reopening = False
        # Guards the three above; notified when the last user leaves, and when users may come again.
        self._changed = threading.Condition()

    def open(self, create: bool = False) -> None:
        """Open it. Raises Corrupt for files that LevelDB cannot make sense of, and never makes a new one in their place."""
        settings = self._settings
        try:
            db = plyvel.DB(
                str(self.path),
                create_if_missing=create,
                error_if_exists=create,
                # Otherwise LevelDB leaves out, in silence, what it cannot read, and its compaction drops it for good.
                paranoid_checks=True,
                compression=None,
                write_buffer_size=settings.write_buffer_bytes,
                max_file_size=settings.table_bytes,
                block_size=settings.block_bytes,
                lru_cache_size=settings.cache_bytes,
                max_open_files=settings.open_files,
            )
        except plyvel.Error as error:
            raise self._opening_failed(error) from error
        with self._changed:
            self._db = db

    def close(self) -> None:
        """Close it, once the reads that are under way have ended."""
        with self._changed:
            db, self._db = self._db, None
            while self._users:
                self._changed.wait()
        if db is not None:
            db.close()

    def reopen(self) -> None:
        """Close it and open it again; reads wait as long as that takes."""
        with self._changed:
            self._reopening = True
        try:
            self.close()
            self.open()
        finally:
            with self._changed:
                self._reopening = False
                self._changed.notify_all()

    @property
    def closed(self) -> bool:
        return self._db is None

    @contextmanager
    def cursor(self) -> Iterator[Cursor]:
        """Walk over the keys as they are now."""
        with self._use() as db:
            cursor = Cursor(db.raw_iterator(verify_checksums=True, fill_cache=False), str(self.path))
            try:
                yield cursor
            finally:
                cursor.close()

    def get(self, key: bytes) -> bytes | None:
        """One value."""
        with self._use() as db:
            try:
                return cast("bytes | None", db.get(key, verify_checksums=True))
            except plyvel.Error as error:
                raise _reading_failed(str(self.path), error) from error

    def scan(self, begin: bytes, end: bytes) -> list[tuple[bytes, bytes]]:
        """All keys and values of a kind of which there are few."""
        with self._use() as db:
            try:
                return list(db.iterator(start=begin, stop=end, verify_checksums=True))
            except plyvel.Error as error:
                raise _reading_failed(str(self.path), error) from error

    def write(self, changes: dict[bytes, bytes | bytearray | memoryview | None], sync: bool) -> None:
        """Put (or, for None, delete) all of these at once."""
        db = self._enter()
        try:
            batch = db.write_batch(sync=sync)
            for key, value in changes.items():
                if value is None:
                    batch.delete(key)
                else:
                    batch.put(key, value)
            batch.write()
        except plyvel.Error as error:
            raise self._writing_failed(error) from error
        finally:
            self._leave()

    def compact(self, begin: bytes, end: bytes) -> None:
        """Give back the room of deleted keys. Takes its time, beside reads and writes."""
        with self._use() as db:
            db.compact_range(start=begin, stop=end)

    @contextmanager
    def _use(self) -> Iterator[plyvel.DB]:
        db = self._enter()
        try:
            yield db
        finally:
            self._leave()

    def _enter(self) -> plyvel.DB:
        with self._changed:
            while self._reopening:
                self._changed.wait()
            db = self._db
            if db is None:
                raise StorageFailed(f"{self.path}: the log is closed")
            self._users += 1
        return db

    def _leave(self) -> None:
        with self._changed:
            self._users -= 1
            if not self._users and self._db is None:
                self._changed.notify_all()

    def _opening_failed(self, error: plyvel.Error) -> StorageError:
        text = str(error)
        if any(words in text for words in _NO_ROOM):
            return StorageFull(f"{self.path}: no room to open the log: {text}")
        if "/LOCK" in text or any(words in text for words in _NOT_DAMAGE):
            return StorageFailed(f"{self.path}: {text}")
        return Corrupt(str(self.path), f"LevelDB cannot open it: {text}")

    def _writing_failed(self, error: plyvel.Error) -> StorageError:
        text = str(error)
        if any(words in text for words in _NO_ROOM):
            return StorageFull(f"{self.path}: {text}")
        return StorageFailed(f"{self.path}: {text}")


def _reading_failed(where: str, error: plyvel.Error) -> Corrupt:
    return Corrupt(where, f"LevelDB cannot read it: {error}")
