"""Consumer groups: the records of `@groups`, its snapshots, and what members say they read."""

from __future__ import annotations

import zlib

from quorate.broker.groups import BadGroupRecord, GroupsState, build_batch, decode_change, encode_change
from quorate.broker.groups.subscription import subscribed
from quorate.consensus.core import Batch, BatchKind, Offset, Term
from tests.fuzz.targets.expect import expect


def groups(data: bytes) -> None:
    """The first byte: a record (key, a zero byte, value), a snapshot as it is or before it is compressed, a subscription."""
    if not data:
        return
    (_record, _snapshot, lambda rest: _snapshot(b"\x01" + zlib.compress(rest, 1)), _subscription)[data[0] % 4](data[1:])


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
