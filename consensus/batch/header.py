"""The header of a Kafka RecordBatch v2, read and patched where it lies: nothing here copies a batch or looks at its records.

Functions over buffers and ints, because this runs for every append. A batch begins at byte 0 of its buffer (hand in a slice
of a memoryview otherwise). Not here: whether a batch is acceptable (`validate`), and records (`quorate.broker.protocol`).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from quorate.consensus.batch.errors import BadBatch, Reason
from quorate.consensus.core.types import Buffer

Writable = bytearray | memoryview
"""A buffer that may be patched. Patching a read-only memoryview is the caller's mistake: TypeError."""

HEADER_BYTES: Final = 61
LENGTH_END: Final = 12
"""The length field counts what comes after it, that is from byte 12 on."""
CRC_AT: Final = 17
CRC_FROM: Final = 21
"""The checksum covers everything from the attributes to the end; base offset, length and leader epoch are outside."""
ATTRIBUTES_AT: Final = 21
MAGIC_AT: Final = 16
MAGIC: Final = 2

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

NO_TIMESTAMP: Final = -1
NO_PRODUCER: Final = -1
NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
INT64: Final = struct.Struct(">q")
INT32: Final = struct.Struct(">i")
INT16: Final = struct.Struct(">h")
_UINT32: Final = struct.Struct(">I")
_TIMESTAMPS: Final = struct.Struct(">qq")
_PRODUCER: Final = struct.Struct(">qhi")

_LENGTH_AT: Final = 8
_EPOCH_AT: Final = 12
_LAST_DELTA_AT: Final = 23
_BASE_TIMESTAMP_AT: Final = 27
_MAX_TIMESTAMP_AT: Final = 35
_PRODUCER_AT: Final = 43
_COUNT_AT: Final = 57


class Header(NamedTuple):
    """Every field of a header, in the order of its bytes."""

    base: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int

    @property
    def last(self) -> int:
        """The last offset that the batch covers."""
        return self.base + self.last_delta

    @property
    def size(self) -> int:
        """Bytes of the whole batch, as the header says."""
        return self.length + LENGTH_END

    @property
    def compression(self) -> int:
        """The code of the compression; 0 is none."""
        return self.attributes & COMPRESSION_MASK

    @property
    def log_append_time(self) -> bool:
        """Whether `max_timestamp` is the broker's and stands for every record."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def control(self) -> bool:
        """Whether the batch is for brokers, and consumers skip it."""
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon(self) -> bool:
        """Whether `base_timestamp` is the time from which tombstones may go."""
        return bool(self.attributes & DELETE_HORIZON)


def _short(data: Buffer) -> BadBatch:
    return BadBatch(Reason.TRUNCATED, len(data), f"a header has {HEADER_BYTES} bytes, and here are {len(data)}")


def read_header(data: Buffer) -> Header:
    """All fields, as they stand there. Raises BadBatch if the header is not all there; checks nothing else."""
    if len(data) < HEADER_BYTES:
        raise _short(data)
    return Header._make(HEADER.unpack_from(data))


def base_offset(data: Buffer) -> int:
    """The first offset."""
    return _read(INT64, data, 0)


def last_offset(data: Buffer) -> int:
    """The last offset."""
    return _read(INT64, data, 0) + _read(INT32, data, _LAST_DELTA_AT)


def leader_epoch(data: Buffer) -> int:
    """The term of the leader that appended the batch."""
    return _read(INT32, data, _EPOCH_AT)


def attributes(data: Buffer) -> int:
    """The attribute bits."""
    return _read(INT16, data, ATTRIBUTES_AT)


def base_timestamp(data: Buffer) -> int:
    """The time that the records' times are counted from, in milliseconds."""
    return _read(INT64, data, _BASE_TIMESTAMP_AT)


def max_timestamp(data: Buffer) -> int:
    """The latest time in the batch, or the time of the append, in milliseconds; -1 for none."""
    return _read(INT64, data, _MAX_TIMESTAMP_AT)


def record_count(data: Buffer) -> int:
    """How many records the header says there are."""
    return _read(INT32, data, _COUNT_AT)


def stored_crc(data: Buffer) -> int:
    """The checksum that the header holds."""
    return _read(_UINT32, data, CRC_AT)


def compute_crc(data: Buffer) -> int:
    """The checksum that the header should hold. The GIL is free while a large batch is summed."""
    return crc32c(memoryview(data)[CRC_FROM:])


def batch_size(data: Buffer) -> int:
    """Bytes of the batch that begins here, by its length field; at least a header. The rest need not be there yet."""
    length = _read(INT32, data, _LENGTH_AT)
    if length < HEADER_BYTES - LENGTH_END:
        raise BadBatch(Reason.LENGTH, _LENGTH_AT, f"a batch cannot be {length} bytes long")
    return length + LENGTH_END


def stamp(data: Writable, base: int, epoch: int) -> None:
    """Write base offset and leader epoch. Both are outside of the checksum."""
    if len(data) < HEADER_BYTES:
        raise _short(data)
    # Every patch packs all its values before it writes the first, so that a refused one changes nothing.
    first, second = _pack(INT64, 0, base), _pack(INT32, _EPOCH_AT, epoch)
    data[:_LENGTH_AT] = first
    data[_EPOCH_AT:MAGIC_AT] = second


def stamp_append_time(data: Writable, stamp_ms: int) -> None:
    """Give all records the broker's time: the timestamp-type bit, maxTimestamp, and the checksum anew."""
    bits = attributes(data) | LOG_APPEND_TIME
    data[_MAX_TIMESTAMP_AT:_PRODUCER_AT] = _pack(INT64, _MAX_TIMESTAMP_AT, stamp_ms)
    INT16.pack_into(data, ATTRIBUTES_AT, bits)
    seal(data)


def patch_attributes(data: Writable, bits: int) -> None:
    """Write the attribute bits. The checksum is stale until `seal`."""
    if len(data) < HEADER_BYTES:
        raise _short(data)
    data[ATTRIBUTES_AT:_LAST_DELTA_AT] = _pack(INT16, ATTRIBUTES_AT, bits)


def patch_timestamps(data: Writable, base: int, latest: int) -> None:
    """Write baseTimestamp and maxTimestamp. The checksum is stale until `seal`."""
    if len(data) < HEADER_BYTES:
        raise _short(data)
    data[_BASE_TIMESTAMP_AT:_PRODUCER_AT] = _pack(_TIMESTAMPS, _BASE_TIMESTAMP_AT, base, latest)


def patch_producer(data: Writable, producer_id: int, epoch: int, sequence: int) -> None:
    """Write who produced the batch, and as which one. The checksum is stale until `seal`."""
    if len(data) < HEADER_BYTES:
        raise _short(data)
    data[_PRODUCER_AT:_COUNT_AT] = _pack(_PRODUCER, _PRODUCER_AT, producer_id, epoch, sequence)


def seal(data: Writable) -> None:
    """Recompute the checksum after a patch."""
    if len(data) < HEADER_BYTES:
        raise _short(data)
    _UINT32.pack_into(data, CRC_AT, compute_crc(data))


def pack_header(header: Header) -> bytes:
    """The 61 bytes of a header. Raises BadBatch for a value that does not fit its field."""
    try:
        return HEADER.pack(*header)
    except struct.error as error:
        raise BadBatch(Reason.FIELD, 0, f"a value does not fit its field in {header}: {error}") from error


def _read(field: struct.Struct, data: Buffer, at: int) -> int:
    if len(data) < HEADER_BYTES:
        raise _short(data)
    value: int = field.unpack_from(data, at)[0]
    return value


def _pack(field: struct.Struct, at: int, *values: int) -> bytes:
    try:
        return field.pack(*values)
    except struct.error as error:
        raise BadBatch(Reason.FIELD, at, f"{values} does not fit its field: {error}") from error
