"""Looks at LevelDB's journal (`*.log`) before LevelDB does, because LevelDB drops parts of it in silence.

It only reads. The format: blocks of 32 KiB, in each records of (masked CRC-32C, length, type) and data; a long record is
cut into a first, middle and last part. The manifest has the same format.
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
    """Whole records at its beginning."""
    whole: int
    """Bytes of them."""
    size: int
    """Bytes of the file. What is more than `whole` is a write that was cut off, unless there is damage."""
    damage: str | None
    """What is wrong, and where, if a write that came later is there: then what is missing was once synced."""


class _Bad(Exception):
    """A physical record that is not what LevelDB writes."""


def inspect(path: Path) -> Journal:
    """Read a journal as LevelDB would, but tell a torn end from damage."""
    data = path.read_bytes()
    at = whole = records = 0
    inside = False
    wrong = None
    while wrong is None:
        try:
            part = _next(data, at)
        except _Bad as error:
            wrong = str(error)
            break
        if part is None:
            break
        kind, end = part
        if inside != (kind in (_MIDDLE, _LAST)):
            wrong = "the parts of a record do not follow each other"
            break
        inside, at = kind in (_FIRST, _MIDDLE), end
        if not inside:
            records, whole = records + 1, at
    later = _later_write(data, whole)
    damage = None
    if later is not None:
        damage = f"{path.name}, byte {at}: {wrong or 'a record is cut short'}, and a later write begins at byte {later}"
    return Journal(records, whole, len(data), damage)


def records(path: Path) -> list[bytes]:
    """The whole records at the beginning of a file that was found to have no damage."""
    data = path.read_bytes()
    found: list[bytes] = []
    parts: list[bytes] = []
    at = 0
    while (part := _next(data, at)) is not None:
        kind, end = part
        begin = at if _BLOCK - at % _BLOCK >= _HEAD.size else (at // _BLOCK + 1) * _BLOCK
        parts.append(data[begin + _HEAD.size : end])
        at = end
        if kind in (_FULL, _LAST):
            found.append(b"".join(parts))
            parts = []
    return found


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
        raise _Bad(f"a record of {length} bytes reaches over its block")
    if end > len(data):
        return None
    if not _FULL <= kind <= _LAST:
        raise _Bad(f"record type {kind}")
    rotated = (masked - _MASK_DELTA) & 0xFFFFFFFF
    crc = (rotated >> 17 | rotated << 15) & 0xFFFFFFFF
    if crc32c(memoryview(data)[at + _HEAD.size - 1 : end]) != crc:
        raise _Bad("a record has a wrong checksum")
    return kind, end


def _later_write(data: bytes, whole: int) -> int | None:
    """Where a write begins that came after the one at `whole`, which is not whole; None if there is none.

    Writes are synced one after another, so its being there means that the one before was there too. In the block where
    reading stopped it may begin anywhere; all others begin with a record. Middle and last parts prove nothing: the disk
    may have got the end of a write and not its beginning.
    """
    block_end = min(len(data), (whole // _BLOCK + 1) * _BLOCK)
    places: list[int] = [*range(whole + 1, block_end), *range(block_end, len(data), _BLOCK)]
    for start in places:
        at = start
        while True:
            if at + _HEAD.size > len(data) or not _FULL <= data[at + _HEAD.size - 1] <= _LAST:
                break
            try:
                part = _next(data, at)
            except _Bad:
                break
            if part is None:
                break
            if part[0] in (_FULL, _FIRST):
                return at
            at = part[1]
            if at % _BLOCK > _BLOCK - _HEAD.size:
                break
    return None
