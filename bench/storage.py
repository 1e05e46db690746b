"""How fast one log appends, synced, against the same writes to a bare LevelDB: `python -m bench.storage [folder]`.

The difference is what the log adds: marks, checks, the promise, and Python.
"""

from __future__ import annotations

import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import plyvel

from quorate.consensus.batch.header import stamp
from quorate.consensus.core import Batch, BatchKind, Offset, Term, new_group
from quorate.consensus.storage.level import LevelLog
from quorate.consensus.storage.settings import StorageSettings
from tests.support.batches import THREE, append, data_batch

CASES = ((100, 1, 1_000), (100, 64, 150), (16 * 1024, 1, 500), (64 * 1024, 1, 300), (1024 * 1024, 1, 60))
"""Bytes of a batch, batches per write, writes."""
ROUNDS = 5


def bare(folder: Path, size: int, group: int, writes: int) -> float:
    """Seconds for the writes to LevelDB alone."""
    settings = StorageSettings()
    db = plyvel.DB(str(folder), create_if_missing=True, compression=None, write_buffer_size=settings.write_buffer_bytes)
    value, number = bytes(size), 0
    begin = time.perf_counter()
    for _ in range(writes):
        batch = db.write_batch(sync=True)
        for _ in range(group):
            batch.put(struct.pack(">BQ", 1, number), value)
            number += 1
        batch.write()
    taken = time.perf_counter() - begin
    db.close()
    return taken


def level(folder: Path, size: int, group: int, writes: int) -> float:
    """Seconds for the same through `LevelLog.write`."""
    log = LevelLog.open(folder, new_group(THREE))
    buffers = [bytearray(data_batch(0, size=size - 61).data) for _ in range(group)]
    taken = 0.0
    for number in range(writes):
        batches = []
        for place, buffer in enumerate(buffers, number * group):
            stamp(buffer, place, 1)
            batches.append(Batch(Offset(place), Offset(place), Term(1), BatchKind.DATA, buffer))
        write = append(*batches, commit=number * group - 1)
        begin = time.perf_counter()
        log.write([write])
        taken += time.perf_counter() - begin
    log.close()
    return taken


def once(run: Callable[[Path, int, int, int], float], folder: Path, case: tuple[int, int, int]) -> float:
    place = Path(tempfile.mkdtemp(dir=folder))
    try:
        return run(place / "log", *case)
    finally:
        shutil.rmtree(place)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.gettempdir())
    print(f"{'batch':>8} {'per write':>9} {'bare, us':>9} {'log, us':>9} {'bare, MB/s':>10} {'log, MB/s':>10} {'share':>6}")
    for case in CASES:
        size, group, writes = case
        # In turn, and the best of each: other work on the machine comes and goes, and only ever adds.
        rounds = [(once(bare, folder, case), once(level, folder, case)) for _ in range(ROUNDS)]
        one, other = (min(times) for times in zip(*rounds, strict=True))
        megabytes = size * group * writes / 1e6
        print(
            f"{size:>8} {group:>9} {one / writes * 1e6:>9.0f} {other / writes * 1e6:>9.0f} "
            f"{megabytes / one:>10.1f} {megabytes / other:>10.1f} {one / other:>6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
