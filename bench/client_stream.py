"""How fast the client streams a partition from a cluster of three: `python -m bench.client_stream [--mb 450]`.

What was written just before is read back over loopback, in answers of several sizes. Bound by the node that leads, not by
the client: the last columns are processors.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from bench.peers.quorate_up import QuorateUp
from quorate.client import LATEST, Client, TopicPartition
from quorate.client.batches import BatchBuilder

BATCH_BYTES = 900_000
PART = TopicPartition("rate", 0)
MIB = 1 << 20


def cpu_seconds() -> float:
    """Of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def stream(client: Client, peer: QuorateUp, end: int, mib: int, prefetch: int) -> str:
    """Read it all once; a line of the table."""
    began, mine, theirs = time.monotonic(), cpu_seconds(), peer.cpu_seconds()
    size = sum(len(data) for data in client.stream(PART, 0, end, max_bytes=mib * MIB, prefetch=prefetch))
    took_s = time.monotonic() - began
    client_share, node_share = (cpu_seconds() - mine) / took_s, (peer.cpu_seconds() - theirs) / took_s
    return f"{mib:5} MiB {prefetch:9} {size / took_s / 1e6:7.0f} MB/s {client_share:8.2f} {node_share:8.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=450, help="how much is written and read (default 450)")
    batches = max(1, parser.parse_args().mb * 1_000_000 // BATCH_BYTES)
    with tempfile.TemporaryDirectory() as folder:
        peer = QuorateUp(Path(folder), 3)
        try:
            with Client(peer.start()) as client:
                client.create_topic(PART.topic, 1, 3)
                batch = BatchBuilder()
                batch.append(0, None, bytes(BATCH_BYTES))
                for _ in range(batches):
                    client.produce(PART, batch.build())
                end = client.offsets({PART: LATEST})[PART].offset
                print("answers    prefetch         rate   client    nodes")
                for mib in (1, 2, 4, 8):
                    for prefetch in (0, 2):
                        print(stream(client, peer, end, mib, prefetch), flush=True)
        finally:
            peer.stop()


if __name__ == "__main__":
    main()
