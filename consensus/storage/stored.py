"""What a batch looks like in a store: a whole RecordBatch v2, whichever kind it is of. Made and checked here."""

from __future__ import annotations

from typing import NamedTuple

from quorate.consensus.batch.control import encode_control
from quorate.consensus.batch.errors import BadBatch
from quorate.consensus.batch.header import HEADER, HEADER_BYTES, LENGTH_END, MAGIC
from quorate.consensus.batch.validate import check_stored
from quorate.consensus.core import Batch, BatchKind, Millis, Offset, Term
from quorate.consensus.core.types import Buffer
from quorate.consensus.storage.api import NO_STAMP


class Entry(NamedTuple):
    """What a stored batch says of itself."""

    base: Offset
    last: Offset
    term: Term
    stamp: Millis
    """Its maxTimestamp; -1 for a batch without a time."""


def encode(batch: Batch) -> tuple[Buffer, Millis]:
    """The bytes that are stored for a batch, and its time. Raises ValueError if a data batch contradicts its bytes."""
    if batch.kind is not BatchKind.DATA:
        return encode_control(batch), NO_STAMP
    data = batch.data
    if len(data) < HEADER_BYTES:
        raise ValueError(f"batch {batch.base}-{batch.last} holds {len(data)} bytes, which is no RecordBatch")
    base, length, term, magic, _, _, delta, _, stamp, _, _, _, _ = HEADER.unpack_from(data)
    if (base, base + delta, term) != batch[:3] or length + LENGTH_END != len(data) or magic != MAGIC:
        raise ValueError(
            f"batch {batch.base}-{batch.last}@{batch.term} of {len(data)} bytes holds a RecordBatch "
            f"{base}-{base + delta}@{term} of {length + LENGTH_END} bytes, magic {magic}"
        )
    return data, stamp


def check(value: Buffer) -> Entry:
    """What a stored value says of itself, once its length and checksum were found right. Raises BadBatch."""
    header = check_stored(value)
    return Entry(Offset(header.base), Offset(header.last), Term(header.leader_epoch), Millis(header.max_timestamp))


__all__ = ["BadBatch", "Entry", "check", "encode"]
