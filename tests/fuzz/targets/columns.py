"""Batches as Spark's tasks read them: whole columns at a time, with Arrow told where the bytes lie.

Arrow believes what it is told, so a place that is wrong would be read where nothing of ours is. What comes out has to be
what the reader of single records says.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from quorate.broker.protocol.records import read_records, split_batches
from quorate.consensus.batch.errors import BadBatch
from quorate.consensus.batch.header import HEADER_BYTES, read_header, stamp
from quorate.consensus.batch.validate import check_stored
from quorate.spark.columns import APPEND_TIME, CREATE_TIME, Decoder, Malformed
from tests.fuzz.targets.batches import repaired
from tests.fuzz.targets.expect import expect

_END = 1 << 62
_LATEST_MS = ((1 << 63) - 1) // 1000
_EACH = 1 << 32
"""Offsets of one batch."""


def spark(data: bytes) -> None:
    """Batches, each after its length in 16 bits, with a checksum and offsets that fit; after a zero byte, as they are."""
    if data[:1] == b"\0":
        whole = data[1:]
    else:
        whole, data = b"", data[1:]
        while len(data) >= 2:
            size = int.from_bytes(data[:2], "big")
            batch, data = repaired(bytearray(data[2 : 2 + size])), data[2 + size :]
            if len(batch) >= HEADER_BYTES:
                stamp(batch, _EACH * (len(whole) + 1), 1)
            whole += batch
    try:
        right: list[Any] | None = _one_by_one(whole)
    except BadBatch:
        right = None
    found = _columns(whole, headers=True)
    expect((found is None) == (right is None), "both readers refuse the same")
    expect(found == right, "both readers read the same")
    if right is not None:  # headers that nobody wants may be wrong
        expect(_columns(whole, headers=False) == [(*row[:-1], None) for row in right], "the same without headers")
    else:
        _columns(whole, headers=False)


def _columns(data: bytes, *, headers: bool) -> list[Any] | None:
    rows: list[Any] = []
    try:
        for part in Decoder("q", 7, headers=headers).decode(data, 0, _END):
            part.validate(full=True)
            names = ("key", "value", "offset", "timestamp", "timestampType", *(["headers"] if headers else []))
            found = [part.column(name) for name in names]
            found[3] = found[3].view(pa.int64())
            columns = [column.to_pylist() for column in found] + ([] if headers else [[None] * part.num_rows])
            rows += zip(*columns, strict=True)
    except Malformed:
        return None
    return rows


def _one_by_one(data: bytes) -> list[Any]:
    rows: list[Any] = []
    for one in split_batches(data):
        check_stored(one)
        header = read_header(one)
        if header.control or header.last < 0 or header.base >= _END:
            continue
        kind = APPEND_TIME if header.log_append_time else CREATE_TIME
        for record in list(read_records(one)):
            if 0 <= record.offset < _END:
                stamp_us = 1000 * record.timestamp if abs(record.timestamp) <= _LATEST_MS else None
                pairs = [{"key": _shown(name), "value": value} for name, value in record.headers]
                rows.append((record.key, record.value, record.offset, stamp_us, kind, pairs or None))
    return rows


def _shown(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
