"""The folder of one replica's log: the database, the promise, and what is kept aside while a log is opened.

LevelDB deletes files that its manifest does not name, when it opens. If the manifest is what is damaged, these are the data.
So each file gets a second name in `before/` first, and loses it only when the log was found to be whole.
"""

from __future__ import annotations

import os
from pathlib import Path

from quorate.consensus.storage import journal
from quorate.consensus.storage.api import Corrupt

DATABASE = "db"
PROMISE = "promise"
BEFORE = "before"


def make(path: Path) -> None:
    """Make the folder, so that it is there after a power loss too."""
    (path / DATABASE).mkdir(parents=True, exist_ok=True)
    sync_folder(path)
    sync_folder(path.parent)


def holds_data(path: Path) -> bool:
    """Whether LevelDB has ever put anything here."""
    database = path / DATABASE
    return database.is_dir() and any(
        file.suffix in (".log", ".ldb", ".sst") or _is_index(file) for file in database.iterdir()
    )


def _is_index(file: Path) -> bool:
    return file.name == "CURRENT" or file.name.startswith("MANIFEST-")


def keep_aside(path: Path) -> None:
    """Give every file of the database a second name. What an earlier opening that failed has kept stays."""
    before = path / BEFORE
    before.mkdir(exist_ok=True)
    for file in (path / DATABASE).iterdir():
        kept = before / file.name
        if (file.suffix in (".log", ".ldb", ".sst") or _is_index(file)) and not kept.exists():
            os.link(file, kept)


def let_go(path: Path) -> None:
    """The log is whole: what was kept aside is not needed."""
    before = path / BEFORE
    for kept in before.iterdir():
        kept.unlink()
    before.rmdir()


def check_journals(path: Path) -> list[str]:
    """Look for losses that LevelDB would not mention. Raises Corrupt; returns what is worth saying and harmless."""
    notes = []
    for file in sorted((path / DATABASE).glob("*.log")):
        found = journal.inspect(file)
        if found.damage is not None:
            raise Corrupt(str(path / DATABASE), f"the journal is damaged after {found.records} whole writes: {found.damage}")
        if found.torn_bytes:
            notes.append(f"{file.name}: an unfinished write of {found.torn_bytes} bytes at the end was left out")
    return notes


def free_bytes(path: Path) -> int:
    """How much room there is on this disk for us."""
    stat = os.statvfs(path)
    return stat.f_bavail * stat.f_frsize


def journal_bytes(path: Path) -> int:
    """How much LevelDB has to write again when it opens."""
    return sum(file.stat().st_size for file in (path / DATABASE).glob("*.log"))


def sync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
