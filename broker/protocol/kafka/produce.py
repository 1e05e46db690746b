"""Produce, written by hand: the request's records are parts of the frame, and nothing goes through dicts.

What these two give and take is the same as by the tables (`codec`), which the tests hold against them; but nothing may
follow a request.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from quorate.broker.protocol.kafka.apis import FLEXIBLE_FROM, SUPPORTED, Api
from quorate.broker.protocol.kafka.errors import BadMessage, BadValue
from quorate.broker.protocol.kafka.header import write_response_header
from quorate.broker.protocol.kafka.wire import (
    INT32,
    at_end,
    malformed,
    read_count,
    read_name,
    read_string,
    read_view,
    skip_tags,
    write_length,
    write_string,
    write_uvarint,
)

FLEXIBLE: Final = FLEXIBLE_FROM[Api.PRODUCE]
FIRST, LAST = SUPPORTED[Api.PRODUCE]

_ACKS = struct.Struct(">hi")
_ANSWER_0 = struct.Struct(">ihq")
_ANSWER_2 = struct.Struct(">ihqq")
_ANSWER_5 = struct.Struct(">ihqqq")
_LEADER_TAG = struct.Struct(">BBBiiB")  # one field, tag 0, its size, node, epoch, and the end of the structure

PartitionRecords = tuple[int, memoryview | None]
# index, error, base offset, log-append time, log start, message, leader's node, leader's epoch (-1: not told)
PartitionAnswer = tuple[int, int, int, int, int, str | None, int, int]


class Endpoint(NamedTuple):
    """Where a node that a response names as leader is reached."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class ProduceRequest(NamedTuple):
    """Records are parts of the frame that was given: whoever keeps them keeps the frame."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[tuple[str, list[PartitionRecords]]]


def decode_produce(version: int, body: memoryview) -> ProduceRequest:
    """The body of a Produce request; BadMessage for anything malformed."""
    if not FIRST <= version <= LAST:
        raise BadMessage(f"there is no Produce version {version}")
    flexible = version >= FLEXIBLE
    transactional_id, at = None, 0
    topics = []
    with malformed():
        if version >= 3:
            transactional_id, at = read_string(body, 0, flexible)
        acks, timeout_ms = _ACKS.unpack_from(body, at)
        count, at = read_count(body, at + _ACKS.size, flexible, 3 if flexible else 6)
        for _ in range(_there(count)):
            name, at = read_name(body, at, flexible)
            partitions, at = _partitions(body, at, flexible)
            topics.append((name, partitions))
        if flexible:
            at = skip_tags(body, at)
    at_end(body, at)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _partitions(body: memoryview, at: int, flexible: bool) -> tuple[list[PartitionRecords], int]:
    count, at = read_count(body, at, flexible, 6 if flexible else 8)
    partitions = []
    for _ in range(_there(count)):
        (index,) = INT32.unpack_from(body, at)
        records, at = read_view(body, at + 4, flexible)
        if flexible:
            at = skip_tags(body, at)
        partitions.append((index, records))
    return partitions, skip_tags(body, at) if flexible else at


def _there(count: int) -> int:
    if count < 0:
        raise BadMessage("an array is null and must not be")
    return count


def encode_produce_response(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[str, Sequence[PartitionAnswer]]],
    throttle_ms: int = 0,
    endpoints: Sequence[Endpoint] = (),
) -> bytes:
    """The whole frame. A leader and `endpoints` are told from version 10 on."""
    if not FIRST <= version <= LAST:
        raise BadValue(f"there is no Produce version {version}")
    flexible = version >= FLEXIBLE
    out = bytearray(4)
    write_response_header(out, Api.PRODUCE, version, correlation_id)
    write_length(out, len(topics), flexible)
    for name, partitions in topics:
        write_string(out, name, flexible)
        write_length(out, len(partitions), flexible)
        for partition in partitions:
            _write_answer(out, version, partition)
        if flexible:
            out.append(0)
    if version >= 1:
        out += INT32.pack(throttle_ms)
    if flexible:
        write_endpoints(out, endpoints if version >= 10 else ())
    INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def _write_answer(out: bytearray, version: int, answer: PartitionAnswer) -> None:
    index, error, base, append_time, start, message, leader, epoch = answer
    if version >= 5:
        out += _ANSWER_5.pack(index, error, base, append_time, start)
    elif version >= 2:
        out += _ANSWER_2.pack(index, error, base, append_time)
    else:
        out += _ANSWER_0.pack(index, error, base)
    if version < 8:
        return
    flexible = version >= FLEXIBLE
    write_length(out, 0, flexible)  # errors by record: a batch is taken whole or not at all
    write_string(out, message, flexible)
    if version >= 10 and (leader, epoch) != (-1, -1):
        out += _LEADER_TAG.pack(1, 0, 9, leader, epoch, 0)
    elif flexible:
        out.append(0)


def write_endpoints(out: bytearray, endpoints: Iterable[Endpoint]) -> None:
    """The tagged fields at the end of a Produce or Fetch response: where the leaders that it names are."""
    nodes = list(endpoints)
    if not nodes:
        out.append(0)
        return
    part = bytearray()
    write_length(part, len(nodes), True)
    for node in nodes:
        part += INT32.pack(node.node_id)
        write_string(part, node.host, True)
        part += INT32.pack(node.port)
        write_string(part, node.rack, True)
        part.append(0)
    out += b"\x01\x00"
    write_uvarint(out, len(part))
    out += part
