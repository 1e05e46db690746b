"""The records inside a batch: reading them back, and finding the batches in a fetched buffer.

This is per-record Python and stands on no produce or fetch path of the broker; those see headers only
(`quorate.consensus.batch`). Every length is checked against what remains before it is used. Not here: building (`builder`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from quorate.broker.protocol.compression import MAX_INFLATED_BYTES, inflate
from quorate.consensus.batch.errors import BadBatch, Reason
from quorate.consensus.batch.header import COMPRESSION_MASK, HEADER_BYTES, LOG_APPEND_TIME, batch_size
from quorate.consensus.batch.validate import MIN_RECORD_BYTES, check_stored
from quorate.consensus.batch.varint import read_unsigned, read_varint
from quorate.consensus.core.types import Buffer

Headers = tuple[tuple[str, bytes | None], ...]
_NO_HEADERS: Final[Headers] = ()


class Record(NamedTuple):
    """One record, with its place in the log. Times are milliseconds; -1 is no time."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = _NO_HEADERS


def split_batches(data: Buffer) -> Iterator[memoryview]:
    """The whole batches in a fetched buffer, in order. A last one that is cut off is left out: a broker may cut."""
    view = memoryview(data)
    while len(view) >= HEADER_BYTES:
        size = batch_size(view)
        if size > len(view):
            return
        yield view[:size]
        view = view[size:]


def read_records(data: Buffer, max_inflated: int = MAX_INFLATED_BYTES) -> Iterator[Record]:
    """The records of one whole batch, in order.

    Header, checksum and compression are checked at once, each record as it is reached; either may raise BadBatch, and
    nothing else. Control batches are read like any other: a consumer looks at the header first and skips them.
    """
    header = check_stored(data)
    body = inflate(header.attributes & COMPRESSION_MASK, memoryview(data)[HEADER_BYTES:], max_inflated)
    if not 0 <= header.records <= len(body) // MIN_RECORD_BYTES:
        raise BadBatch(Reason.COUNT, 57, f"{header.records} records do not fit {len(body)} bytes")
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    return _records(body, header.records, header.base, header.last_delta, header.base_timestamp, append_time)


def _records(
    body: bytes, count: int, base: int, last_delta: int, base_timestamp: int, append_time: int | None
) -> Iterator[Record]:
    # Varints of one and two bytes are unrolled: calling a function for each of five of them takes most of a record's time.
    # They may run past the record they are in, never past the body; `at != stop` finds out before anything is yielded.
    at, end, before = 0, len(body), -1
    new = tuple.__new__
    try:
        for _ in range(count):
            number = body[at]
            at += 1
            if number > 0x7F:
                number, at = _more(body, at, number, 32)
            if number & 1 or not MIN_RECORD_BYTES - 1 <= number >> 1 <= end - at:
                raise BadBatch(Reason.RECORD, at, f"a record of {_signed(number)} bytes, and {end - at} are left")
            stop = at + (number >> 1)
            # One byte of attributes, which mean nothing so far. Some clients take it for a varint: where that would make a
            # difference, two readers would see two records at one offset.
            if body[at] > 0x7F:
                raise BadBatch(Reason.RECORD, at, f"record attributes {body[at]:#x}")
            time_delta = body[at + 1]
            at += 2
            if time_delta > 0x7F:
                time_delta, at = _more(body, at, time_delta, 64)
            delta = body[at]
            at += 1
            if delta > 0x7F:
                delta, at = _more(body, at, delta, 32)
            if delta & 1 or not before < delta >> 1 <= last_delta:
                raise BadBatch(Reason.OFFSET, at, f"offset delta {_signed(delta)} after {before}, last {last_delta}")
            before = delta >> 1
            key: bytes | None = None
            number = body[at]
            at += 1
            if number != 1:  # -1 is null
                if number > 0x7F:
                    number, at = _more(body, at, number, 32)
                if number & 1 or number >> 1 > stop - at:
                    raise BadBatch(Reason.RECORD, at, f"a key of {_signed(number)} bytes, and {stop - at} are left")
                key = body[at : at + (number >> 1)]
                at += number >> 1
            value: bytes | None = None
            number = body[at]
            at += 1
            if number != 1:
                if number > 0x7F:
                    number, at = _more(body, at, number, 32)
                if number & 1 or number >> 1 > stop - at:
                    raise BadBatch(Reason.RECORD, at, f"a value of {_signed(number)} bytes, and {stop - at} are left")
                value = body[at : at + (number >> 1)]
                at += number >> 1
            headers = _NO_HEADERS
            if body[at]:
                headers, at = _headers(body, at, stop)
            else:
                at += 1
            if at != stop:
                raise BadBatch(Reason.RECORD, at, f"a record should end at {stop}")
            stamp = base_timestamp + ((time_delta >> 1) ^ -(time_delta & 1)) if append_time is None else append_time
            yield new(Record, (base + before, stamp, key, value, headers))
    except IndexError:
        raise BadBatch(Reason.TRUNCATED, end, f"a record at {at} is cut off") from None
    if at != end:
        raise BadBatch(Reason.TRAILING, at, f"{end - at} bytes after the last record")


def _more(body: bytes, at: int, first: int, bits: int) -> tuple[int, int]:
    second = body[at]
    if second < 0x80:
        return first & 0x7F | second << 7, at + 1
    return read_unsigned(body, at - 1, len(body), bits)


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


def _bytes(body: bytes, at: int, stop: int) -> tuple[bytes | None, int]:
    length, at = read_varint(body, at, stop)
    if length == -1:
        return None, at
    if not 0 <= length <= stop - at:
        raise BadBatch(Reason.RECORD, at, f"a field of {length} bytes, and {stop - at} are left")
    return body[at : at + length], at + length


def _headers(body: bytes, at: int, stop: int) -> tuple[Headers, int]:
    count, at = read_varint(body, at, stop)
    # The smallest header has two bytes, so that a huge count is refused before the loop.
    if not 0 <= count <= (stop - at) // 2:
        raise BadBatch(Reason.RECORD, at, f"{count} headers, and {stop - at} bytes are left")
    headers = []
    for _ in range(count):
        key, at = _bytes(body, at, stop)
        if key is None:
            raise BadBatch(Reason.RECORD, at, "a header without a name")
        value, at = _bytes(body, at, stop)
        # Names should be UTF-8. One that is not keeps its bytes, so that a record can be moved without a loss.
        headers.append((key.decode("utf-8", "surrogateescape"), value))
    return tuple(headers), at
