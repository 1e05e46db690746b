"""The preloaded library: a process whose disk is slow, broken, full, or loses what was not synced."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.chaos.faults.disk_control import Disk

PATIENCE_S = 60

WORKER = """
import os, sys
folder, elsewhere = sys.argv[1:3]
fds = {}
def put(name, text, root=folder):
    path = os.path.join(root, name)
    if path not in fds:
        fds[path] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    return os.write(fds[path], text.encode())
def sync(name, root=folder):
    os.fdatasync(fds[os.path.join(root, name)])
for line in sys.stdin:
    try:
        print("ok", eval(line), flush=True)
    except OSError as error:
        print("error", error.errno, flush=True)
"""


class Worker:
    """A process that does to its disk what it is told, line by line."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.disk = Disk(folder / "data", folder / "control")
        self.elsewhere = folder / "elsewhere"
        self.elsewhere.mkdir()
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER, self.disk.folder, self.elsewhere],
            env=os.environ | self.disk.environment(library),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=PATIENCE_S)


@pytest.fixture
def worker(tmp_path: Path, disk_library: Path) -> Iterator[Worker]:
    made = Worker(tmp_path, disk_library)
    try:
        yield made
    finally:
        made.kill()
        made.disk.close()


def test_a_slow_sync_takes_that_long(worker: Worker) -> None:
    worker.do("put('a', 'x')")
    worker.disk.slow(300)
    begun = time.monotonic()
    assert worker.do("sync('a')") == "ok None"
    assert time.monotonic() - begun >= 0.3
    worker.disk.heal()
    assert worker.disk.syncs == 1


def test_syncs_fail(worker: Worker) -> None:
    worker.do("put('a', 'x')")
    worker.disk.fail_syncs()
    assert worker.do("sync('a')") == f"error {errno.EIO}"
    assert worker.do("put('a', 'y')") == "ok 1"
    worker.disk.heal()
    assert worker.do("sync('a')") == "ok None"
    assert worker.disk.refused == 1


def test_a_full_disk_takes_nothing_and_says_so(worker: Worker) -> None:
    worker.disk.fill()
    assert worker.do("put('a', 'x')") == f"error {errno.ENOSPC}"
    assert worker.do("os.statvfs(folder).f_bavail") == "ok 0"
    assert worker.do("os.statvfs(elsewhere).f_bavail > 0") == "ok True"
    assert worker.do("put('a', 'x', elsewhere)") == "ok 1"
    worker.disk.heal()
    assert worker.do("put('a', 'x')") == "ok 1"
    assert worker.do("os.statvfs(folder).f_bavail > 0") == "ok True"


def test_power_takes_what_was_not_synced(worker: Worker) -> None:
    worker.do("put('a', 'kept'), sync('a')")
    worker.do("put('a', ' and lost' * 100)")
    worker.do("put('b', 'never synced' * 100)")
    worker.do("put('c.new', 'renamed'), sync('c.new'), os.rename(folder + '/c.new', folder + '/c')")
    assert worker.disk.synced(worker.disk.folder / "a") == 4
    worker.kill()
    for seed in range(20):
        worker.disk.lose_power(random.Random(seed))
    assert (worker.disk.folder / "a").read_bytes()[:4] == b"kept"
    assert b"lost" * 100 not in (worker.disk.folder / "a").read_bytes()
    assert (worker.disk.folder / "c").read_bytes() == b"renamed"


def test_power_without_a_sync_takes_everything_but_a_torn_bit(worker: Worker) -> None:
    worker.do("put('a', 'x' * 10_000)")
    worker.kill()
    assert worker.disk.lose_power(random.Random(1)) >= 9_000
    assert (worker.disk.folder / "a").read_bytes().count(b"x") <= 200


def test_what_has_been_there_for_long_is_kept(worker: Worker) -> None:
    worker.do("put('a', 'x' * 10_000)")
    worker.kill()
    worker.disk.settle()
    assert worker.disk.lose_power(random.Random(1)) == 0


def test_hard_links_share_what_was_synced(worker: Worker) -> None:
    worker.do("put('a', 'kept'), sync('a'), os.link(folder + '/a', folder + '/0-before-a')")
    worker.kill()
    worker.disk.lose_power(random.Random(1))
    assert (worker.disk.folder / "a").read_bytes() == b"kept"


def test_many_files_find_their_place(worker: Worker) -> None:
    worker.do("[(put(f'f{n}', 'x' * n), sync(f'f{n}')) for n in range(300)] and None")
    assert [worker.disk.synced(worker.disk.folder / f"f{n}") for n in range(300)] == list(range(300))
