"""Fetch, written by hand: a request without dicts, and a response as buffers in which record bytes are never copied.

What these two give and take is the same as by the tables (`codec`), which the tests hold against them; but nothing may
follow a request.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from quorate.broker.protocol.kafka.apis import FLEXIBLE_FROM, SUPPORTED, Api
from quorate.broker.protocol.kafka.errors import BadMessage, BadValue
from quorate.broker.protocol.kafka.header import write_response_header
from quorate.broker.protocol.kafka.produce import Endpoint, write_endpoints
from quorate.broker.protocol.kafka.wire import (
    INT32,
    Buffer,
    at_end,
    malformed,
    read_count,
    read_name,
    skip_tags,
    write_length,
    write_string,
)

FLEXIBLE: Final = FLEXIBLE_FROM[Api.FETCH]
TOPIC_IDS: Final = 13
UUID_BYTES: Final = 16
FIRST, LAST = SUPPORTED[Api.FETCH]

_LIMITS = struct.Struct(">iiib")
_SESSION = struct.Struct(">ii")
# From the partition's index to its byte limit: 5 adds the log start, 9 the leader's epoch, 12 the last fetched epoch.
_PARTITION_4 = struct.Struct(">iqi")
_PARTITION_5 = struct.Struct(">iqqi")
_PARTITION_9 = struct.Struct(">iiqqi")
_PARTITION_12 = struct.Struct(">iiqiqi")
_HEAD_4 = struct.Struct(">ihqq")
_HEAD_5 = struct.Struct(">ihqqq")
_ERROR_SESSION = struct.Struct(">hi")
_ABORTED = struct.Struct(">qq")
_LEADER_TAG = struct.Struct(">BBBiiB")  # one field, tag 1, its size, node, epoch, and the end of the structure

# index, the leader's epoch as the client knows it (-1: it does not), offset, byte limit
PartitionWish = tuple[int, int, int, int]


class FetchRequest(NamedTuple):
    """Topics are named by str up to version 12, by the 16 bytes of their id from 13 on."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: int
    session_id: int
    session_epoch: int
    topics: list[tuple[str | bytes, list[PartitionWish]]]


class FetchedPartition(NamedTuple):
    """One partition's answer. `records` are whole batches, in order; the leader is told from version 12 on, unless -1."""

    partition: int
    error: int
    high_watermark: int
    last_stable: int
    log_start: int
    records: Sequence[Buffer] = ()
    leader_id: int = -1
    leader_epoch: int = -1
    aborted: Sequence[tuple[int, int]] | None = None  # (producer id, first offset)
    preferred_replica: int = -1


def decode_fetch(version: int, body: memoryview) -> FetchRequest:
    """The body of a Fetch request; BadMessage for anything malformed. What only other brokers send is passed over."""
    if not FIRST <= version <= LAST:
        raise BadMessage(f"there is no Fetch version {version}")
    flexible = version >= FLEXIBLE
    at = 4 if version < 15 else 0  # the replica id
    session_id, session_epoch = 0, -1
    with malformed():
        max_wait_ms, min_bytes, max_bytes, isolation = _LIMITS.unpack_from(body, at)
        at += _LIMITS.size
        if version >= 7:
            session_id, session_epoch = _SESSION.unpack_from(body, at)
            at += _SESSION.size
        topics, at = _topics(version, body, at)
        if version >= 7:
            at = _skip_forgotten(version, body, at)
        if version >= 11:
            _, at = read_name(body, at, flexible)  # the client's rack
        if flexible:
            at = skip_tags(body, at)
    at_end(body, at)
    return FetchRequest(max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch, topics)


def _topics(version: int, body: memoryview, at: int) -> tuple[list[tuple[str | bytes, list[PartitionWish]]], int]:
    flexible = version >= FLEXIBLE
    count, at = read_count(body, at, flexible, _smallest_topic(version))
    topics = []
    for _ in range(_there(count)):
        name, at = _name(version, body, at)
        partitions, at = _partitions(version, body, at)
        if flexible:
            at = skip_tags(body, at)
        topics.append((name, partitions))
    return topics, at


def _partitions(version: int, body: memoryview, at: int) -> tuple[list[PartitionWish], int]:
    layout = _request_layout(version)
    flexible = version >= FLEXIBLE
    count, at = read_count(body, at, flexible, layout.size + flexible)
    wishes = []
    for _ in range(_there(count)):
        found = layout.unpack_from(body, at)
        at += layout.size
        if flexible:
            at = skip_tags(body, at)
        if version >= 9:
            wishes.append((found[0], found[1], found[2], found[-1]))
        else:
            wishes.append((found[0], -1, found[1], found[-1]))
    return wishes, at


def _request_layout(version: int) -> struct.Struct:
    if version >= 12:
        return _PARTITION_12
    if version >= 9:
        return _PARTITION_9
    return _PARTITION_5 if version >= 5 else _PARTITION_4


def _skip_forgotten(version: int, body: memoryview, at: int) -> int:
    """What the client takes out of its session: there are no sessions here."""
    flexible = version >= FLEXIBLE
    count, at = read_count(body, at, flexible, _smallest_topic(version))
    for _ in range(_there(count)):
        _, at = _name(version, body, at)
        indexes, at = read_count(body, at, flexible, 4)
        at += 4 * _there(indexes)
        if flexible:
            at = skip_tags(body, at)
    return at


def _name(version: int, body: memoryview, at: int) -> tuple[str | bytes, int]:
    if version < TOPIC_IDS:
        return read_name(body, at, version >= FLEXIBLE)
    if at + UUID_BYTES > len(body):
        raise BadMessage("the message ends too early")
    return bytes(body[at : at + UUID_BYTES]), at + UUID_BYTES


def _smallest_topic(version: int) -> int:
    """A name or an id, the length of an array, and tagged fields where there are any."""
    if version >= TOPIC_IDS:
        return UUID_BYTES + 2
    return 3 if version >= FLEXIBLE else 6


def _there(count: int) -> int:
    if count < 0:
        raise BadMessage("an array is null and must not be")
    return count


def encode_fetch_response(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[str | bytes, Sequence[FetchedPartition]]],
    *,
    error: int = 0,
    session_id: int = 0,
    throttle_ms: int = 0,
    endpoints: Sequence[Endpoint] = (),
) -> list[Buffer]:
    """The whole frame as buffers for `writelines`: those of `records` are in it as they were given."""
    if not FIRST <= version <= LAST:
        raise BadValue(f"there is no Fetch version {version}")
    flexible = version >= FLEXIBLE
    first = out = bytearray(4)
    buffers: list[Buffer] = [first]
    write_response_header(out, Api.FETCH, version, correlation_id)
    out += INT32.pack(throttle_ms)
    if version >= 7:
        out += _ERROR_SESSION.pack(error, session_id)
    write_length(out, len(topics), flexible)
    for name, partitions in topics:
        _write_name(out, version, name)
        write_length(out, len(partitions), flexible)
        for partition in partitions:
            out = _write_partition(buffers, out, version, partition)
        if flexible:
            out.append(0)
    if flexible:
        write_endpoints(out, endpoints if version >= 16 else ())
    if not out:
        buffers.pop()
    INT32.pack_into(first, 0, sum(map(len, buffers)) - 4)
    return buffers


def _write_name(out: bytearray, version: int, name: str | bytes) -> None:
    if version < TOPIC_IDS:
        if not isinstance(name, str):
            raise BadValue(f"topics have names, not ids, in version {version}")
        write_string(out, name, version >= FLEXIBLE)
    elif isinstance(name, bytes) and len(name) == UUID_BYTES:
        out += name
    else:
        raise BadValue(f"topics have ids of 16 bytes in version {version}")


def _write_partition(buffers: list[Buffer], out: bytearray, version: int, part: FetchedPartition) -> bytearray:
    """Writes to `out` and, after the records, to a new buffer, which is returned."""
    flexible = version >= FLEXIBLE
    if version >= 5:
        out += _HEAD_5.pack(part.partition, part.error, part.high_watermark, part.last_stable, part.log_start)
    else:
        out += _HEAD_4.pack(part.partition, part.error, part.high_watermark, part.last_stable)
    _write_aborted(out, part.aborted, flexible)
    if version >= 11:
        out += INT32.pack(part.preferred_replica)
    records = [data for data in part.records if len(data)]
    # An empty set of records, never null: some clients do not check for null.
    write_length(out, sum(map(len, records)), flexible)
    if records:
        buffers += records
        out = bytearray()
        buffers.append(out)
    if flexible:
        if (part.leader_id, part.leader_epoch) == (-1, -1):
            out.append(0)
        else:
            out += _LEADER_TAG.pack(1, 1, 9, part.leader_id, part.leader_epoch, 0)
    return out


def _write_aborted(out: bytearray, aborted: Sequence[tuple[int, int]] | None, flexible: bool) -> None:
    write_length(out, -1 if aborted is None else len(aborted), flexible)
    for producer_id, first_offset in aborted or ():
        out += _ABORTED.pack(producer_id, first_offset)
        if flexible:
            out.append(0)
