"""Consumer groups: the records of `@groups`, its snapshots, and what members say they read."""

from __future__ import annotations

import zlib

from quorate.broker.groups import BadGroupRecord, GroupsState, build_batch, decode_change, encode_change
from quorate.broker.groups.subscription import subscribed
from quorate.broker.groups.values import Change, GroupInfo, GroupStored, MemberInfo, OffsetCommitted
from quorate.consensus.core import Batch, BatchKind, Offset, Term
from tests.fuzz.targets.changed import changed
from tests.fuzz.targets.expect import expect


def groups(data: bytes) -> None:
    """The first byte: a record (key, a zero byte, value); a snapshot, or its JSON, or a good one changed; a subscription."""
    if data:
        (_record, _snapshot, _json, _subscription, _changed)[data[0] % 5](data[1:])


CHANGES: tuple[Change, ...] = (
    OffsetCommitted("g", "q", 0, 5, 1, "x"),
    GroupStored(
        "g", GroupInfo(3, "consumer", "range", "m", True, (MemberInfo("m", None, "c", "h", 1, 2, b"said", b"given"),), 77)
    ),
    OffsetCommitted("h", "q", 1, 6, 1, "", 7),
)


def small_groups() -> GroupsState:
    """A group with a member, and one that only has an offset."""
    state = GroupsState()
    data = bytes(build_batch(map(encode_change, CHANGES), 77))
    state.apply([Batch(Offset(0), Offset(2), Term(1), BatchKind.DATA, data)])
    return state


def _json(data: bytes) -> None:
    _snapshot(small_groups().save()[:1] + zlib.compress(data, 1))


def _changed(data: bytes) -> None:
    _json(changed(zlib.decompress(small_groups().save()[1:]), data))


def _record(data: bytes) -> None:
    key, apart, value = data.partition(b"\0")
    try:
        change = decode_change(key or None, value if apart else None, 77)
    except BadGroupRecord:
        return
    record = encode_change(change)
    expect(decode_change(*record, 77) == change, "what was read can be written")
    state = GroupsState()
    batch = bytes(build_batch([record], 77))
    state.apply([Batch(Offset(0), Offset(0), Term(1), BatchKind.DATA, batch)])
    saved = state.save()
    again = GroupsState()
    again.load(Offset(0), saved)
    expect(again.save() == saved, "what was applied can be saved and loaded")


def _snapshot(data: bytes) -> None:
    state = GroupsState()
    try:
        state.load(Offset(5), data)
    except BadGroupRecord:
        expect(state.applied == -1 and not state.groups, "a snapshot that cannot be read changes nothing")
        return
    saved = state.save()
    again = GroupsState()
    again.load(Offset(5), saved)
    expect(again.save() == saved, "what was loaded can be saved")
    for name, entry in state.groups.items():
        expect(again.info(name) == entry.info and again.offsets(name) == entry.offsets, "every group is the same")


def _subscription(data: bytes) -> None:
    names = subscribed(data)
    if names is not None:
        expect(sum(len(name.encode()) + 2 for name in names) <= len(data), "names come from the bytes, not from a count")
