"""A full disk: a typed error, nothing half written, reads go on, and appends too as soon as there is room."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from quorate.consensus.core import LogStart, Offset, Persist, Term, Token
from quorate.consensus.storage.api import StorageFull
from quorate.consensus.storage.level import LevelLog
from quorate.consensus.storage.settings import KIB, MIB
from tests.consensus.storage.conftest import SMALL, Opener
from tests.support.batches import THREE, append, data_batch, run_of
from tests.support.smalldisk import FileSizeLimit, SmallDisk, Tmpfs

ALL = 1 << 40
BLIND = replace(SMALL, reserve_bytes=1)
"""Keeps no room in reserve, so that LevelDB itself runs into the end of the disk."""


def tmpfs(folder: Path) -> SmallDisk:
    """Where mounting is refused, the limit on file sizes has to do: the same code is run, with another error below it."""
    return Tmpfs.mounted(folder, 8 * MIB) or FileSizeLimit(folder)


@pytest.fixture(params=[tmpfs, FileSizeLimit], ids=["tmpfs", "file-size"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    make: Callable[[Path], SmallDisk] = request.param
    disk = make(folder)
    yield disk
    disk.close()


@pytest.fixture
def open_here(disk: SmallDisk, open_log: Opener) -> Callable[..., LevelLog]:
    return lambda **more: open_log(disk.folder / "log", **more)


def test_the_error_says_that_nothing_happened() -> None:
    assert StorageFull.definite
    assert StorageFull.retriable


def write_until_full(log: LevelLog, size: int = 20_000) -> int:
    """Append until there is no room; the offset that could not be written."""
    for _ in range(2_000):
        at = log.last + 1
        try:
            log.write([append(data_batch(at, size=size))])
        except StorageFull:
            return at
    raise AssertionError("the disk never got full")


@pytest.mark.parametrize("rounds", [1, 4])
def test_reads_go_on_and_appends_resume(disk: SmallDisk, open_here: Callable[..., LevelLog], rounds: int) -> None:
    log = open_here(settings=BLIND)
    log.write([append(*run_of(0, 10, size=5_000))])
    for _ in range(rounds):
        disk.fill(leave=100 * KIB)
        at = write_until_full(log)
        for _ in range(3):
            with pytest.raises(StorageFull):
                log.write([append(data_batch(at, size=20_000))])
            assert log.last == at - 1
            assert [batch.base for batch in log.read(Offset(0), ALL)] == list(range(at))
        disk.make_room()
        log.write([append(data_batch(at, size=20_000))])
        log.write([append(data_batch(at + 1))])
        assert [batch.base for batch in log.read(Offset(0), ALL)] == list(range(at + 2))
    log.close()
    reopened = open_here(settings=BLIND)
    assert [batch.base for batch in reopened.read(Offset(0), ALL)] == list(range(at + 2))
    assert reopened.notes == ()


def test_a_full_disk_at_the_end_of_a_process(disk: SmallDisk, open_here: Callable[..., LevelLog]) -> None:
    """What failed for lack of room is not there, or whole, when the log is opened again."""
    log = open_here(settings=BLIND)
    disk.fill(leave=100 * KIB)
    at = write_until_full(log)
    log.close()
    disk.make_room()
    reopened = open_here(settings=BLIND)
    assert reopened.last in (at - 1, at)
    assert [batch.base for batch in reopened.read(Offset(0), ALL)] == list(range(reopened.last + 1))


def test_opening_without_room_is_no_damage(disk: SmallDisk, open_here: Callable[..., LevelLog]) -> None:
    log = open_here(settings=BLIND)
    log.write([append(*run_of(0, 10, size=5_000))])
    log.close()
    disk.fill()
    if isinstance(disk, Tmpfs):
        with pytest.raises(StorageFull):
            open_here(settings=BLIND)
    disk.make_room()
    assert open_here(settings=BLIND).last == 9


def test_the_reserve_is_kept_for_what_makes_room(tmp_path: Path, open_log: Opener) -> None:
    """Batches stop before the disk is full; a moved start, and a vote, still find room."""
    disk = tmpfs(tmp_path / "disk")
    try:
        log = open_log(disk.folder / "log", settings=replace(SMALL, reserve_bytes=_most(disk)))
        with pytest.raises(StorageFull, match="kept in reserve"):
            write_some(log)
        kept = log.last
        start = LogStart(Offset(0), Term(1), THREE)
        log.write([Persist(Token(1, Term(1), Offset(0), Term(1)), sync=True, start=start)])
        assert (log.start, log.last) == (0, kept)
        log.close()
    finally:
        disk.close()


def _most(disk: SmallDisk) -> int:
    """A reserve that leaves some room beside it, but not much."""
    if isinstance(disk, Tmpfs):
        return 6 * MIB
    from quorate.consensus.storage.folder import free_bytes

    return free_bytes(disk.folder) - 2 * MIB


def write_some(log: LevelLog) -> None:
    for _ in range(4_000):
        log.write([append(data_batch(log.last + 1, size=20_000))])
