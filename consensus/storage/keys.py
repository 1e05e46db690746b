"""Keys and small values of a LevelDB log. docs/storage-format.md shows them; nothing else knows their bytes.

A key is one byte of kind and one big-endian integer, so that LevelDB's order is the log's order. In the log there follows
one more byte: at each position the mark of the write that ended before it comes first, then the batch that begins there.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from quorate.consensus.core import Configuration, HardState, LogStart, Millis, Offset, ReplicaId, Term
from quorate.consensus.core.types import Buffer

FORMAT: Final = 1

# The log sorts first: a file that also holds one of the few other keys then reaches over the end of the log, not all of it.
_LOG: Final = 1
_START: Final = 2
_TERM: Final = 3
_CONFIGURATION: Final = 4
_STATE: Final = 5

_MARK: Final = 0
_BATCH: Final = 1

_LOG_KEY: Final = struct.Struct(">BQB")
_KEY: Final = struct.Struct(">BQ")
_CRC: Final = struct.Struct(">I")
_MARK_VALUE: Final = struct.Struct(">QQQqqQQq")
_START_VALUE: Final = struct.Struct(">BqQQq")
_INT64: Final = struct.Struct(">q")
_UINT64: Final = struct.Struct(">Q")

LOG_BEGIN: Final = bytes([_LOG])
LOG_END: Final = bytes([_LOG + 1])
START_KEY: Final = _KEY.pack(_START, 0)
STATE_KEY: Final = _KEY.pack(_STATE, 0)
TERMS: Final = (bytes([_TERM]), bytes([_TERM + 1]))
CONFIGURATIONS: Final = (bytes([_CONFIGURATION]), bytes([_CONFIGURATION + 1]))


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


class Beginning(NamedTuple):
    """Where the log begins, and what `size` and `stamp` were there."""

    start: LogStart
    size: int
    stamp: Millis


def batch_key(base: int) -> bytes:
    """The batch that begins at `base`."""
    return _LOG_KEY.pack(_LOG, base, _BATCH)


def mark_key(last: int) -> bytes:
    """The mark of a write after which the log ended at `last`."""
    return _LOG_KEY.pack(_LOG, last + 1, _MARK)


def term_key(first: int) -> bytes:
    """The run of one term that begins at `first`."""
    return _KEY.pack(_TERM, first)


def configuration_key(offset: int) -> bytes:
    """The configuration that was appended at `offset`."""
    return _KEY.pack(_CONFIGURATION, offset)


def parse_log_key(key: bytes) -> tuple[Offset, bool] | None:
    """Position, and whether a batch begins there (else it is a mark); None for a key of another kind."""
    if len(key) != _LOG_KEY.size:
        return None
    kind, position, part = _LOG_KEY.unpack(key)
    return (Offset(position), part == _BATCH) if kind == _LOG and part <= _BATCH else None


def parse_offset(key: bytes) -> Offset:
    """The integer of a key of a term run or a configuration."""
    if len(key) != _KEY.size:
        raise BadValue(f"a key of {len(key)} bytes")
    return Offset(_KEY.unpack(key)[1])


def _sealed(value: bytes) -> bytes:
    return value + _CRC.pack(crc32c(value))


def _opened(value: bytes, what: str) -> memoryview:
    body = memoryview(value)[: -_CRC.size]
    if len(value) < _CRC.size or crc32c(body) != _CRC.unpack_from(value, len(body))[0]:
        raise BadValue(f"{what} has a wrong checksum")
    return body


def encode_mark(mark: Mark) -> bytes:
    counter, (term, vote, commit), last, last_term, size, stamp = mark
    return _sealed(_MARK_VALUE.pack(counter, term, vote, commit, last, last_term, size, stamp))


def decode_mark(value: bytes) -> Mark:
    body = _opened(value, "a mark")
    if len(body) != _MARK_VALUE.size:
        raise BadValue(f"a mark of {len(body)} bytes")
    counter, term, vote, commit, last, last_term, size, stamp = _MARK_VALUE.unpack(body)
    hard_state = HardState(Term(term), ReplicaId(vote), Offset(commit))
    return Mark(counter, hard_state, Offset(last), Term(last_term), size, Millis(stamp))


def encode_beginning(beginning: Beginning) -> bytes:
    (offset, term, configuration), size, stamp = beginning
    return _sealed(_START_VALUE.pack(FORMAT, offset, term, size, stamp) + configuration.encode())


def decode_beginning(value: bytes) -> Beginning:
    body = _opened(value, "the log's start")
    if len(body) < _START_VALUE.size:
        raise BadValue(f"a log start of {len(body)} bytes")
    version, offset, term, size, stamp = _START_VALUE.unpack_from(body)
    if version != FORMAT:
        raise BadValue(f"storage format {version} is not known, only {FORMAT}")
    configuration = _configuration(body[_START_VALUE.size :])
    return Beginning(LogStart(Offset(offset), Term(term), configuration), size, Millis(stamp))


def encode_term(term: Term) -> bytes:
    return _sealed(_UINT64.pack(term))


def decode_term(value: bytes) -> Term:
    body = _opened(value, "a term run")
    if len(body) != _UINT64.size:
        raise BadValue(f"a term run of {len(body)} bytes")
    return Term(_UINT64.unpack(body)[0])


def encode_configuration(configuration: Configuration) -> bytes:
    return _sealed(configuration.encode())


def decode_configuration(value: bytes) -> Configuration:
    return _configuration(_opened(value, "a configuration"))


def _configuration(body: memoryview) -> Configuration:
    try:
        return Configuration.decode(body)
    except ValueError as error:
        raise BadValue(f"a configuration cannot be read: {error}") from error


def encode_state(offset: Offset, state: Buffer) -> bytes:
    return _sealed(b"".join((_INT64.pack(offset), state)))


def decode_state(value: bytes) -> tuple[Offset, bytes]:
    body = _opened(value, "the state machine's state")
    if len(body) < _INT64.size:
        raise BadValue(f"a state of {len(body)} bytes")
    return Offset(_INT64.unpack_from(body)[0]), bytes(body[_INT64.size :])
