"""Whether a batch may be believed: the full check of what a client sent, and the cheap one of what our own disk gave back.

Both look at the header and the checksum only. Whether the records inside are well formed is for those who read records; the
checksum says that they are what the producer wrote.
"""

from __future__ import annotations

from typing import Final

from crc32c import crc32c

from quorate.consensus.batch.errors import BadBatch, Reason
from quorate.consensus.batch.header import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_FROM,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_AT,
    NO_PRODUCER,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    Header,
)
from quorate.consensus.core.types import Buffer

LAST_COMPRESSION: Final = 4
"""None, gzip, snappy, lz4, zstd."""
MIN_RECORD_BYTES: Final = 7
"""A record without key, value and headers: seven fields of one byte each."""
MAX_RECORDS: Final = 1 << 24
"""More than a compressed batch may claim to hold: its count cannot be checked without inflating it."""
MAX_TIMESTAMP_MS: Final = 253_402_300_799_999
"""The end of the year 9999. A client that stamps in microseconds is beyond it, and is told so."""

_NOT_FROM_CLIENTS: Final = CONTROL | LOG_APPEND_TIME | DELETE_HORIZON


def validate(data: Buffer) -> Header:
    """Check that a client sent exactly one whole batch that may be appended as it is. Raises BadBatch."""
    header = _whole(data)
    _, length, _, _, crc, attributes, last_delta, base_timestamp, max_timestamp, *producer, count = header
    if attributes & _NOT_FROM_CLIENTS:
        raise BadBatch(Reason.ATTRIBUTES, 21, f"attributes {attributes:#x}: only a broker sets such bits")
    if attributes & COMPRESSION_MASK > LAST_COMPRESSION:
        raise BadBatch(Reason.COMPRESSION, 21, f"compression {attributes & COMPRESSION_MASK} is not known")
    if count < 1 or last_delta != count - 1:
        raise BadBatch(Reason.COUNT, 57, f"{count} records, but the last offset delta is {last_delta}")
    body = length + LENGTH_END - HEADER_BYTES
    most = MAX_RECORDS if attributes & COMPRESSION_MASK else body // MIN_RECORD_BYTES
    if count > most or not body:
        raise BadBatch(Reason.COUNT, 57, f"{count} records do not fit {body} bytes")
    if not NO_TIMESTAMP <= base_timestamp <= max_timestamp <= MAX_TIMESTAMP_MS:
        raise BadBatch(Reason.TIMESTAMP, 27, f"base timestamp {base_timestamp}, max timestamp {max_timestamp}")
    _check_producer(attributes, *producer)
    _check_crc(data, crc)
    return header


def check_stored(data: Buffer) -> Header:
    """Check that a value from our own disk is one whole batch with its right checksum. Raises BadBatch."""
    header = _whole(data)
    _check_crc(data, header.crc)
    return header


def _whole(data: Buffer) -> Header:
    size = len(data)
    if size < HEADER_BYTES:
        if size > MAGIC_AT and data[MAGIC_AT] != MAGIC:
            raise _old_magic(data)
        raise BadBatch(Reason.TRUNCATED, size, f"a header has {HEADER_BYTES} bytes, and here are {size}")
    header = Header._make(HEADER.unpack_from(data))
    if header.magic != MAGIC:
        raise _old_magic(data)
    if header.length != size - LENGTH_END:
        if header.length < HEADER_BYTES - LENGTH_END:
            raise BadBatch(Reason.LENGTH, 8, f"a batch cannot be {header.length} bytes long")
        reason = Reason.TRUNCATED if header.length > size - LENGTH_END else Reason.TRAILING
        raise BadBatch(reason, min(size, header.size), f"the header says {header.size} bytes, and here are {size}")
    if header.last_delta < 0:
        raise BadBatch(Reason.COUNT, 23, f"last offset delta {header.last_delta}")
    return header


def _old_magic(data: Buffer) -> BadBatch:
    return BadBatch(Reason.MAGIC, MAGIC_AT, f"magic {data[MAGIC_AT]}; only {MAGIC} is known")


def _check_producer(attributes: int, producer_id: int, epoch: int, sequence: int) -> None:
    # Without an id the other two mean nothing, and some clients leave zeros there.
    if producer_id == NO_PRODUCER:
        if attributes & TRANSACTIONAL:
            raise BadBatch(Reason.PRODUCER, 43, "a transactional batch without a producer id")
    elif producer_id < 0 or epoch < 0 or sequence < 0:
        raise BadBatch(Reason.PRODUCER, 43, f"producer {producer_id}, epoch {epoch}, sequence {sequence}")


def _check_crc(data: Buffer, stored: int) -> None:
    computed = crc32c(memoryview(data)[CRC_FROM:])
    if computed != stored:
        raise BadBatch(Reason.CRC, 17, f"the checksum is {computed:#010x}, and the header says {stored:#010x}")
