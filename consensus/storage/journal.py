"""Looks at LevelDB's journal (`*.log`) before LevelDB does, because LevelDB drops parts of it in silence.

It only reads. The format: blocks of 32 KiB, in each records of (masked CRC-32C, length, type) and data; a long record is
cut into a first, middle and last part. A record that is cut off by the end of the file was never synced.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

_BLOCK: Final = 32 * 1024
_HEAD: Final = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_MASK_DELTA: Final = 0xA282EAD8


class Journal(NamedTuple):
    """What a journal file holds."""

    records: int
    """Whole records before anything that is wrong."""
    damage: str | None
    """What is wrong inside, with the place: something that was written is not there any more."""
    torn_bytes: int
    """Bytes of an unfinished record at the end."""


class _Damaged(Exception):
    """A physical record that is not what LevelDB writes."""


def inspect(path: Path) -> Journal:
    """Read a journal as LevelDB would, but give notice of everything that is not right."""
    data = path.read_bytes()
    at = whole_end = records = 0
    inside = False
    while True:
        try:
            part = _next(data, at)
        except _Damaged as error:
            return Journal(records, f"{path.name}, byte {at}: {error}", 0)
        if part is None:
            return Journal(records, None, len(data) - whole_end)
        kind, at = part
        if inside != (kind in (_MIDDLE, _LAST)):
            return Journal(records, f"{path.name}, before byte {at}: a record's parts do not follow each other", 0)
        inside = kind in (_FIRST, _MIDDLE)
        if not inside:
            records += 1
            whole_end = at


def _next(data: bytes, at: int) -> tuple[int, int] | None:
    """Type and end of the physical record at `at`; None at the end of the file, where a last one may be cut off."""
    left = _BLOCK - at % _BLOCK
    if left < _HEAD.size:
        at += left
    if at + _HEAD.size > len(data):
        return None
    masked, length, kind = _HEAD.unpack_from(data, at)
    end = at + _HEAD.size + length
    if end > (at // _BLOCK + 1) * _BLOCK:
        raise _Damaged(f"a record of {length} bytes reaches over its block")
    if end > len(data):
        return None
    if not (masked or length or kind) and not any(data[at:]):
        # Some file systems make a file longer before they fill it: after a power loss its end is zeros.
        return None
    if not _FULL <= kind <= _LAST:
        raise _Damaged(f"record type {kind}")
    rotated = (masked - _MASK_DELTA) & 0xFFFFFFFF
    crc = (rotated >> 17 | rotated << 15) & 0xFFFFFFFF
    if crc32c(memoryview(data)[at + _HEAD.size - 1 : end]) != crc:
        raise _Damaged("a record has a wrong checksum")
    return kind, end
