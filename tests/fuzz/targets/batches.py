"""RecordBatches v2 from clients, from peers and from the disk."""

from __future__ import annotations

import struct

from quorate.broker.protocol.builder import BatchBuilder
from quorate.broker.protocol.compression import Compression, inflate
from quorate.broker.protocol.records import Record, read_records, split_batches
from quorate.consensus.batch.control import build_control, decode_batch, read_control
from quorate.consensus.batch.errors import BadBatch
from quorate.consensus.batch.header import HEADER_BYTES, MAGIC, MAGIC_AT, read_header, seal, stamp, stamp_append_time
from quorate.consensus.batch.validate import check_stored, validate
from quorate.consensus.core import BatchKind
from tests.fuzz.targets.expect import expect

MAX_INFLATED = 1 << 20


def batch(data: bytes) -> None:
    """The first byte says how: even takes the rest as it is, odd makes length, magic and checksum fit it first.

    Without the second way hardly any input would get past the checksum.
    """
    if not data:
        return
    buffer = repaired(bytearray(data[1:])) if data[0] & 1 else bytearray(data[1:])
    for check in (_header, _stored, _control, _records, _split, _inflate):
        try:
            check(buffer)
        except BadBatch as error:
            expect(error.at >= 0, "an error says where")


def repaired(buffer: bytearray) -> bytearray:
    """The same batch with the length, the magic and the checksum that it should have, if it has a header."""
    if len(buffer) >= HEADER_BYTES:
        struct.pack_into(">i", buffer, 8, len(buffer) - 12)
        buffer[MAGIC_AT] = MAGIC
        seal(buffer)
    return buffer


def _header(buffer: bytearray) -> None:
    header = validate(buffer)
    expect(header == read_header(buffer) == check_stored(buffer), "one header")
    expect(header.size == len(buffer) and header.last_delta == header.records - 1 >= 0, "length and count fit")
    copy = bytearray(buffer)
    stamp(copy, 77, 5)
    stamp_append_time(copy, 1_700_000_000_000)
    patched = check_stored(copy)
    expect((patched.base, patched.leader_epoch, patched.log_append_time) == (77, 5, True), "what was patched")
    expect(copy[HEADER_BYTES:] == buffer[HEADER_BYTES:], "records are left alone")


def _stored(buffer: bytearray) -> None:
    found = decode_batch(buffer)
    expect(0 <= found.base <= found.last < (1 << 63) - 1, "offsets, and one to go on with")
    if found.kind is BatchKind.DATA:
        expect(found.data is buffer, "data is not copied")


def _control(buffer: bytearray) -> None:
    kind, value = read_control(buffer)
    expect(read_control(build_control(0, 0, kind, value)) == (kind, value), "a control batch can be written again")


def _records(buffer: bytearray) -> None:
    records = list(read_records(buffer, MAX_INFLATED))
    header = read_header(buffer)
    expect(len(records) == header.records, "as many as the header says")
    offsets = [record.offset for record in records]
    expect(offsets == sorted(set(offsets)), "offsets rise")
    expect(not offsets or (header.base <= offsets[0] and offsets[-1] <= header.last), "offsets are in range")
    _rebuild(records)


def _rebuild(records: list[Record]) -> None:
    if not records:
        return
    builder = BatchBuilder()
    for record in records:
        builder.append(record.timestamp, record.key, record.value, record.headers)
    again = [record._replace(offset=0) for record in read_records(builder.build(), 1 << 30)]
    expect(again == [record._replace(offset=0) for record in records], "what was read can be written")


def _split(buffer: bytearray) -> None:
    expect(sum(map(len, split_batches(buffer))) <= len(buffer), "parts are within the whole")


def _inflate(buffer: bytearray) -> None:
    for codec in Compression:
        try:
            expect(len(inflate(codec, buffer, MAX_INFLATED)) <= MAX_INFLATED, "bounded")
        except BadBatch:
            continue
