"""All that a queue holds, read with our own client: control batches are left out, as every consumer does."""

from __future__ import annotations

from collections.abc import Iterator

from quorate.broker.protocol.records import Record, read_records, split_batches
from quorate.client import EARLIEST, LATEST, Client, TopicPartition
from quorate.client.batches import CONTROL, check_stored


def contents(bootstrap: str, queue: str) -> list[tuple[int, Record]]:
    """(partition, record), each partition in its order."""
    found: list[tuple[int, Record]] = []
    with Client(bootstrap) as client:
        parts = [TopicPartition(queue, one.index) for one in client.topics([queue])[queue].partitions]
        starts = client.offsets(dict.fromkeys(parts, EARLIEST))
        ends = client.offsets(dict.fromkeys(parts, LATEST))
        for part in parts:
            start, end = starts[part].offset, ends[part].offset
            for data in client.stream(part, start, end, max_bytes=1 << 20):
                found += ((part.partition, record) for record in _records(data) if start <= record.offset < end)
    return found


def _records(data: memoryview) -> Iterator[Record]:
    for batch in split_batches(data):
        if not check_stored(batch).attributes & CONTROL:
            yield from read_records(batch)
