"""Real processes that are killed while they write, and power that goes out: what was acknowledged is there, and no more than
the one write that was under way beside it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from quorate.chaos.faults.disk_control import Disk, find_library
from quorate.consensus.core import new_group
from quorate.consensus.storage.api import Corrupt
from quorate.consensus.storage.level import LevelLog
from tests.consensus.storage.conftest import SMALL
from tests.consensus.storage.workload import image_of, next_write, same
from tests.support.batches import THREE, append, data_batch
from tests.support.disk import Image

ROOT = Path(__file__).resolve().parents[3]
DEADLINE_S = 240
ROUNDS_PER_LOG = 10


class Crasher:
    """The forking process, seen from here."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.consensus.storage.crasher"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def round(self, path: Path, seed: int, acks: int, delay_us: int, sync: bool = True) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"path": str(path), "seed": seed, "acks": acks, "delay_us": delay_us, "sync": sync}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=DEADLINE_S)


@pytest.fixture
def start_crasher() -> Iterator[Callable[..., Crasher]]:
    with ExitStack() as stack:

        def start(environment: dict[str, str] | None = None) -> Crasher:
            crasher = Crasher(environment)
            stack.callback(crasher.close)
            return crasher

        yield start


def opened(path: Path) -> LevelLog:
    return LevelLog.open(path, new_group(THREE), SMALL)


def after(image: Image, seed: int, writes: int, sync: bool = True) -> Image:
    """What a log holds that held `image`, after so many writes of this seed."""
    result, rng = image.copy(), random.Random(seed)
    for _ in range(writes):
        result.apply(next_write(rng, result, sync))
    return result


def check(log: LevelLog, before: Image, seed: int, acknowledged: int) -> Image:
    """The log holds all acknowledged writes, and at most the one after them; what it holds."""
    found = image_of(log)
    exact, one_more = after(before, seed, acknowledged), after(before, seed, acknowledged + 1)
    assert same(found, exact) or same(found, one_more), f"{acknowledged} writes of seed {seed} are not what is there"
    return found


@pytest.mark.timeout(DEADLINE_S)
def test_kill_in_the_middle_of_appends(tmp_path: Path, start_crasher: Callable[..., Crasher], crash_rounds: int) -> None:
    crasher = start_crasher()
    rng = random.Random(crash_rounds)
    total = 0
    before = Image(new_group(THREE))
    for number in range(crash_rounds):
        path = tmp_path / f"log-{number // ROUNDS_PER_LOG}"
        if number % ROUNDS_PER_LOG == 0:
            before = Image(new_group(THREE))
        acks, delay_us = rng.randrange(0, 25), rng.randrange(0, 3_000) * (rng.random() < 0.5)
        acknowledged = crasher.round(path, number, acks, delay_us)
        log = opened(path)
        before = check(log, before, number, acknowledged)
        assert not [note for note in log.notes if "lost" in note]
        log.close()
        total += acknowledged
    assert total >= crash_rounds * 5


@pytest.mark.timeout(DEADLINE_S)
def test_power_loss(tmp_path: Path, start_crasher: Callable[..., Crasher], crash_rounds: int) -> None:
    crasher, disk = start_powerless(tmp_path, start_crasher)
    rng = random.Random(crash_rounds)
    lost = 0
    before = Image(new_group(THREE))
    for number in range(crash_rounds):
        path = disk.folder / f"log-{number // ROUNDS_PER_LOG}"
        if number % ROUNDS_PER_LOG == 0:
            before = Image(new_group(THREE))
        promise = path / "promise"
        old_promise = promise.read_bytes() if promise.exists() else b""
        # What the last round left has been on the disk for long.
        disk.settle()
        acknowledged = crasher.round(path, number, rng.randrange(0, 25), rng.randrange(0, 3_000))
        kept_promise = promise.read_bytes() if promise.exists() else b""
        lost += disk.lose_power(rng)
        # The promise is not synced on the way: the disk has it as it was, or as it became.
        if promise.exists():
            promise.write_bytes(kept_promise if rng.random() < 0.5 else old_promise)
        log = opened(path)
        before = check(log, before, number, acknowledged)
        log.close()
    assert lost > 0, "nothing was ever lost: the harness does nothing"


def start_powerless(tmp_path: Path, start: Callable[..., Crasher]) -> tuple[Crasher, Disk]:
    """Fails clearly where there is no C compiler: without it nothing here can be tested."""
    disk = Disk(tmp_path / "logs", tmp_path / "control")
    return start(os.environ | disk.environment(find_library())), disk


def test_without_sync_the_harness_loses_acknowledged_writes(tmp_path: Path, start_crasher: Callable[..., Crasher]) -> None:
    """The proof that the test above can fail."""
    crasher, disk = start_powerless(tmp_path, start_crasher)
    path = disk.folder / "log"
    acknowledged = crasher.round(path, seed=1, acks=8, delay_us=0, sync=False)
    assert disk.lose_power(random.Random(1)) > 0
    log = opened(path)
    with pytest.raises(AssertionError, match="are not what is there"):
        check(log, Image(new_group(THREE)), 1, acknowledged)
    log.close()


def test_the_promise_finds_acknowledged_writes_that_are_gone(tmp_path: Path) -> None:
    """The journal lost its end, which LevelDB takes for a write that was cut off; the promise had reached the disk."""
    path = tmp_path / "log"
    log = LevelLog.open(path, new_group(THREE))
    for base in range(8):
        log.write([append(data_batch(base))])
    log.close()
    (journal,) = (path / "db").glob("*.log")
    os.truncate(journal, journal.stat().st_size // 2)
    with pytest.raises(Corrupt, match="were acknowledged"):
        opened(path)
    assert (path / "before" / journal.name).exists()


DYING_DISK = """
import sys
from pathlib import Path
from quorate.chaos.faults.disk_control import Disk
from quorate.consensus.core import Offset, new_group
from quorate.consensus.storage.api import StorageFailed
from quorate.consensus.storage.level import LevelLog
from tests.support.batches import THREE, append, data_batch

folder = Path(sys.argv[1])
disk = Disk(folder, Path(sys.argv[2]))
log = LevelLog.open(folder, new_group(THREE))
log.write([append(data_batch(0))])
for broken in (True, True, False):
    disk.fail_syncs() if broken else disk.heal()
    try:
        log.write([append(data_batch(1))])
    except StorageFailed as error:
        print("failed", "definite" if error.definite else "may have happened", log.last, len(log.read(Offset(0), 1 << 20)))
"""


def test_a_failed_sync_is_final(tmp_path: Path) -> None:
    """What the disk has after it is not known: the replica must stop, even if the next sync were to succeed."""
    environment = os.environ | Disk(tmp_path / "log", tmp_path / "control").environment(find_library())
    done = subprocess.run(
        [sys.executable, "-c", DYING_DISK, tmp_path / "log", tmp_path / "control"],
        cwd=ROOT,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines() == ["failed may have happened 0 1"] * 3
    log = opened(tmp_path / "log")
    assert log.last in (0, 1)
    log.close()
