"""The replicated state of one `@groups` partition: a function of its log, so the same on every replica.

Nothing here knows who leads, which sessions are open, or what time it is.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Final

from quorate.broker.groups.records import BadGroupRecord, pack_info, read_changes, to_json, unpack_info
from quorate.broker.groups.values import (
    Change,
    CommittedOffset,
    GroupDropped,
    GroupInfo,
    GroupStored,
    OffsetCommitted,
    OffsetDropped,
    QueueForgotten,
    QueuePartition,
)
from quorate.broker.json_text import read_json
from quorate.consensus.batch.header import max_timestamp
from quorate.consensus.core.types import NO_OFFSET, Batch, BatchKind, Offset

_SNAPSHOT_VERSION: Final = b"\x02"
_WITHOUT_LOGS: Final = b"\x01"
"""The version of earlier releases: committed offsets do not name their log."""
_MOST_BYTES: Final = 1 << 30
"""Of a snapshot's JSON: far more than a node could hold as groups. What zlib packs can be a thousand times as large."""


class Entry:
    """One group. `info` is None as long as it only has offsets, committed by consumers that never join."""

    __slots__ = ("info", "offsets")

    def __init__(self) -> None:
        self.info: GroupInfo | None = None
        self.offsets: dict[QueuePartition, CommittedOffset] = {}


class GroupsState:
    """All groups of a partition. Fits `StateMachine` of the runtime."""

    __slots__ = ("applied", "groups")

    def __init__(self) -> None:
        self.groups: dict[str, Entry] = {}
        self.applied: Offset = NO_OFFSET
        """The last offset that is in here."""

    def apply(self, batches: Sequence[Batch]) -> None:
        """Take committed batches in. Raises BadBatch or BadGroupRecord, and then must not be used any more."""
        for batch in batches:
            if batch.kind is BatchKind.DATA:
                stamp = max_timestamp(batch.data)
                for change in read_changes(batch.data):
                    self._change(change, stamp)
            self.applied = batch.last

    def save(self) -> bytes:
        """A snapshot. Replicas that have applied the same log save the same bytes."""
        groups = [[name, *_pack_entry(entry)] for name, entry in sorted(self.groups.items())]
        return _SNAPSHOT_VERSION + zlib.compress(to_json(groups), 3)

    def load(self, offset: Offset, state: bytes) -> None:
        """Start over from a snapshot; nothing at all is the state before the first record.

        Raises BadGroupRecord, and then nothing has changed.
        """
        self.groups = _unpack(state) if state else {}
        self.applied = offset

    def info(self, group: str) -> GroupInfo | None:
        """A group's latest generation."""
        entry = self.groups.get(group)
        return entry.info if entry is not None else None

    def offsets(self, group: str) -> dict[QueuePartition, CommittedOffset]:
        """Where a group goes on reading. Not to be changed."""
        entry = self.groups.get(group)
        return entry.offsets if entry is not None else {}

    def _change(self, change: Change, stamp: int) -> None:
        match change:
            case OffsetCommitted(group, queue, partition, offset, epoch, metadata, log):
                self._entry(group).offsets[queue, partition] = CommittedOffset(offset, epoch, metadata, stamp, log)
            case OffsetDropped(group, queue, partition):
                if group in self.groups:
                    self.groups[group].offsets.pop((queue, partition), None)
                    self._drop_bare(group)
            case GroupStored(group, info):
                self._entry(group).info = info
            case GroupDropped(group):
                self.groups.pop(group, None)
            case QueueForgotten(queue):
                for group, entry in list(self.groups.items()):
                    for key in [key for key in entry.offsets if key[0] == queue]:
                        del entry.offsets[key]
                    self._drop_bare(group)

    def _entry(self, group: str) -> Entry:
        entry = self.groups.get(group)
        if entry is None:
            entry = self.groups[group] = Entry()
        return entry

    def _drop_bare(self, group: str) -> None:
        # A group that never had a generation exists by its offsets alone.
        entry = self.groups[group]
        if entry.info is None and not entry.offsets:
            del self.groups[group]


def _pack_entry(entry: Entry) -> list[Any]:
    queues: dict[str, list[Any]] = {}
    # By queue, so that a queue's name is written once for all its partitions.
    for (queue, partition), committed in sorted(entry.offsets.items()):
        queues.setdefault(queue, []).append([partition, *committed])
    info = entry.info
    return [None if info is None else [info.since_ms, *pack_info(info)], queues]


def inflate(packed: bytes, most: int = _MOST_BYTES) -> bytes:
    """What zlib packed, if it is whole and not larger than `most`. Raises BadGroupRecord."""
    inflating = zlib.decompressobj()
    try:
        data = inflating.decompress(packed, most)
    except zlib.error as error:
        raise BadGroupRecord(f"a snapshot that cannot be read: {error}") from error
    if not inflating.eof or inflating.unused_data:
        raise BadGroupRecord(f"a snapshot that is cut, goes on after its end, or is larger than {most} bytes")
    return data


def _unpack(state: bytes) -> dict[str, Entry]:
    if state[:1] not in (_SNAPSHOT_VERSION, _WITHOUT_LOGS):
        raise BadGroupRecord(f"a snapshot of version {state[0]}; this release knows 1 to {_SNAPSHOT_VERSION[0]}")
    with_logs = state[:1] == _SNAPSHOT_VERSION
    try:
        packed = read_json(inflate(state[1:]))
    except ValueError as error:
        raise BadGroupRecord(f"a snapshot that cannot be read: {error}") from error
    groups: dict[str, Entry] = {}
    for one in packed if isinstance(packed, list) else [packed]:
        match one:
            case [str(name), None | [*_] as info, dict(queues)] if name not in groups:
                groups[name] = _unpack_entry(info, queues, with_logs)
            case _:
                raise BadGroupRecord(f"no group of a snapshot: {one!r:.200}")
    return groups


def _unpack_entry(info: list[Any] | None, queues: dict[str, Any], with_logs: bool) -> Entry:
    entry = Entry()
    match info:
        case None:
            pass
        case [int(since_ms), *packed]:
            entry.info = unpack_info(packed, since_ms)
        case _:
            raise BadGroupRecord(f"no generation of a group: {info!r:.200}")
    for queue, places in queues.items():
        for place in places if isinstance(places, list) else [places]:
            match place:
                case [int(partition), int(offset), int(epoch), str(metadata), int(stamp)] if not with_logs:
                    entry.offsets[queue, partition] = CommittedOffset(offset, epoch, metadata, stamp)
                case [int(partition), int(offset), int(epoch), str(metadata), int(stamp), int(log)] if with_logs:
                    entry.offsets[queue, partition] = CommittedOffset(offset, epoch, metadata, stamp, log)
                case _:
                    raise BadGroupRecord(f"no committed offset: {place!r:.200}")
    return entry
