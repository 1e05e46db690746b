"""Queues full of messages, as fast as they can be made: batches are built once and appended again and again."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor

from quorate.broker.protocol.builder import BatchBuilder
from quorate.client import Client, TopicPartition

BATCH_BYTES = 500_000
"""About what a producer that waits for full batches sends."""
_AT_ONCE = 8


def fill(bootstrap: str, queue: str, partitions: int, rows: int, size: int) -> int:
    """Create the queue and append at least so many messages, evenly; how many they are. Values are random bytes."""
    batch, count = _batch(size)
    with Client(bootstrap) as client:
        client.create_topic(queue, partitions, 3)
        wanted = {partition: max(1, round(rows / partitions / count)) for partition in range(partitions)}
        turns = [TopicPartition(queue, part) for turn in range(max(wanted.values())) for part in range(partitions)]
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(lambda part: client.produce(part, bytearray(batch)), turns))
    return len(turns) * count


def _batch(size: int) -> tuple[bytearray, int]:
    builder, rng = BatchBuilder(), random.Random(size)
    now = round(time.time() * 1_000)
    while builder.size < BATCH_BYTES:
        builder.append(now, None, rng.randbytes(size))
    return builder.build(), builder.count
