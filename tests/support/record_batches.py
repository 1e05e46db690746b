"""RecordBatches of a wanted size, for tests and benchmarks that do not care what is in them."""

from __future__ import annotations

from quorate.consensus.batch.header import HEADER_BYTES, LENGTH_END, MAGIC, Header, pack_header, seal


def record_batch(size: int, count: int = 1, fill: bytes = b"q") -> bytearray:
    """A sealed batch of `size` bytes that covers `count` offsets. Its records cannot be parsed."""
    header = Header(
        base=0,
        length=size - LENGTH_END,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_delta=count - 1,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records=count,
    )
    data = bytearray(pack_header(header))
    data += (fill * (size // len(fill) + 1))[: size - HEADER_BYTES]
    seal(data)
    return data
