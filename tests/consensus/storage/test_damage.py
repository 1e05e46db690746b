"""Bits that flip and files that are cut, in every kind of file. The log opens and says what it lost, or refuses; it never
serves a wrong batch, and never deletes what it cannot read."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quorate.consensus.core import Batch, Offset, Restored, new_group
from quorate.consensus.storage.api import Corrupt
from quorate.consensus.storage.level import LevelLog
from tests.consensus.storage.conftest import SMALL, Opener
from tests.support.batches import THREE, append, data_batch, run_of

ALL = 1 << 40
LAST = 79
Harm = Callable[[Path, random.Random], None]


@pytest.fixture(scope="module")
def fast_folder() -> Iterator[Path]:
    """In memory where that is possible: thousands of logs are opened here, and no power goes out."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="quorate-damage-", dir=memory if os.access(memory, os.W_OK) else None))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def whole(fast_folder: Path) -> tuple[Path, list[Batch], Restored]:
    """A log in several tables and a journal, as a process leaves it (closing writes nothing); what it holds."""
    path = fast_folder / "whole"
    log = LevelLog.open(path, new_group(THREE), SMALL)
    for first in range(0, LAST + 1, 4):
        log.write([append(*run_of(first, 4, term=1 + first // 30, size=4_000), commit=first - 1)])
    batches, restored = list(log.read(Offset(0), ALL)), log.restore()
    log.close()
    kinds = Counter(file.suffix or file.name.split("-")[0] for file in (path / "db").iterdir())
    assert kinds[".ldb"] >= 3
    assert kinds[".log"] >= 1
    assert len(batches) == LAST + 1
    return path, batches, restored


def flip(file: Path, rng: random.Random) -> None:
    data = bytearray(file.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    file.write_bytes(data)


def cut(file: Path, rng: random.Random) -> None:
    file.write_bytes(file.read_bytes()[: rng.randrange(file.stat().st_size)])


def zero_a_stretch(file: Path, rng: random.Random) -> None:
    data = bytearray(file.read_bytes())
    at = rng.randrange(len(data))
    length = min(rng.choice([1, 16, 512, 4_096, 32_768]), len(data) - at)
    data[at : at + length] = bytes(length)
    file.write_bytes(data)


def remove(file: Path, rng: random.Random) -> None:
    file.unlink()


def contents(path: Path) -> set[bytes]:
    """Every file of a log, under whatever name, but LevelDB's own diary."""
    files = [file for folder in ("db", "before") for file in (path / folder).glob("*")]
    return {file.read_bytes() for file in files if not file.name.startswith("LOG")}


def examine(path: Path, batches: list[Batch], restored: Restored) -> str:
    """Open, read everything, compare: "refused", "found" on reading, or "harmless"."""
    try:
        log = LevelLog.open(path, new_group(THREE), SMALL)
    except Corrupt:
        return "refused"
    try:
        assert log.restore() == restored, "a changed state was believed"
        at = 0
        while at <= LAST:
            found = log.read(Offset(at), 50_000)
            assert found, "the log ends early and does not say so"
            assert list(found) == batches[at : at + len(found)], "a wrong batch was served"
            at += len(found)
    except Corrupt as error:
        if error.offset != at or log.damage is None:
            raise AssertionError(f"the damage at {at} was not named: {error}") from error
        with pytest.raises(Corrupt):
            log.read(Offset(LAST), ALL)
        return "found"
    else:
        return "harmless"
    finally:
        log.close()


@pytest.mark.parametrize("harm", [flip, cut, zero_a_stretch, remove])
@pytest.mark.parametrize("kind", ["*.log", "*.ldb", "MANIFEST-*", "CURRENT"])
def test_damage_is_never_served(fast_folder: Path, whole: tuple[Path, list[Batch], Restored], kind: str, harm: Harm) -> None:
    source, batches, restored = whole
    rng = random.Random(f"{kind} {harm.__name__}")
    outcomes: Counter[str] = Counter()
    for _ in range(3 if harm is remove else 60):
        path = Path(shutil.copytree(source, tempfile.mktemp(dir=fast_folder)))
        file = rng.choice(sorted((path / "db").glob(kind)))
        before = file.read_bytes()
        harm(file, rng)
        if file.exists() and file.read_bytes() == before:
            outcomes["harmless"] += 1
        else:
            kept = contents(path)
            outcome = examine(path, batches, restored)
            outcomes[outcome] += 1
            if outcome == "refused":
                assert kept <= contents(path), "something that could not be read was deleted"
            elif outcome == "found":
                assert file.exists(), "the damaged file was deleted"
        shutil.rmtree(path)
    assert outcomes["refused"] + outcomes["found"] > 0, f"no damage was noticed at all: {outcomes}"


@pytest.mark.parametrize("harm", [flip, cut, remove])
def test_a_damaged_promise_is_mentioned_and_harmless(
    fast_folder: Path, whole: tuple[Path, list[Batch], Restored], harm: Harm
) -> None:
    source, batches, restored = whole
    rng = random.Random(harm.__name__)
    for _ in range(20):
        path = Path(shutil.copytree(source, tempfile.mktemp(dir=fast_folder)))
        harm(path / "promise", rng)
        assert examine(path, batches, restored) == "harmless"
        shutil.rmtree(path)


def test_a_promise_without_a_database_is_refused(tmp_path: Path, open_log: Opener) -> None:
    log = open_log()
    log.write([append(data_batch(0))])
    log.close()
    shutil.rmtree(log.path / "db")
    with pytest.raises(Corrupt, match="no database"):
        open_log()


def test_a_refused_log_is_refused_again_and_still_there(open_log: Opener) -> None:
    log = open_log()
    log.write([append(*run_of(0, 30, size=5_000))])
    log.close()
    manifest = next((log.path / "db").glob("MANIFEST-*"))
    manifest.write_bytes(manifest.read_bytes()[:20])
    kept = contents(log.path)
    for _ in range(3):
        with pytest.raises(Corrupt):
            open_log()
        assert kept <= contents(log.path)


def test_an_undamaged_log_keeps_nothing_aside(open_log: Opener) -> None:
    log = open_log()
    log.write([append(data_batch(0))])
    log.close()
    log = open_log()
    assert not (log.path / "before").exists()
    assert log.notes == ()


def test_damage_ends_where_the_log_is_truncated_or_compacted(open_log: Opener) -> None:
    """Without the damaged batch the log is whole again."""
    log = open_log()
    log.write([append(*run_of(0, 30, size=5_000))])
    log.damage = Corrupt("here", "a test", Offset(20))
    with pytest.raises(Corrupt):
        log.read(Offset(25), ALL)
    assert log.read(Offset(10), ALL)[-1].last == 19
    log.write([append(data_batch(20, term=2), truncate=19)])
    assert log.damage is not None, "the offset is in the log again, and was not read since"
    log.write([append(truncate=10)])
    assert log.damage is None


def test_the_lock_is_not_damage(open_log: Opener) -> None:
    log = open_log()
    with pytest.raises(Exception, match=r"LOCK|lock") as refused:
        open_log()
    assert not isinstance(refused.value, Corrupt)
    log.write([append(data_batch(0))])
    assert log.last == 0
