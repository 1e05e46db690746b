"""Keys and values of a LevelDB log. docs/storage-format.md shows them; nothing else knows their bytes.

A key is one byte of kind, a position in the log as a big-endian integer, and one byte that says what lies there. All of them
are at positions of the log, so that keys rise with it: LevelDB then moves its files and never writes them anew.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from quorate.consensus.core import Configuration, HardState, LogStart, Millis, Offset, ReplicaId, Term
from quorate.consensus.core.types import NO_OFFSET, Buffer
from quorate.consensus.storage.api import NO_STAMP

FORMAT: Final = 1

_LOG: Final = 1

# At one position, in this order. The mark of the newest write is the last key of all.
STATE: Final = 0
INDEX: Final = 1
MARK: Final = 2
BATCH: Final = 3

_KEY: Final = struct.Struct(">BQB")
_CRC: Final = struct.Struct(">I")
_MARK: Final = struct.Struct(">QQQqqQQqQ")
_INDEX: Final = struct.Struct(">BqQQq?qII")
_RUN: Final = struct.Struct(">qQ")
_CONFIGURATION: Final = struct.Struct(">qI")
_STATE: Final = struct.Struct(">q")

LOG_BEGIN: Final = bytes([_LOG])
LOG_END: Final = bytes([_LOG + 1])


class BadValue(ValueError):
    """A small value whose checksum, length or content cannot be right."""


class Mark(NamedTuple):
    """What every write leaves at the log's end: the state of the replica as it was after that write."""

    counter: int
    """How many writes there have been; the newest mark has the highest."""
    hard_state: HardState
    last: Offset
    last_term: Term
    size: int
    """Bytes of all batches up to `last`, counted since the log began or a snapshot was installed."""
    stamp: Millis
    """The time of the last batch up to `last` that has one."""
    index_at: int
    """The position of the index that goes with it."""


class Beginning(NamedTuple):
    """Where the log begins, and what `size` and `stamp` were there."""

    start: LogStart
    size: int
    stamp: Millis


class Index(NamedTuple):
    """What changes seldom: it is written anew when it does, at the log's end of that moment."""

    beginning: Beginning
    applied: Offset
    """How far the state machine's own state reaches."""
    has_state: bool
    """Whether there is one."""
    firsts: tuple[Offset, ...]
    terms: tuple[Term, ...]
    """Runs of batches of one term: where each begins, and its term."""
    configurations: tuple[tuple[Offset, Configuration], ...]


def batch_key(base: int) -> bytes:
    """The batch that begins at `base`."""
    return _KEY.pack(_LOG, base, BATCH)


def mark_key(last: int) -> bytes:
    """The mark of a write after which the log ended at `last`."""
    return _KEY.pack(_LOG, last + 1, MARK)


def index_key(position: int) -> bytes:
    """The index that was written when the log ended before `position`."""
    return _KEY.pack(_LOG, position, INDEX)


def state_key(offset: int) -> bytes:
    """The state machine's state that reaches up to `offset`."""
    return _KEY.pack(_LOG, offset + 1, STATE)


def parse_key(key: bytes) -> tuple[Offset, int] | None:
    """Position, and what lies there; None for a key of another kind."""
    if len(key) != _KEY.size:
        return None
    kind, position, part = _KEY.unpack(key)
    return (Offset(position), part) if kind == _LOG and part <= BATCH else None


def _sealed(value: bytes) -> bytes:
    return value + _CRC.pack(crc32c(value))


def _opened(value: bytes, what: str, least: int) -> memoryview:
    """The content of a value with its checksum. Raises BadValue."""
    body = memoryview(value)[: -_CRC.size]
    if len(value) < _CRC.size or crc32c(body) != _CRC.unpack_from(value, len(body))[0]:
        raise BadValue(f"{what} has a wrong checksum")
    if len(body) < least:
        raise BadValue(f"{what} of {len(body)} bytes is too short")
    return body


def encode_mark(mark: Mark) -> bytes:
    counter, (term, vote, commit), last, last_term, size, stamp, index_at = mark
    return _sealed(_MARK.pack(counter, term, vote, commit, last, last_term, size, stamp, index_at))


def decode_mark(value: bytes) -> Mark:
    body = _opened(value, "a mark", _MARK.size)
    if len(body) != _MARK.size:
        raise BadValue(f"a mark of {len(body)} bytes is too long")
    counter, term, vote, commit, last, last_term, size, stamp, index_at = _MARK.unpack_from(body)
    if commit < NO_OFFSET or last < NO_OFFSET or size < 0 or stamp < NO_STAMP or index_at < 0:
        raise BadValue(
            f"a mark speaks of offset {last}, commit {commit}, {size} bytes, time {stamp}, an index at {index_at}"
        )
    hard_state = HardState(Term(term), ReplicaId(vote), Offset(commit))
    return Mark(counter, hard_state, Offset(last), Term(last_term), size, Millis(stamp), index_at)


def encode_index(index: Index) -> bytes:
    (start, size, stamp), applied, has_state, firsts, terms, configurations = index
    counts = len(firsts), len(configurations) + 1
    parts = [_INDEX.pack(FORMAT, start.offset, start.term, size, stamp, has_state, applied, *counts)]
    parts += [_RUN.pack(first, term) for first, term in zip(firsts, terms, strict=True)]
    for offset, configuration in ((start.offset, start.configuration), *configurations):
        encoded = configuration.encode()
        parts += [_CONFIGURATION.pack(offset, len(encoded)), encoded]
    return _sealed(b"".join(parts))


def decode_index(value: bytes) -> Index:
    body = _opened(value, "the index", _INDEX.size)
    try:
        version, offset, term, size, stamp, has_state, applied, runs, configurations = _INDEX.unpack_from(body)
        if version != FORMAT:
            raise BadValue(f"storage format {version} is not known, only {FORMAT}")
        at = _INDEX.size
        pairs = [_RUN.unpack_from(body, at + n * _RUN.size) for n in range(runs)]
        at += runs * _RUN.size
        found: list[tuple[Offset, Configuration]] = []
        for _ in range(configurations):
            where, length = _CONFIGURATION.unpack_from(body, at)
            at += _CONFIGURATION.size
            found.append((Offset(where), Configuration.decode(body[at : at + length])))
            at += length
        start = LogStart(Offset(offset), Term(term), found[0][1])
    except (struct.error, ValueError, IndexError) as error:
        raise BadValue(f"the index cannot be read: {error}") from error
    if at != len(body) or found[0][0] != offset:
        raise BadValue(f"the index ends at byte {at} of {len(body)}, its first configuration is of {found[0][0]}")
    if offset < NO_OFFSET or applied < NO_OFFSET or size < 0 or stamp < NO_STAMP:
        raise BadValue(f"the index speaks of offsets {offset} and {applied}, {size} bytes and time {stamp}")
    return Index(
        Beginning(start, size, Millis(stamp)),
        Offset(applied),
        has_state,
        tuple(Offset(first) for first, _ in pairs),
        tuple(Term(number) for _, number in pairs),
        tuple(found[1:]),
    )


def encode_state(offset: Offset, state: Buffer) -> bytes:
    return _sealed(b"".join((_STATE.pack(offset), state)))


def decode_state(value: bytes) -> tuple[Offset, bytes]:
    body = _opened(value, "the state machine's state", _STATE.size)
    return Offset(_STATE.unpack_from(body)[0]), bytes(body[_STATE.size :])
