"""Small values of a replica's log: marks (hard state, end of the log), indices (bounds, terms, members), states."""

from __future__ import annotations

from collections.abc import Callable

from quorate.consensus.core import Configuration, Offset
from quorate.consensus.runtime.applying import pack_state, unpack_state
from quorate.consensus.storage import keys
from tests.fuzz.targets.expect import expect, sealed


def values(data: bytes) -> None:
    """The first byte says which value it is, and whether the checksum is to be made right first."""
    if not data:
        return
    value = sealed(data[1:]) if data[0] & 0x80 else data[1:]
    try:
        (_mark, _index, _state, _key, _members)[data[0] % 5](value)
    except keys.BadValue as error:
        expect(bool(str(error)), "an error says what is wrong")


def _mark(value: bytes) -> None:
    mark = keys.decode_mark(value)
    expect(keys.encode_mark(mark) == value, "a mark that can be read is the one that is written")
    place = keys.parse_key(keys.mark_key(mark.last))
    expect(place == (mark.last + 1, keys.MARK), "there is a place for it")
    expect(len(keys.index_key(mark.index_at)) == 10, "there can be an index where it says")


def _index(value: bytes) -> None:
    index = keys.decode_index(value)
    expect(keys.decode_index(keys.encode_index(index)) == index, "what was read can be written")
    expect(16 * len(index.firsts) + 12 * len(index.configurations) <= len(value), "nothing comes from a count alone")
    expect(len(keys.state_key(index.applied)) == 10, "there can be a state where it says")


def _state(value: bytes) -> None:
    offset, state = keys.decode_state(value)
    expect(keys.encode_state(offset, state) == value, "a state that can be read is the one that is written")
    applied, inner = unpack_state(Offset(5), state)
    expect(state == pack_state(applied, inner) or (applied, inner) == (5, b""), "the state machine's part of it")


def _key(value: bytes) -> None:
    place = keys.parse_key(value)
    if place is not None:
        offset, part = place
        made: dict[int, Callable[[int], bytes]] = {
            keys.BATCH: keys.batch_key,
            keys.INDEX: keys.index_key,
            keys.MARK: lambda at: keys.mark_key(at - 1),
            keys.STATE: lambda at: keys.state_key(Offset(at - 1)),
        }
        expect(made[part](offset) == value, "a key that can be read is the one that is written")


def _members(value: bytes) -> None:
    try:
        members = Configuration.decode(value)
    except ValueError:
        return
    again = members.encode()
    expect(Configuration.decode(again) == members and len(again) == len(value), "what was read can be written")
    expect(8 * len(members.members) <= len(value), "nothing comes from a count alone")
