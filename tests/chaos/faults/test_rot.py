"""Rotten files: every type can be hit, the same seed hits the same bits, and what was hit can be mended."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from quorate.chaos.faults.rot import FILE_TYPES, Damage, damage, mend
from quorate.consensus.core import new_group, new_replica
from quorate.consensus.storage.api import Corrupt
from quorate.consensus.storage.level import LevelLog
from tests.support.batches import THREE, append, noop

NAMES = ("db/000001.log", "db/000002.ldb", "db/MANIFEST-000003", "db/CURRENT", "promise")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for log in ("g0-1", "g1-1"):
        (tmp_path / "logs" / log / "db").mkdir(parents=True)
        for name in NAMES:
            (tmp_path / "logs" / log / name).write_bytes(bytes(range(100)))
    return tmp_path


def content(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.mark.parametrize("how", ["flip", "truncate"])
@pytest.mark.parametrize("type_", FILE_TYPES)
def test_damage_and_mending(folder: Path, type_: str, how: str) -> None:
    before = content(folder)
    done = damage(folder, type_, how, Random(7))
    hit = {file for file, data in content(folder).items() if data != before[file]}
    assert hit == {one.file for one in done}
    assert len(hit) in (1, 2)
    for file in hit:
        assert (len(file.read_bytes()) < 100) == (how == "truncate")
    assert mend(done) == len(done)
    assert content(folder) == before
    assert [one[:2] for one in damage(folder, type_, how, Random(7))] == [one[:2] for one in done]


def test_what_was_written_since_is_left_alone(folder: Path) -> None:
    done = damage(folder, "journal", "truncate", Random(1))
    for one in done:
        one.file.write_bytes(b"another" * 30)
    assert mend(done) == 0


def test_what_was_put_aside_is_mended_there(folder: Path) -> None:
    (one, *_) = damage(folder, "table", "flip", Random(1))
    aside = one.file.parents[1] / "before" / one.file.name
    aside.parent.mkdir()
    one.file.rename(aside)
    assert mend([one]) == 1
    assert one.file.read_bytes() == bytes(range(100))
    assert not aside.parent.exists()


def test_a_log_that_went_on_without_its_damaged_end_is_put_back(tmp_path: Path) -> None:
    """A bit that flips in the last record looks like a torn end: LevelDB leaves it out, and begins a new journal."""
    path = tmp_path / "logs" / "g1-1"
    log = LevelLog.open(path, new_group(THREE))
    for offset in range(3):
        log.write([append(noop(offset, 1))])
    log.close()
    (journal,) = (path / "db").glob("*.log")
    content = bytearray(journal.read_bytes())
    at = len(content) - 1
    one = Damage(journal, at, bytes([content[at]]), bytes([content[at] ^ 1]))
    content[at] ^= 1
    journal.write_bytes(content)
    for _ in range(2):  # the second time, what is missing is missing from what the first has left
        with pytest.raises(Corrupt, match="acknowledged"):
            LevelLog.open(path, new_replica())
    assert not one.file.exists()
    assert mend([one]) == 1
    log = LevelLog.open(path, new_replica())
    assert log.last == 2
    log.close()
    assert not (path / "before").exists()


def test_nothing_to_damage(tmp_path: Path) -> None:
    assert damage(tmp_path, "table", "flip", Random(1)) == []
