"""Answers of nodes, as the client reads them: all APIs and versions, Fetch by hand too, and batches in a buffer."""

from __future__ import annotations

import struct
from typing import Any

from quorate.broker.protocol.batches import span
from quorate.broker.protocol.kafka.apis import Api, supports
from quorate.broker.protocol.kafka.codec import decode_response, encode_response
from quorate.broker.protocol.kafka.errors import BadMessage
from quorate.broker.protocol.kafka.fetched import FetchAnswer, decode_fetch_response
from quorate.consensus.batch.errors import BadBatch
from tests.fuzz.targets.expect import expect

_HEAD = struct.Struct(">hhB")


def answers(data: bytes) -> None:
    """API, version and a byte of choices; then the body of an answer, or the batches of one."""
    if len(data) < _HEAD.size:
        return
    api, version, choices = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if choices & 1:
        return _batches(body, choices >> 2, bool(choices & 2))
    if api not in set(Api) or not supports(api, version):
        return None
    try:
        value = decode_response(api, version, body)
    except BadMessage:
        value = None
    if api == Api.FETCH:
        _fetch(version, body, value)
    if value is not None:
        again = encode_response(api, version, value)
        expect(decode_response(api, version, memoryview(again)) == value, "what was read can be written")
    return None


def _fetch(version: int, body: memoryview, value: dict[str, Any] | None) -> None:
    try:
        found: FetchAnswer | None = decode_fetch_response(version, body)
    except BadMessage:
        found = None
    if value is None:
        return  # by hand, tagged fields that mean nothing to us are passed over
    expect(found is not None, "what can be read by the tables can be read by hand")
    parts = [
        (one["partition_index"], one["high_watermark"], one["records"] or b"")
        for topic in value["responses"]
        for one in topic["partitions"]
    ]
    topics = found.topics if found is not None else []
    expect(
        parts == [(one.partition, one.high_watermark, b"".join(one.records)) for _, some in topics for one in some],
        "the same batches",
    )


def _batches(data: memoryview, begin: int, check: bool) -> None:
    try:
        found = span(data, begin, 1 << 63, check=check)
    except BadBatch:
        return
    expect(0 <= found.start <= found.stop <= len(data), "a part of what was given")
    expect(found.next_offset >= begin, "it goes on")
    expect((found.start < found.stop) is (found.next_offset > begin), "it goes on with what was found")
