"""Offsets, term and log-append time, written into a proposed batch in as few calls as it takes.

This runs for every proposal. `consensus.batch.header` has the same patches one by one, with their names.
"""

from __future__ import annotations

from struct import Struct

from crc32c import crc32c

from quorate.consensus.batch.header import (
    ATTRIBUTES_AT,
    CRC_FROM,
    HEADER_BYTES,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAGIC,
)
from quorate.consensus.core import Batch, Millis
from quorate.consensus.runtime.errors import BadInput

_HEAD = Struct(">qiibI")
_CHECKED = Struct(">8xi4xb4xhi")
"""length, magic, attributes, last offset delta: the fields that are looked at, and no others."""
_SHORT = Struct(">h")
_LONG = Struct(">q")
_MAX_TIMESTAMP_AT = 35

Writable = bytearray | memoryview
"""A proposal's bytes: patched in place, and not to be touched by the proposer until it is told the outcome."""


def stamp_time(data: Writable, count: int, stamp: Millis) -> int:
    """Give the batch its log-append time; returns its new checksum, which `stamp_place` writes. Raises BadInput."""
    if len(data) < HEADER_BYTES:
        raise BadInput(f"a batch of {len(data)} bytes is shorter than its header")
    length, magic, attributes, last_delta = _CHECKED.unpack_from(data)
    if magic != MAGIC or length != len(data) - LENGTH_END or last_delta != count - 1:
        raise BadInput(
            f"a header that says {length + LENGTH_END} bytes, {last_delta + 1} offsets and magic {magic} does not fit "
            f"{len(data)} bytes and {count} records"
        )
    _SHORT.pack_into(data, ATTRIBUTES_AT, attributes | LOG_APPEND_TIME)
    _LONG.pack_into(data, _MAX_TIMESTAMP_AT, stamp)
    return crc32c(memoryview(data)[CRC_FROM:])


def stamp_place(data: Writable, batch: Batch, checksum: int) -> None:
    """Write offset and term, which are outside of the checksum, and the checksum."""
    _HEAD.pack_into(data, 0, batch.base, len(data) - LENGTH_END, batch.term, MAGIC, checksum)
