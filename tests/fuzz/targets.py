"""What the fuzzer calls, and what the replay of its corpus calls: any bytes in, one typed error or a true statement out."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from quorate.broker.protocol.builder import BatchBuilder
from quorate.broker.protocol.compression import Compression, inflate
from quorate.broker.protocol.kafka.apis import Api, supports
from quorate.broker.protocol.kafka.codec import decode_request, encode_request
from quorate.broker.protocol.kafka.errors import BadMessage
from quorate.broker.protocol.kafka.fetch import FetchRequest, decode_fetch
from quorate.broker.protocol.kafka.header import decode_request_header
from quorate.broker.protocol.kafka.produce import ProduceRequest, decode_produce
from quorate.broker.protocol.records import Record, read_records, split_batches
from quorate.consensus.batch.control import build_control, decode_batch, read_control
from quorate.consensus.batch.errors import BadBatch
from quorate.consensus.batch.header import HEADER_BYTES, MAGIC, MAGIC_AT, read_header, seal, stamp, stamp_append_time
from quorate.consensus.batch.validate import check_stored, validate
from quorate.consensus.core import BatchKind

MAX_INFLATED = 1 << 20


class Broken(Exception):
    """A decoder returned something that cannot be."""


def batch(data: bytes) -> None:
    """The first byte says how: even takes the rest as it is, odd makes length, magic and checksum fit it first.

    Without the second way hardly any input would get past the checksum.
    """
    if not data:
        return
    buffer = bytearray(data[1:])
    if data[0] & 1 and len(buffer) >= HEADER_BYTES:
        struct.pack_into(">i", buffer, 8, len(buffer) - 12)
        buffer[MAGIC_AT] = MAGIC
        seal(buffer)
    for check in (_header, _stored, _control, _records, _split, _inflate):
        try:
            check(buffer)
        except BadBatch as error:
            _expect(error.at >= 0, "an error says where")


def _expect(truth: bool, what: str) -> None:
    if not truth:
        raise Broken(what)


def _header(buffer: bytearray) -> None:
    header = validate(buffer)
    _expect(header == read_header(buffer) == check_stored(buffer), "one header")
    _expect(header.size == len(buffer) and header.last_delta == header.records - 1 >= 0, "length and count fit")
    copy = bytearray(buffer)
    stamp(copy, 77, 5)
    stamp_append_time(copy, 1_700_000_000_000)
    patched = check_stored(copy)
    _expect((patched.base, patched.leader_epoch, patched.log_append_time) == (77, 5, True), "what was patched")
    _expect(copy[HEADER_BYTES:] == buffer[HEADER_BYTES:], "records are left alone")


def _stored(buffer: bytearray) -> None:
    found = decode_batch(buffer)
    _expect(0 <= found.base <= found.last, "offsets")
    if found.kind is BatchKind.DATA:
        _expect(found.data is buffer, "data is not copied")


def _control(buffer: bytearray) -> None:
    kind, value = read_control(buffer)
    _expect(read_control(build_control(0, 0, kind, value)) == (kind, value), "a control batch can be written again")


def _records(buffer: bytearray) -> None:
    records = list(read_records(buffer, MAX_INFLATED))
    header = read_header(buffer)
    _expect(len(records) == header.records, "as many as the header says")
    offsets = [record.offset for record in records]
    _expect(offsets == sorted(set(offsets)), "offsets rise")
    _expect(not offsets or (header.base <= offsets[0] and offsets[-1] <= header.last), "offsets are in range")
    _rebuild(records)


def _rebuild(records: list[Record]) -> None:
    if not records:
        return
    builder = BatchBuilder()
    for record in records:
        builder.append(record.timestamp, record.key, record.value, record.headers)
    again = [record._replace(offset=0) for record in read_records(builder.build(), 1 << 30)]
    _expect(again == [record._replace(offset=0) for record in records], "what was read can be written")


def _split(buffer: bytearray) -> None:
    _expect(sum(map(len, split_batches(buffer))) <= len(buffer), "parts are within the whole")


def _inflate(buffer: bytearray) -> None:
    for codec in Compression:
        try:
            _expect(len(inflate(codec, buffer, MAX_INFLATED)) <= MAX_INFLATED, "bounded")
        except BadBatch:
            continue


def kafka(data: bytes) -> None:
    """A frame from a Kafka client: its header chooses the API and the version, and so which of the decoders is meant."""
    try:
        header = decode_request_header(memoryview(data))
        body = memoryview(data)[header.body_at :]
        value = decode_request(header.api, header.version, body)
    except BadMessage:
        return
    again = encode_request(header.api, header.version, value)
    _expect(decode_request(header.api, header.version, memoryview(again)) == value, "what was read can be written")
    _expect(supports(header.api, header.version), "only what is advertised is read")
    try:
        if header.api == Api.PRODUCE:
            _produce(decode_produce(header.version, body), value)
        elif header.api == Api.FETCH:
            _fetch(decode_fetch(header.version, body), value)
    except BadMessage as error:
        _expect("follow" in str(error), "the two ways differ in what may follow a request, and in nothing else")


def _produce(found: ProduceRequest, value: dict[str, Any]) -> None:
    parts = [
        (topic["name"], one["index"], one["records"]) for topic in value["topic_data"] for one in topic["partition_data"]
    ]
    _expect(parts == [(name, *one) for name, batches in found.topics for one in batches], "the same batches")


def _fetch(found: FetchRequest, value: dict[str, Any]) -> None:
    wishes = [(one["partition"], one["fetch_offset"]) for topic in value["topics"] for one in topic["partitions"]]
    _expect(wishes == [(one[0], one[2]) for _, parts in found.topics for one in parts], "the same wishes")


TARGETS: dict[str, Callable[[bytes], None]] = {"batch": batch, "kafka": kafka}
