"""The client's side of Fetch, and of what carries records in: written by hand, so that record bytes are never copied.

What these give and take is the same as by the tables (`codec`), which the tests hold against them.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from quorate.broker.protocol.kafka.apis import FLEXIBLE_FROM, SUPPORTED, Api
from quorate.broker.protocol.kafka.errors import BadMessage, BadValue
from quorate.broker.protocol.kafka.fetch import FLEXIBLE, TOPIC_IDS, UUID_BYTES, FetchedPartition
from quorate.broker.protocol.kafka.wire import (
    INT32,
    Buffer,
    malformed,
    read_count,
    read_name,
    read_uvarint,
    read_view,
    skip_tags,
    write_length,
    write_string,
)

FIRST, LAST = SUPPORTED[Api.FETCH]
PRODUCE_FIRST: Final = 3
"""Older versions carry records of an older format."""

_ERROR_SESSION: Final = struct.Struct(">hi")
_HEAD_4: Final = struct.Struct(">ihqq")
_HEAD_5: Final = struct.Struct(">ihqqq")
_ABORTED: Final = struct.Struct(">qq")
_LEADER: Final = struct.Struct(">ii")
_LEADER_TAG: Final = 1
_ACKS: Final = struct.Struct(">hi")


class FetchAnswer(NamedTuple):
    """A Fetch response. Records are parts of the frame that was given."""

    throttle_ms: int
    error: int
    session_id: int
    topics: list[tuple[str | bytes, list[FetchedPartition]]]


def decode_fetch_response(version: int, body: memoryview) -> FetchAnswer:
    """The body of a Fetch response; BadMessage for anything malformed. Where nodes are is passed over."""
    if not FIRST <= version <= LAST:
        raise BadMessage(f"there is no Fetch version {version}")
    flexible = version >= FLEXIBLE
    error = session_id = 0
    topics: list[tuple[str | bytes, list[FetchedPartition]]] = []
    with malformed():
        (throttle_ms,) = INT32.unpack_from(body)
        at = INT32.size
        if version >= 7:
            error, session_id = _ERROR_SESSION.unpack_from(body, at)
            at += _ERROR_SESSION.size
        count, at = read_count(body, at, flexible, 3)
        for _ in range(_there(count)):
            name, at = _name(version, body, at)
            partitions = []
            inner, at = read_count(body, at, flexible, _HEAD_4.size)
            for _ in range(_there(inner)):
                partition, at = _partition(version, body, at)
                partitions.append(partition)
            if flexible:
                at = skip_tags(body, at)
            topics.append((name, partitions))
        if flexible:
            skip_tags(body, at)
    return FetchAnswer(throttle_ms, error, session_id, topics)


def _name(version: int, body: memoryview, at: int) -> tuple[str | bytes, int]:
    if version < TOPIC_IDS:
        return read_name(body, at, version >= FLEXIBLE)
    if at + UUID_BYTES > len(body):
        raise BadMessage("the message ends too early")
    return bytes(body[at : at + UUID_BYTES]), at + UUID_BYTES


def _partition(version: int, body: memoryview, at: int) -> tuple[FetchedPartition, int]:
    flexible = version >= FLEXIBLE
    layout = _HEAD_5 if version >= 5 else _HEAD_4
    index, error, high_watermark, last_stable, *rest = layout.unpack_from(body, at)
    aborted, at = _aborted(body, at + layout.size, flexible)
    preferred = leader = epoch = -1
    if version >= 11:
        (preferred,) = INT32.unpack_from(body, at)
        at += INT32.size
    records, at = read_view(body, at, flexible)
    if flexible:
        leader, epoch, at = _leader(body, at)
    data = (records,) if records else ()
    start = rest[0] if rest else -1
    found = FetchedPartition(index, error, high_watermark, last_stable, start, data, leader, epoch, aborted, preferred)
    return found, at


def _aborted(body: memoryview, at: int, flexible: bool) -> tuple[list[tuple[int, int]] | None, int]:
    count, at = read_count(body, at, flexible, _ABORTED.size)
    if count < 0:
        return None, at
    found = []
    for _ in range(count):
        producer, first = _ABORTED.unpack_from(body, at)
        found.append((producer, first))
        at += _ABORTED.size
        if flexible:
            at = skip_tags(body, at)
    return found, at


def _leader(body: memoryview, at: int) -> tuple[int, int, int]:
    """Leader and epoch out of a partition's tagged fields, and where they end."""
    leader = epoch = -1
    count, at = read_uvarint(body, at)
    for _ in range(count):
        tag, at = read_uvarint(body, at)
        size, at = read_uvarint(body, at)
        if size > len(body) - at:
            raise BadMessage(f"a tagged field of {size} bytes does not fit into the {len(body) - at} that remain")
        if tag == _LEADER_TAG:
            if size < _LEADER.size:
                raise BadMessage(f"a leader of {size} bytes")
            leader, epoch = _LEADER.unpack_from(body, at)
        at += size
    return leader, epoch, at


def _there(count: int) -> int:
    if count < 0:
        raise BadMessage("an array is null and must not be")
    return count


def encode_produce_body(version: int, topic: str, index: int, records: Buffer, acks: int, timeout_ms: int) -> list[Buffer]:
    """The body of a Produce request for one partition, as buffers for `writelines`: `records` is one of them."""
    if not PRODUCE_FIRST <= version <= SUPPORTED[Api.PRODUCE][1]:
        raise BadValue(f"there is no Produce version {version}")
    flexible = version >= FLEXIBLE_FROM[Api.PRODUCE]
    head = bytearray()
    write_string(head, None, flexible)  # no transaction
    head += _ACKS.pack(acks, timeout_ms)
    return _one_partition(head, topic, index, records, flexible)


def encode_stage_body(version: int, topic: str, index: int, records: Buffer, timeout_ms: int) -> list[Buffer]:
    """The body of a Stage request for one partition, likewise."""
    if version != 0:
        raise BadValue(f"there is no Stage version {version}")
    return _one_partition(bytearray(INT32.pack(timeout_ms)), topic, index, records, True)


def _one_partition(head: bytearray, topic: str, index: int, records: Buffer, flexible: bool) -> list[Buffer]:
    """One topic, one partition, its records, and the ends of all those structures."""
    write_length(head, 1, flexible)
    write_string(head, topic, flexible)
    write_length(head, 1, flexible)
    head += INT32.pack(index)
    size = memoryview(records).nbytes
    write_length(head, size, flexible)
    return [head, records, b"\0\0\0"] if flexible else [head, records]
