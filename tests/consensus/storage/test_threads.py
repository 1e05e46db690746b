"""Readers in other threads, while the log is appended to, truncated, compacted, trimmed and opened anew."""

from __future__ import annotations

import random
import threading
from itertools import pairwise

from quorate.consensus.core import LogStart, Millis, Offset, Persist, Term, Token
from quorate.consensus.storage.level import LevelLog
from tests.consensus.storage.conftest import Opener
from tests.support.batches import THREE, append, run_of

TOKEN = Token(1, Term(1), Offset(0), Term(1))
ROUNDS = 150


class Reader(threading.Thread):
    """Reads all the time. Whatever it gets must hold together; what it may not get is an error."""

    def __init__(self, log: LevelLog, seed: int) -> None:
        super().__init__(daemon=True)
        self.log = log
        self.rng = random.Random(seed)
        self.done = threading.Event()
        self.reads = 0
        self.wrong: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.done.is_set():
                self.look()
                self.reads += 1
        except BaseException as error:
            self.wrong = error
            raise

    def look(self) -> None:
        log, rng = self.log, self.rng
        first = Offset(log.start + rng.randrange(1, 60))
        batches = log.read(first, rng.choice([0, 1_000, 100_000]))
        for before, after in pairwise(batches):
            assert after.base == before.last + 1
            assert after.term >= before.term
        assert not batches or batches[0].base <= first <= batches[0].last
        log.find_time(Millis(1_000 + rng.randrange(3_000)))
        log.find_size(rng.randrange(50_000))


def test_readers_are_never_misled(open_log: Opener) -> None:
    log = open_log()
    readers = [Reader(log, seed) for seed in range(2)]
    for reader in readers:
        reader.start()
    try:
        write_all_kinds(log, random.Random(5))
    finally:
        for reader in readers:
            reader.done.set()
        for reader in readers:
            reader.join(timeout=60)
    assert [reader.wrong for reader in readers] == [None, None]
    assert log.damage is None
    assert all(reader.reads > 5 for reader in readers)


def write_all_kinds(log: LevelLog, rng: random.Random) -> None:
    term, last = 1, -1
    for number in range(ROUNDS):
        truncate = None
        if rng.random() < 0.3 and last > log.start + 5:
            last -= rng.randrange(1, 5)
            term, truncate = term + 1, last
        count = rng.randrange(1, 10)
        log.write([append(*run_of(last + 1, count, term, size=2_000, stamp=1_000 + last), truncate=truncate)])
        last += count
        if rng.random() < 0.1 and last - log.start > 60:
            start = log.read(Offset(last - 40), 0)[0]
            log.write([Persist(TOKEN, sync=False, start=LogStart(start.last, start.term, THREE))])
        log.trim()
        if number % 20 == 0:
            log._reopen()
