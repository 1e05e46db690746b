"""The folder of one replica's log: the database, the promise, and what is kept aside while a log is opened.

LevelDB deletes files that its manifest does not name, when it opens, or overwrites them. If the manifest is what is damaged,
these are the data. So each file gets a second name in `before/` first, and loses it only when the log was found to be whole.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from quorate.consensus.storage import journal
from quorate.consensus.storage.api import Corrupt, StorageFailed
from quorate.consensus.storage.manifest import BadManifest, live_tables

DATABASE = "db"
PROMISE = "promise"
BEFORE = "before"
LOCK = "lock"
_PROBE_BYTES = 1 << 20


def make(path: Path) -> None:
    """Make the folder, so that it is there after a power loss too."""
    if (path / DATABASE).is_dir():
        return
    (path / DATABASE).mkdir(parents=True, exist_ok=True)
    sync_folder(path)
    sync_folder(path.parent)


def lock(path: Path) -> int:
    """Make sure that nobody else has this log open, before any file is touched: a descriptor to close in the end."""
    fd = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(fd)
        raise StorageFailed(f"{path}: the log is locked: it is open already") from error
    return fd


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
    """Look at the journal and the manifest for losses that LevelDB would not mention, and cut torn ends off.

    Raises Corrupt; returns what is worth saying. What was cut off is still in `before/`, until the log was found whole.
    """
    notes = []
    database = path / DATABASE
    for file in [*sorted(database.glob("*.log")), *_manifest(database)]:
        found = journal.inspect(file)
        if found.damage is not None:
            raise Corrupt(str(database), f"damage after {found.records} whole records: {found.damage}")
        if found.whole < found.size:
            notes.append(f"{file.name}: {found.size - found.whole} bytes of an unfinished write at the end were left out")
            _cut(file, found.whole)
    return notes


def move_strangers(path: Path) -> None:
    """Move tables that the manifest does not name out of LevelDB's reach: a second name does not save them from being
    overwritten. After a crash they are the beginnings of a compaction; with a damaged manifest they are the log."""
    for manifest in _manifest(path / DATABASE):
        try:
            live = live_tables(manifest)
        except BadManifest as error:
            raise Corrupt(str(manifest), str(error)) from error
        for file in (path / DATABASE).glob("*.ldb"):
            if file.stem.isdecimal() and int(file.stem) not in live:
                _take_away(file, path / BEFORE)


def _take_away(file: Path, before: Path) -> None:
    """Leave a file only the name that it has in `before/`. (A rename from one name of a file to another does nothing.)"""
    kept = before / file.name
    if kept.samefile(file):
        file.unlink()
        return
    number = sum(1 for other in before.glob(f"{file.name}.*")) + 1
    file.rename(before / f"{file.name}.{number}")


def _manifest(database: Path) -> list[Path]:
    """The manifest that counts, if it can be told. Otherwise LevelDB will refuse to open."""
    current = database / "CURRENT"
    name = current.read_bytes().strip().decode(errors="replace") if current.exists() else ""
    return [file for file in database.glob("MANIFEST-*") if file.name == name]


def _cut(file: Path, size: int) -> None:
    """A shorter copy takes the file's place; the file itself stays as it is, under its other name."""
    copy = file.with_name(f"{file.name}.cut")
    with copy.open("wb") as out:
        out.write(file.read_bytes()[:size])
        out.flush()
        os.fsync(out.fileno())
    copy.rename(file)
    sync_folder(file.parent)


def free_bytes(path: Path) -> int:
    """How much room there is on this disk for us."""
    stat = os.statvfs(path)
    return stat.f_bavail * stat.f_frsize


def check_room(path: Path, needed: int) -> None:
    """Raise OSError unless so many bytes can really be written: a quota or a limit is not seen in what is free."""
    probe = path / "probe"
    fd = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        while needed > 0:
            needed -= os.write(fd, bytes(min(needed, _PROBE_BYTES)))
    finally:
        os.close(fd)
        probe.unlink()


def journal_bytes(path: Path) -> int:
    """How much LevelDB has to write again when it opens."""
    total = 0
    for file in (path / DATABASE).glob("*.log"):
        with suppress(FileNotFoundError):  # LevelDB may be done with it by now
            total += file.stat().st_size
    return total


def sync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
