"""Reads which tables LevelDB's manifest names. It only reads.

A manifest is a journal of edits: tables that were added and tables that were removed. LevelDB believes it blindly: a table
that it does not name is deleted, or overwritten under the same number. So it has to be known beforehand which these are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from quorate.consensus.storage import journal

_COMPARATOR, _COMPACT_POINTER, _REMOVED, _ADDED = 1, 5, 6, 7
_NUMBERS: Final = (2, 3, 4, 9)
"""Log number, next file number, last sequence, previous log number: one integer each."""


class BadManifest(ValueError):
    """An edit that LevelDB cannot have written."""


class _Reader:
    """Goes over the fields of one edit."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def more(self) -> bool:
        return self._at < len(self._data)

    def number(self) -> int:
        value = shift = 0
        while self.more and shift < 64:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise BadManifest("a number does not end")

    def skip_text(self) -> None:
        length = self.number()
        self._at += length
        if self._at > len(self._data):
            raise BadManifest("a key does not end")


def live_tables(path: Path) -> set[int]:
    """The numbers of the tables that a manifest names. Raises BadManifest."""
    tables: set[int] = set()
    for edit in journal.records(path):
        reader = _Reader(edit)
        while reader.more:
            _apply(reader, tables)
    return tables


def _apply(reader: _Reader, tables: set[int]) -> None:
    tag = reader.number()
    if tag in _NUMBERS:
        reader.number()
    elif tag == _COMPARATOR:
        reader.skip_text()
    elif tag == _COMPACT_POINTER:
        reader.number()
        reader.skip_text()
    elif tag == _REMOVED:
        reader.number()
        tables.discard(reader.number())
    elif tag == _ADDED:
        reader.number()
        tables.add(reader.number())
        reader.number()
        reader.skip_text()
        reader.skip_text()
    else:
        raise BadManifest(f"field {tag} is not known")
