"""The records of `@groups`: changes to bytes and back, and the batches that carry them.

Keys and values are compact JSON arrays. A value begins with its version; a missing value takes the key's subject away. A
record that cannot be understood raises BadGroupRecord: a replica that skipped it would no longer be like the others.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from quorate.broker.groups.values import (
    Change,
    GroupDropped,
    GroupInfo,
    GroupStored,
    MemberInfo,
    OffsetCommitted,
    OffsetDropped,
    QueueForgotten,
)
from quorate.broker.json_text import read_json
from quorate.broker.protocol.builder import BatchBuilder
from quorate.broker.protocol.records import read_records
from quorate.consensus.core.types import Buffer

VERSION: Final = 1
_WITH_LOG: Final = 2
"""The version of a committed offset that names its log."""
_OFFSET: Final = "o"
_GROUP: Final = "g"
_QUEUE: Final = "q"


class BadGroupRecord(ValueError):
    """A record of `@groups` that this release cannot read."""


class KeyValue(NamedTuple):
    """One record."""

    key: bytes
    value: bytes | None


def to_json(value: object) -> bytes:
    """The one way in which values are written: equal values have equal bytes."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()


def encode_change(change: Change) -> KeyValue:
    """The record that stands for a change."""
    match change:
        case OffsetCommitted(group, queue, partition, offset, epoch, metadata, log):
            place = [VERSION, offset, epoch, metadata] if log < 0 else [_WITH_LOG, offset, epoch, metadata, log]
            return KeyValue(to_json([_OFFSET, group, queue, partition]), to_json(place))
        case OffsetDropped(group, queue, partition):
            return KeyValue(to_json([_OFFSET, group, queue, partition]), None)
        case GroupStored(group, info):
            return KeyValue(to_json([_GROUP, group]), to_json([VERSION, *pack_info(info)]))
        case GroupDropped(group):
            return KeyValue(to_json([_GROUP, group]), None)
        case QueueForgotten(queue):
            return KeyValue(to_json([_QUEUE, queue]), None)


def decode_change(key: bytes | None, value: bytes | None, timestamp: int) -> Change:
    """The change that a record stands for. `timestamp` is the record's time in the log."""
    try:
        fields = None if value is None else read_json(value)
        version = VERSION
        if fields is not None:
            version, *fields = fields
        match read_json(key or b"null"), fields:
            case [kind, str(group), str(queue), int(partition)], [
                int(offset),
                int(epoch),
                str(metadata),
                int(log),
            ] if kind == _OFFSET and version == _WITH_LOG and log >= 0:
                return OffsetCommitted(group, queue, partition, offset, epoch, metadata, log)
            case _ if version != VERSION:
                raise BadGroupRecord(f"a record of version {version} that this release does not know")
            case [kind, str(group), str(queue), int(partition)], None if kind == _OFFSET:
                return OffsetDropped(group, queue, partition)
            case [kind, str(group), str(queue), int(partition)], [int(offset), int(epoch), str(metadata)] if kind == _OFFSET:
                return OffsetCommitted(group, queue, partition, offset, epoch, metadata)
            case [kind, str(group)], None if kind == _GROUP:
                return GroupDropped(group)
            case [kind, str(group)], [*packed] if kind == _GROUP:
                return GroupStored(group, unpack_info(packed, timestamp))
            case [kind, str(queue)], None if kind == _QUEUE:
                return QueueForgotten(queue)
    except BadGroupRecord:
        raise
    except (ValueError, TypeError) as error:
        raise BadGroupRecord(f"no record of @groups: {key!r}") from error
    raise BadGroupRecord(f"no record of @groups: {key!r}")


def pack_info(info: GroupInfo) -> list[Any]:
    """A generation as JSON, without its time."""
    members = [[*m[:6], b64encode(m.metadata).decode(), b64encode(m.assignment).decode()] for m in info.members]
    return [info.generation, info.protocol_type, info.protocol, info.leader, info.assigned, members]


def unpack_info(packed: list[Any], since_ms: int) -> GroupInfo:
    """The inverse. Raises BadGroupRecord for what `pack_info` would not write."""
    match packed:
        case [int(generation), str(kind), str(protocol), str(leader), bool(assigned), [*members]]:
            return GroupInfo(generation, kind, protocol, leader, assigned, tuple(map(_unpack_member, members)), since_ms)
    raise BadGroupRecord(f"no generation of a group: {packed!r:.200}")


def _unpack_member(packed: list[Any]) -> MemberInfo:
    match packed:
        case [str(), None | str(), str(), str(), int(), int(), str(metadata), str(assignment)]:
            try:
                given = b64decode(metadata, validate=True), b64decode(assignment, validate=True)
            except ValueError as error:
                raise BadGroupRecord(f"bytes of a member that are no base64: {error}") from error
            return MemberInfo._make((*packed[:6], *given))
    raise BadGroupRecord(f"no member of a group: {packed!r:.200}")


def build_batch(records: Iterable[KeyValue], timestamp: int) -> bytearray:
    """One batch of records, ready to be appended. The partition's leader stamps it with the log's time."""
    builder = BatchBuilder()
    for key, value in records:
        builder.append(timestamp, key, value)
    return builder.build()


def read_changes(data: Buffer) -> Iterator[Change]:
    """The changes in a batch. Raises BadBatch or BadGroupRecord."""
    for record in read_records(data):
        yield decode_change(record.key, record.value, record.timestamp)
