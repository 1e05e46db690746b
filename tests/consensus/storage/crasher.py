"""A process that forks processes which write to a log, and kills them in the middle of it. Started once for many rounds.

Each line on its input is a round: {"path", "seed", "acks", "delay_us", "sync"}; each line on its output says how many writes
were acknowledged. It never opens a log itself: LevelDB's threads do not survive a fork.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from quorate.consensus.core import new_group
from quorate.consensus.storage.level import LevelLog
from tests.consensus.storage.conftest import SMALL
from tests.consensus.storage.workload import image_of, next_write
from tests.support.batches import THREE

MOST_WRITES = 10_000


def work(path: Path, seed: int, sync: bool, acks: int) -> None:
    """Write until killed; one byte for each write that came back."""
    log = LevelLog.open(path, new_group(THREE), SMALL)
    rng = random.Random(seed)
    image = image_of(log)
    for _ in range(MOST_WRITES):
        write = next_write(rng, image, sync)
        log.write([write])
        os.write(acks, b"a")
        image.apply(write)
        log.trim()


def one_round(path: Path, seed: int, sync: bool, wanted: int, delay_us: int) -> int:
    """Fork, wait for so many acknowledgements and a little longer, kill; how many there were in the end."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        try:
            work(path, seed, sync, write_end)
        finally:
            os._exit(1)
    os.close(write_end)
    got = 0
    while got < wanted:
        some = os.read(read_end, wanted - got)
        if not some:
            break
        got += len(some)
    time.sleep(delay_us / 1e6)
    os.kill(child, signal.SIGKILL)
    while some := os.read(read_end, 65_536):
        got += len(some)
    os.close(read_end)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise RuntimeError("the writer ended by itself")
    return got


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        got = one_round(Path(order["path"]), order["seed"], order["sync"], order["acks"], order["delay_us"])
        print(got, flush=True)


if __name__ == "__main__":
    main()
