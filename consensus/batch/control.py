"""Control batches: how the core's own batches (no-op, configuration) are stored among the data, and how a stored value is
turned back into a `core.Batch`.

A control batch is a RecordBatch v2 with the control bit and one record, whose key is (version, type) as Kafka has it.
Consumers skip it. Every replica writes the same bytes: there is no time and no producer in it.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

from quorate.consensus.batch.errors import BadBatch, Reason
from quorate.consensus.batch.header import (
    COMPRESSION_MASK,
    CONTROL,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    NO_EPOCH,
    NO_PRODUCER,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Header,
    pack_header,
    seal,
)
from quorate.consensus.batch.varint import INT64_MAX, encode_varint, read_varint, read_varlong
from quorate.consensus.core.types import Batch, BatchKind, Buffer, Offset, Term

_KEY: Final = struct.Struct(">hh")
_KEY_VERSION: Final = 0


class ControlType(IntEnum):
    """What a control batch says. Kafka's own types are small numbers; ours begin at 0x5100 and are never used again."""

    NOOP = 0x5100
    CONFIG = 0x5101
    LOG_START = 0x5102
    """The state machine's: records before an offset are deleted. Data to the core."""
    STAGE = 0x5103
    """The state machine's: a whole batch of records, kept until it is published as records or dropped."""
    STAGE_DROP = 0x5104
    """The state machine's: what these producers have staged is dropped."""


_TYPES: Final = {BatchKind.NOOP: ControlType.NOOP, BatchKind.CONFIG: ControlType.CONFIG}
_KINDS: Final = {int(kind): batch for batch, kind in _TYPES.items()}


def encode_control(batch: Batch) -> bytes:
    """The stored form of a NOOP or CONFIG batch of the core."""
    control = _TYPES.get(batch.kind)
    if control is None:
        raise ValueError("a data batch is stored as it is")
    if batch.last != batch.base:
        raise BadBatch(Reason.CONTROL, 0, f"a control batch covers one offset, not {batch.base}..{batch.last}")
    return build_control(batch.base, batch.term, control, batch.data)


def build_control(base: int, term: int, control: int, value: Buffer) -> bytes:
    """A control batch of any type, sealed. Raises BadBatch for a number that does not fit its field."""
    record = bytearray(b"\x00\x00\x00")  # attributes, timestamp delta, offset delta
    record += encode_varint(_KEY.size)
    try:
        record += _KEY.pack(_KEY_VERSION, control)
    except struct.error as error:
        raise BadBatch(Reason.CONTROL, HEADER_BYTES, f"{control} is no control type: {error}") from error
    record += encode_varint(len(value))
    record += value
    record.append(0)  # no headers
    prefix = encode_varint(len(record))
    length = HEADER_BYTES - LENGTH_END + len(prefix) + len(record)
    header = Header(
        base=base,
        length=length,
        leader_epoch=term,
        magic=MAGIC,
        crc=0,
        attributes=CONTROL,
        last_delta=0,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=NO_TIMESTAMP,
        producer_id=NO_PRODUCER,
        producer_epoch=NO_EPOCH,
        base_sequence=NO_SEQUENCE,
        records=1,
    )
    data = bytearray(pack_header(header))
    data += prefix
    data += record
    seal(data)
    return bytes(data)


def decode_batch(value: Buffer) -> Batch:
    """The core's batch that a stored value holds. Data is handed on as it is, without a copy.

    Control batches of other types than the core's belong to the state machine, and are data to the core.
    The checksum is not looked at: see `validate.check_stored`. Raises BadBatch.
    """
    size = len(value)
    if size < HEADER_BYTES:
        raise BadBatch(Reason.TRUNCATED, size, f"a header has {HEADER_BYTES} bytes, and here are {size}")
    base, length, term, magic, _, bits, last_delta, *_ = HEADER.unpack_from(value)
    if length != size - LENGTH_END:
        raise BadBatch(Reason.LENGTH, 8, f"the header says {length + LENGTH_END} bytes, and here are {size}")
    if magic != MAGIC:
        raise BadBatch(Reason.MAGIC, 16, f"magic {magic}; only {MAGIC} is known")
    last = base + last_delta
    if base < 0 or last_delta < 0 or term < 0 or last >= INT64_MAX:  # what follows it has an offset too
        raise BadBatch(Reason.OFFSET, 0, f"base {base}, last offset delta {last_delta}, term {term}")
    if bits & CONTROL:
        control, body = read_control(value)
        kind = _KINDS.get(control)
        if kind is not None:
            if last_delta:
                raise BadBatch(Reason.CONTROL, 23, f"a control batch covers one offset, not {base}..{last}")
            return Batch(Offset(base), Offset(last), Term(term), kind, bytes(body))
    return Batch(Offset(base), Offset(last), Term(term), BatchKind.DATA, value)


def read_control(value: Buffer) -> tuple[int, memoryview]:
    """Type and value of a whole control batch's first record. Raises BadBatch."""
    view = memoryview(value)
    size = len(view)
    if size < HEADER_BYTES:
        raise BadBatch(Reason.TRUNCATED, size, f"a header has {HEADER_BYTES} bytes, and here are {size}")
    bits = HEADER.unpack_from(view)[5]
    if not bits & CONTROL or bits & COMPRESSION_MASK:
        raise BadBatch(Reason.CONTROL, 21, f"attributes {bits:#x} are not those of a control batch")
    length, at = read_varint(view, HEADER_BYTES, size)
    if not 0 <= length <= size - at:
        raise BadBatch(Reason.CONTROL, HEADER_BYTES, f"a control record of {length} bytes, and {size - at} are left")
    end = at + length
    _, at = read_varlong(view, at + 1, end)  # attributes, timestamp delta
    _, at = read_varint(view, at, end)  # offset delta
    key, at = _field(view, at, end)
    body, at = _field(view, at, end)
    if len(key) != _KEY.size:
        raise BadBatch(Reason.CONTROL, at, f"a control key of {len(key)} bytes, not {_KEY.size}")
    version, control = _KEY.unpack(key)
    if version != _KEY_VERSION:
        raise BadBatch(Reason.CONTROL, at, f"control version {version} is not known")
    return control, body


def _field(view: memoryview, at: int, end: int) -> tuple[memoryview, int]:
    length, at = read_varint(view, at, end)
    if length == -1:
        return view[at:at], at
    if not 0 <= length <= end - at:
        raise BadBatch(Reason.CONTROL, at, f"a field of {length} bytes, and {end - at} are left")
    return view[at : at + length], at + length
