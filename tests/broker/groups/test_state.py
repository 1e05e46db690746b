"""The replicated state: records to bytes and back, and replayed state equals live state."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.groups import BadGroupRecord, GroupsState, build_batch, decode_change, encode_change, partition_of
from quorate.broker.groups.logs import NO_LOG
from quorate.broker.groups.state import inflate
from quorate.broker.groups.values import (
    Change,
    CommittedOffset,
    GroupDropped,
    GroupInfo,
    GroupStored,
    MemberInfo,
    OffsetCommitted,
    OffsetDropped,
    QueueForgotten,
)
from quorate.consensus.core.types import Batch, BatchKind, Offset, Term
from tests.support.batches import THREE, config_batch, noop

NAMES = st.sampled_from(["", "a", "b", "gruppe-ä", 'quote"d'])
TEXT = st.text(max_size=5)
INTS = st.integers(0, 2**31 - 1)
MEMBERS = st.builds(MemberInfo, TEXT, st.none() | TEXT, TEXT, TEXT, INTS, INTS, st.binary(max_size=9), st.binary(max_size=9))
INFOS = st.builds(GroupInfo, INTS, TEXT, TEXT, TEXT, st.booleans(), st.lists(MEMBERS, max_size=3).map(tuple), st.just(77))
CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(
        OffsetCommitted,
        NAMES,
        NAMES,
        st.integers(0, 3),
        st.integers(-1, 2**63 - 1),
        st.integers(-1, 9),
        TEXT,
        st.integers(NO_LOG, 2**31),
    ),
    st.builds(OffsetDropped, NAMES, NAMES, st.integers(0, 3)),
    st.builds(GroupStored, NAMES, INFOS),
    st.builds(GroupDropped, NAMES),
    st.builds(QueueForgotten, NAMES),
)


def batches_of(log: list[list[Change]]) -> list[Batch]:
    batches: list[Batch] = []
    base = 0
    for number, changes in enumerate(log):
        if changes:
            data = bytes(build_batch(map(encode_change, changes), 1_000 + number))
            batches.append(Batch(Offset(base), Offset(base + len(changes) - 1), Term(1), BatchKind.DATA, data))
        else:
            batches.append(noop(base) if number % 2 else config_batch(base, THREE))
        base = batches[-1].last + 1
    return batches


@given(CHANGES)
def test_records_are_read_as_they_were_written(change: Change) -> None:
    assert decode_change(*encode_change(change), 77) == change


@given(st.lists(st.lists(CHANGES, max_size=4), max_size=12), st.data())
def test_state_does_not_depend_on_how_it_was_reached(log: list[list[Change]], data: st.DataObject) -> None:
    batches = batches_of(log)
    live = GroupsState()
    for batch in batches:
        live.apply([batch])
    cut = data.draw(st.integers(0, len(batches)))
    first, second = GroupsState(), GroupsState()
    first.apply(batches[:cut])
    second.load(first.applied, first.save())
    second.apply(batches[cut:])
    assert second.save() == live.save()
    assert second.applied == live.applied
    for name, entry in live.groups.items():
        assert second.info(name) == entry.info
        assert second.offsets(name) == entry.offsets


@pytest.mark.parametrize(
    "bad",
    [
        b"\x03",
        b"\x02",
        b"\x01",
        b"\x01" + zlib.compress(b"[]")[:-2],
        b"\x01" + zlib.compress(b"[]") + b"[]",
        b"\x01" + zlib.compress(b"{}"),
        b"\x01" + zlib.compress(b"[" * 100_000),
        b"\x01" + zlib.compress(b'[["g",null,{}],["g",null,{}]]'),
        b"\x01" + zlib.compress(b'[["g",null,{"q":[[0,1,2,3,4]]}]]'),
        b"\x01" + zlib.compress(b'[["g",null,{"q":[[0,1,2,"",4,5]]}]]'),
        b"\x02" + zlib.compress(b'[["g",null,{"q":[[0,1,2,"",4]]}]]'),
        b"\x01" + zlib.compress(b'[["g",[1,2,"","","",true,[["m",null,"","",1,2,"=","="]]],{}]]'),
    ],
)
def test_a_snapshot_that_cannot_be_read_is_refused_and_changes_nothing(bad: bytes) -> None:
    state = GroupsState()
    state.apply(batches_of([[OffsetCommitted("g", "q", 0, 1, 1, "")]]))
    before = state.save()
    with pytest.raises(BadGroupRecord):
        state.load(Offset(99), bad)
    assert (state.save(), state.applied) == (before, 0)


def test_a_snapshot_that_swells_beyond_measure_is_refused_before_it_does() -> None:
    packed = zlib.compress(bytes(1_000_000))
    assert len(inflate(packed, 1_000_000)) == 1_000_000
    with pytest.raises(BadGroupRecord, match="larger than 999999 bytes"):
        inflate(packed, 999_999)


def test_snapshot_is_compact() -> None:
    state = GroupsState()
    changes: list[Change] = [
        OffsetCommitted(f"group-{g}", "orders", p, 10_000 + p, 1, "") for g in range(20) for p in range(50)
    ]
    state.apply(batches_of([changes]))
    assert len(state.save()) < 20 * len(changes)


def test_empty_snapshot_is_the_beginning() -> None:
    state = GroupsState()
    state.apply(batches_of([[OffsetCommitted("g", "q", 0, 1, 1, "")]]))
    state.load(Offset(-1), b"")
    assert not state.groups
    assert state.applied == -1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"", b""),
        (b"{", None),
        (b'["x","g"]', None),
        (b'["o","g","q",0]', b"[2,1,1,null]"),
        (b'["o","g","q",0]', b'[2,1,1,""]'),
        (b'["o","g","q",0]', b'[2,1,1,"",-1]'),
        (b'["o","g","q",0]', b'[1,1,1,"",5]'),
        (b'["o","g","q",0]', b'[3,1,1,"",5]'),
        (b'["g","g"]', b'[2,1,"","","",true,[]]'),
        (b'["o","g","q",0]', b"[1,1]"),
        (b'["o","g","q",0]', b"7"),
        (b'["o","g","q",0]', b"[]"),
        (b'["g","g"]', b"[1,1]"),
        (b'["q","g"]', b"[1]"),
    ],
)
def test_record_that_is_none_of_ours_is_an_error(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(BadGroupRecord):
        decode_change(key, value, 0)


def test_what_an_earlier_release_wrote_is_read() -> None:
    state = GroupsState()
    state.load(Offset(3), b"\x01" + zlib.compress(b'[["g",null,{"q":[[0,7,2,"x",99]]}]]'))
    assert state.offsets("g") == {("q", 0): CommittedOffset(7, 2, "x", 99, NO_LOG)}
    record = b'["o","g","q",0]', b'[1,7,2,"x"]'
    assert decode_change(*record, 0) == OffsetCommitted("g", "q", 0, 7, 2, "x", NO_LOG)
    assert encode_change(decode_change(*record, 0)) == record


def test_snapshot_of_a_later_release_is_an_error() -> None:
    with pytest.raises(BadGroupRecord):
        GroupsState().load(Offset(0), b"\x03")


@given(st.text(), st.integers(1, 100))
def test_every_group_has_a_partition(name: str, partitions: int) -> None:
    assert 0 <= partition_of(name, partitions) < partitions
