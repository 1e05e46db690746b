"""Small batches to break, made without the code under test."""

from __future__ import annotations

import struct

import crc32c

LAYOUT = ">qiibIhiqqqhii"
FIELDS = {
    "base": 0,
    "length": 1,
    "epoch": 2,
    "magic": 3,
    "crc": 4,
    "attributes": 5,
    "last_delta": 6,
    "base_timestamp": 7,
    "max_timestamp": 8,
    "producer_id": 9,
    "producer_epoch": 10,
    "sequence": 11,
    "count": 12,
}
RECORD = bytes((0x0E, 0, 0, 0, 1, 2, 0x76, 0))  # seven bytes follow: no key, the value "v", no headers


def batch(body: bytes = RECORD, /, **changes: int) -> bytearray:
    """One record, or another body, with any header field changed; the checksum fits unless it is one of them."""
    values = [0, 49 + len(body), -1, 2, 0, 0, 0, 1000, 1000, -1, -1, -1, 1]
    for name, value in changes.items():
        values[FIELDS[name]] = value
    data = bytearray(struct.pack(LAYOUT, *values) + body)
    if "crc" not in changes:
        data[17:21] = struct.pack(">I", crc32c.crc32c(bytes(data[21:])))
    return data
