"""A small file beside the database that says how many writes were acknowledged.

LevelDB drops a torn end of its journal without a word, because it cannot tell a write that was cut off by a crash from one
that was acknowledged and rotted. This file can: it is raised right after each sync, outside of the journal. It costs no
sync of its own. A killed process leaves it exact; after a power loss it may be some seconds behind, never ahead.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import Final

from crc32c import crc32c

_SLOT: Final = struct.Struct("<8sQ")
_CRC: Final = struct.Struct("<I")
_NAME: Final = b"promise1"
_SLOTS: Final = (0, 512)
"""Two sectors, written in turn: a torn write spoils one of them."""
_BYTES: Final = 1024


class Promise:
    """The number of the last synced write: 0 before the first, None where there is a number and it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._turn = 0
        self.counter: int | None = 0
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            content = os.pread(fd, _BYTES, 0)
            if len(content) < _BYTES:
                # Filled, not merely extended: a page that is mapped must have its room on the disk.
                os.pwrite(fd, bytes(_BYTES - len(content)), len(content))
            self._map = mmap.mmap(fd, _BYTES)
        finally:
            os.close(fd)
        if any(content):
            self.counter = max((c for c in (_read(content, at) for at in _SLOTS) if c is not None), default=None)

    def raise_to(self, counter: int) -> None:
        """The write of this number is on the disk."""
        at = _SLOTS[self._turn]
        self._turn ^= 1
        _SLOT.pack_into(self._map, at, _NAME, counter)
        _CRC.pack_into(self._map, at + _SLOT.size, crc32c(self._map[at : at + _SLOT.size]))

    def sync(self) -> None:
        """Put it on the disk now. Done when a log is opened and closed, not on the way of a write."""
        self._map.flush()

    def close(self) -> None:
        self._map.close()


def _read(content: bytes, at: int) -> int | None:
    slot = content[at : at + _SLOT.size]
    seal = content[at + _SLOT.size : at + _SLOT.size + _CRC.size]
    if len(seal) < _CRC.size or crc32c(slot) != _CRC.unpack(seal)[0]:
        return None
    name, counter = _SLOT.unpack(slot)
    return int(counter) if name == _NAME else None
