"""What the machine allows: processes that do nothing but write batches, synced, each to a LevelDB of its own.

`python -m bench.replicated.probe '<json>'` is one such process. Also here: one round trip over loopback.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import plyvel

from bench.replicated.processes import line_of, start, stop

_KEY = struct.Struct(">BQ")
_PATIENCE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class ProbeSpec:
    """What a probe process is told."""

    folder: str
    batch_bytes: int
    grouped: int
    """How many batches go into one synced write."""
    duration_s: float


def write_for(spec: ProbeSpec) -> dict[str, float]:
    """Write until the time is over; batches per second, and the median of one synced write."""
    db = plyvel.DB(spec.folder, create_if_missing=True, compression=None)
    value = os.urandom(spec.batch_bytes)
    took: list[float] = []
    number = 0
    begin = before = time.perf_counter()
    while before - begin < spec.duration_s:
        batch = db.write_batch(sync=True)
        for _ in range(spec.grouped):
            number += 1
            batch.put(_KEY.pack(1, number), value)
        batch.write()
        now = time.perf_counter()
        took.append(now - before)
        before = now
    db.close()
    return {"batches_per_s": number / (before - begin), "write_ms": 1000 * median(took)}


def probe(
    folder: Path, batch_bytes: int, *, grouped: int = 1, processes: int = 3, duration_s: float = 2.0
) -> dict[str, float]:
    """The limit: the mean rate of so many processes at once, and the median of one synced write."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    specs = [
        ProbeSpec(folder=str(folder / f"p{n}"), batch_bytes=batch_bytes, grouped=grouped, duration_s=duration_s)
        for n in range(processes)
    ]
    running = [start("bench.replicated.probe", json.dumps(asdict(spec))) for spec in specs]
    try:
        for process in running:
            line_of(process, _PATIENCE_S)
        for process in running:
            process.send_signal(18)  # SIGCONT: all begin at once
        said: list[dict[str, Any]] = [json.loads(line_of(process, _PATIENCE_S)) for process in running]
    finally:
        for process in running:
            stop(process)
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "batches_per_s": sum(one["batches_per_s"] for one in said) / processes,
        "write_ms": median(one["write_ms"] for one in said),
    }


def round_trip_ms(rounds: int = 2_000) -> float:
    """The median of one small message there and back over a loopback connection between two threads' sockets."""
    listener = socket.create_server(("127.0.0.1", 0))

    def echo() -> None:
        peer, _ = listener.accept()
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with peer:
            while data := peer.recv(256):
                peer.sendall(data)

    thread = threading.Thread(target=echo, daemon=True)
    thread.start()
    took = []
    with socket.create_connection(listener.getsockname()) as near:
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(rounds):
            begin = time.perf_counter()
            near.sendall(b"q" * 100)
            near.recv(256)
            took.append(time.perf_counter() - begin)
    thread.join(1)
    listener.close()
    return 1000 * median(took)


def main() -> None:
    """One probe process: says that it is ready, and begins when it is told to."""
    import signal

    spec = ProbeSpec(**json.loads(sys.argv[1]))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCONT})
    print("ready", flush=True)
    signal.sigwait({signal.SIGCONT})
    print(json.dumps(write_for(spec)), flush=True)


if __name__ == "__main__":
    main()
