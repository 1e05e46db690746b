"""Rotten files: flips bits or cuts ends off in the files of a node that is down, and undoes it where the file is still as it
was left, or was put aside."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

FILE_TYPES: Final = ("journal", "table", "manifest", "current", "promise")
_PATTERNS: Final = {
    "journal": "logs/*/db/*.log",
    "table": "logs/*/db/*.ldb",
    "manifest": "logs/*/db/MANIFEST-*",
    "current": "logs/*/db/CURRENT",
    "promise": "logs/*/promise",
}
_AT_MOST = 3
"""Files that are hit at once."""


class Damage(NamedTuple):
    """What was done to a file: the bytes at `at` were `before` and are `after`; shorter if the end was cut off."""

    file: Path
    at: int
    before: bytes
    after: bytes

    @property
    def cut(self) -> bool:
        return not self.after


def damage(folder: Path, type_: str, how: str, rng: Random) -> list[Damage]:
    """Damage some files of a type below a node's data folder. Empty if there are none that could be damaged."""
    files = sorted(file for file in folder.glob(_PATTERNS[type_]) if file.stat().st_size > 0)
    chosen = rng.sample(files, min(len(files), rng.randint(1, _AT_MOST)))
    return [_flip(file, rng) if how == "flip" else _cut(file, rng) for file in chosen]


def _flip(file: Path, rng: Random) -> Damage:
    at = rng.randrange(file.stat().st_size)
    with file.open("r+b") as opened:
        opened.seek(at)
        before = opened.read(1)
        after = bytes([before[0] ^ 1 << rng.randrange(8)])
        opened.seek(at)
        opened.write(after)
    return Damage(file, at, before, after)


def _cut(file: Path, rng: Random) -> Damage:
    content = file.read_bytes()
    at = rng.randrange(len(content))
    os.truncate(file, at)
    return Damage(file, at, content[at:], b"")


def mend(damages: Iterable[Damage]) -> int:
    """Undo what can be undone; how many. A file that was written to since, or replaced, is left as it is.

    A log that refused to open has its files in `before/` too, or there alone: LevelDB may have gone on without the damaged
    one before it was found that something is missing. Then the folder is put back as it was found, as somebody with a good
    copy of the file would do; the log would be refused for ever otherwise.
    """
    mended = 0
    for one in damages:
        aside = one.file.parents[1] / "before"
        if one.file.exists() and _as_left(one.file, one):
            _undo(one.file, one)
        elif (aside / one.file.name).exists() and _as_left(aside / one.file.name, one):
            _undo(aside / one.file.name, one)
            _put_back(one.file.parent, aside)
        else:
            continue
        mended += 1
    return mended


def _undo(file: Path, one: Damage) -> None:
    with file.open("r+b") as opened:
        opened.seek(one.at)
        opened.write(one.before)


def _put_back(database: Path, aside: Path) -> None:
    """What was there when the log was opened takes the place of what that has left."""
    for left in database.iterdir():
        left.unlink()
    for kept in aside.iterdir():
        kept.rename(database / kept.name)
    aside.rmdir()


def _as_left(file: Path, one: Damage) -> bool:
    if one.cut:
        return file.stat().st_size == one.at
    with file.open("rb") as opened:
        opened.seek(one.at)
        return opened.read(1) == one.after
