"""Batches in a fetched buffer, found by their headers and not copied: which of them cover a range of offsets.

For readers that hand whole batches on. What is inside of a batch is the business of `records`.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from quorate.broker.protocol.compression import Compression, deflate, inflate
from quorate.broker.protocol.kafka.wire import Buffer
from quorate.consensus.batch.errors import BadBatch, Reason
from quorate.consensus.batch.header import (
    CONTROL,
    CRC_FROM,
    HEADER_BYTES,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAGIC,
    NO_EPOCH,
    NO_PRODUCER,
    Header,
    pack_header,
    read_header,
    seal,
)
from quorate.consensus.batch.validate import MIN_RECORD_BYTES, check_stored

__all__ = [
    "CONTROL",
    "HEADER_BYTES",
    "LENGTH_END",
    "LOG_APPEND_TIME",
    "MAGIC",
    "MIN_RECORD_BYTES",
    "NO_EPOCH",
    "NO_PRODUCER",
    "BadBatch",
    "Buffer",
    "Compression",
    "Header",
    "Reason",
    "Span",
    "check_stored",
    "deflate",
    "inflate",
    "pack_header",
    "read_header",
    "seal",
    "span",
]

# Base offset, length, leader epoch, magic, checksum, attributes, last offset delta.
_FRONT: Final = struct.Struct(">qiibIhi")
_SHORTEST: Final = HEADER_BYTES - LENGTH_END


class Span(NamedTuple):
    """data[start:stop] are whole batches; after them a reader goes on at `next_offset`."""

    start: int
    stop: int
    next_offset: int


def span(data: Buffer, begin: int, end: int, *, check: bool) -> Span:
    """The whole batches that cover the offsets from `begin` to before `end`, or fewer if there are no more.

    A last batch that is cut off is left out: a broker may cut. Nothing found: an empty span that goes on at `begin`.
    With `check` each checksum is compared. Raises BadBatch.
    """
    view = memoryview(data)
    size, at, start = len(view), 0, -1
    front = _FRONT.unpack_from
    offset = begin
    while size - at >= HEADER_BYTES:
        base, length, _, magic, crc, _, delta = front(view, at)
        stop = at + LENGTH_END + length
        if magic != MAGIC or length < _SHORTEST or delta < 0 or base < 0:
            raise BadBatch(Reason.LENGTH, at, f"no batch: magic {magic}, length {length}, offset {base} + {delta}")
        if stop > size or base >= end:
            break
        if base + delta >= offset:
            if start < 0:
                start = at
            elif base < offset:
                raise BadBatch(Reason.OFFSET, at, f"a batch at offset {base} after one that ends at {offset - 1}")
            if check and crc32c(view[at + CRC_FROM : stop]) != crc:
                raise BadBatch(Reason.CRC, at, f"the batch at offset {base} has a wrong checksum")
            offset = base + delta + 1
        elif start >= 0:
            raise BadBatch(Reason.OFFSET, at, f"a batch at offset {base} after one that ends at {offset - 1}")
        at = stop
    return Span(start, at, offset) if start >= 0 else Span(0, 0, begin)
