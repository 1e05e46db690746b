"""Batches into Arrow columns, all records at once: rows as Kafka's source has them, and no Python for each record.

Places of fields are arrays, numbers are read at all places together, and bytes are gathered by Arrow in C++. Whatever does
not add up is read again record by record, which says what is wrong. Not here: where records begin (`walk`), headers of
records (`record_headers`), and fetching.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quorate.client.batches import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MIN_RECORD_BYTES,
    BadBatch,
    Buffer,
    Header,
    Reason,
    check_stored,
    inflate,
    read_records,
    split_batches,
)
from quorate.spark.record_headers import HEADERS_TYPE, read_headers
from quorate.spark.varints import MOST_32, MOST_64, Bytes, Doubt, Ints, read_unsigned, signed
from quorate.spark.walk import find_starts

CREATE_TIME: Final = 0
APPEND_TIME: Final = 1
"""Kafka's numbers in the column `timestampType`."""

_TIME: Final = pa.timestamp("us", tz="UTC")
_FIELDS: Final = [
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", _TIME),
    ("timestampType", pa.int32()),
]
SCHEMA: Final = pa.schema(_FIELDS)
SCHEMA_WITH_HEADERS: Final = pa.schema([*_FIELDS, ("headers", HEADERS_TYPE)])

_MOST_BYTES: Final = 32 << 20
"""Inflated bytes after which an Arrow batch ends: Spark holds several. Arrow's own limit are 32 bits."""
_LATEST_MS: Final = ((1 << 63) - 1) // 1000
_BEYOND: Final = _LATEST_MS + 1
_HALF: Final = 1 << 61
_NULL: Final = 1
"""The length -1, its sign in the lowest bit."""


class Malformed(Exception):
    """A batch that cannot be read, and where: nothing of it or after it has been handed on."""

    def __init__(self, topic: str, partition: int, offset: int, why: BadBatch) -> None:
        super().__init__(topic, partition, offset, why)
        self.topic, self.partition, self.offset, self.why = topic, partition, offset, why

    def __str__(self) -> str:
        return f"the batch at offset {self.offset} of {self.topic}-{self.partition} cannot be read: {self.why}"


class _Body(NamedTuple):
    """The records of one batch: `data[first:end]`, not packed."""

    header: Header
    data: Buffer
    first: int
    end: int


class _Group(NamedTuple):
    """Bodies that become one Arrow batch, one after the other in `data`."""

    data: Buffer
    bodies: Sequence[_Body]


class Decoder:
    """Makes Arrow batches of one partition's batches."""

    def __init__(self, topic: str, partition: int, *, headers: bool = False) -> None:
        self._topic = topic
        self._partition = partition
        self._headers = headers
        self.schema = SCHEMA_WITH_HEADERS if headers else SCHEMA

    def decode(self, data: Buffer, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The records with offsets in [start, end) of the whole batches in `data`: usually one Arrow batch, never empty.

        Raises Malformed.
        """
        for group in self._groups(data, start, end):
            try:
                columns = self._columns(group)
            except (Doubt, IndexError):
                self._complain(data, start, end)
                raise
            rows = _within(columns, start, end)
            if rows.num_rows:
                yield rows

    def _groups(self, data: Buffer, start: int, end: int) -> Iterator[_Group]:
        """The bodies of data batches in the range, in groups of a bounded size."""
        view = memoryview(data)
        bodies: list[_Body] = []
        place = size = 0
        packed = False
        for batch in self._split(view):
            first, place = place, place + len(batch)
            try:
                header = check_stored(batch)
                if header.control or header.last < start or header.base >= end:
                    continue
                body = _body(header, batch, view, first)
            except BadBatch as error:
                raise Malformed(self._topic, self._partition, _base(batch), error) from error
            if body is None:
                continue
            bodies.append(body)
            packed |= body.data is not view
            size += body.end - body.first
            if size >= _MOST_BYTES:
                yield _join(bodies) if packed else _Group(view, bodies)
                bodies, size, packed = [], 0, False
        if bodies:
            yield _join(bodies) if packed else _Group(view, bodies)

    def _split(self, view: memoryview) -> Iterator[memoryview]:
        try:
            yield from split_batches(view)
        except BadBatch as error:
            raise Malformed(self._topic, self._partition, -1, error) from error

    def _complain(self, data: Buffer, start: int, end: int) -> None:
        """Read record by record, for the sake of the error."""
        for batch in split_batches(data):
            header = check_stored(batch)
            if header.control or header.last < start or header.base >= end:
                continue
            try:
                for _ in read_records(batch):
                    pass
            except BadBatch as error:
                raise Malformed(self._topic, self._partition, header.base, error) from error

    def _columns(self, group: _Group) -> pa.RecordBatch:
        data = np.frombuffer(group.data, np.uint8)
        starts, counts = _find_all(group, data)
        lasts = np.cumsum(counts) - 1
        heads = np.array([_head(body.header) for body in group.bodies], np.int64)
        length, at = read_unsigned(data, starts, MOST_32)
        stop = at + (length >> 1)
        _check_ends(starts, length, stop, lasts, group)
        if (data[at] > 0x7F).any():  # attributes: one byte, and not a varint
            raise Doubt
        appended = bool((heads[:, 1] == APPEND_TIME).all())
        time_delta, at = read_unsigned(data, at + 1, MOST_64)
        delta, at = read_unsigned(data, at, MOST_32)
        offsets = _offsets(delta, heads, counts, lasts)
        key, key_at, at = _field(data, at)
        value, value_at, at = _field(data, at)
        # Nothing is gathered before all of it adds up: Arrow believes the places that it is given.
        tail = [read_headers(group.data, data, at, stop)] if self._headers else _check_tails(data, at, stop)
        if appended:
            times = np.repeat(heads[:, 2], counts)
        else:
            # A batch with the broker's time has a base time too, which counts for nothing.
            times = _add(np.repeat(heads[:, 2], counts), np.where(np.repeat(heads[:, 1], counts), 0, signed(time_delta)))
        columns = [
            _gather(group.data, key, key_at),
            _gather(group.data, value, value_at),
            _constant(self._topic, starts.size),
            pa.array(np.full(starts.size, self._partition, np.int32)),
            pa.array(offsets),
            _times(times, heads),
            pa.array(np.repeat(heads[:, 1], counts).astype(np.int32)),
            *tail,
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _body(header: Header, batch: memoryview, whole: memoryview, first: int) -> _Body | None:
    """The records of the batch that begins at `first`; None: there is none. Raises BadBatch."""
    if header.compression:
        packed = inflate(header.compression, batch[HEADER_BYTES:])
        body = _Body(header, packed, 0, len(packed))
    else:
        body = _Body(header, whole, first + HEADER_BYTES, first + len(batch))
    size = body.end - body.first
    if not 0 <= header.records <= size // MIN_RECORD_BYTES:
        raise BadBatch(Reason.COUNT, 57, f"{header.records} records do not fit {size} bytes")
    if header.records:
        return body
    if size:
        raise BadBatch(Reason.TRAILING, 0, f"{size} bytes after the last record")
    return None


def _base(batch: memoryview) -> int:
    return int.from_bytes(batch[:8], "big", signed=True)


def _join(bodies: Sequence[_Body]) -> _Group:
    """One buffer of bodies of which some were packed."""
    joined, place = [], 0
    for body in bodies:
        size = body.end - body.first
        joined.append(_Body(body.header, b"", place, place + size))
        place += size
    return _Group(b"".join([memoryview(body.data)[body.first : body.end] for body in bodies]), joined)


def _head(header: Header) -> tuple[int, int, int, int]:
    """Base offset, type of the times, the time that records' times are counted from, the last offset delta."""
    if header.attributes & LOG_APPEND_TIME:
        return header.base, APPEND_TIME, header.max_timestamp, header.last_delta
    return header.base, CREATE_TIME, header.base_timestamp, header.last_delta


def _find_all(group: _Group, data: Bytes) -> tuple[Ints, Ints]:
    starts = array("q")
    for body in group.bodies:
        find_starts(group.data, data, body.first, body.end, body.header.records, starts)
    counts = np.array([body.header.records for body in group.bodies], np.int64)
    return np.frombuffer(starts, np.int64), counts


def _check_ends(starts: Ints, length: Ints, stop: Ints, lasts: Ints, group: _Group) -> None:
    """Each record ends where the next one begins, and the last one where its batch ends."""
    following = np.empty_like(starts)
    following[:-1] = starts[1:]
    following[lasts] = [body.end for body in group.bodies]
    if (length & 1).any() or length.min() < 2 * (MIN_RECORD_BYTES - 1) or not np.array_equal(stop, following):
        raise Doubt


def _offsets(delta: Ints, heads: Ints, counts: Ints, lasts: Ints) -> Ints:
    """Offsets, which have to rise within a batch, and to stay within it."""
    rises = delta[1:] > delta[:-1]
    rises[lasts[:-1]] = True
    if (delta & 1).any() or not rises.all() or (delta[lasts] >> 1 > heads[:, 3]).any():
        raise Doubt
    return np.repeat(heads[:, 0], counts) + (delta >> 1)


def _field(data: Bytes, at: Ints) -> tuple[Ints, Ints, Ints]:
    """Lengths of keys or values (-1: null), where they begin, and what comes after them."""
    number, begin = read_unsigned(data, at, MOST_32)
    null = number == _NULL
    if ((number & 1).astype(bool) & ~null).any():
        raise Doubt
    length = number >> 1
    # A length beyond the buffer shows in the place after it: it is out of bounds, or not where the record ends.
    after = begin + length
    length[null] = -1
    return length, begin, after


def _check_tails(data: Bytes, at: Ints, stop: Ints) -> list[pa.Array]:
    """Headers that nobody wants are not looked at, but there has to be a count of them, and nothing after a 0."""
    count = data[at]
    if (at >= stop).any() or (at[count == 0] + 1 != stop[count == 0]).any():
        raise Doubt
    return []


def _gather(data: Buffer, length: Ints, begin: Ints) -> pa.Array:
    """The bytes at these places as one column. In C++: an array of value, gap, value, gap, ..., of which every other one."""
    null = length < 0
    nulls = int(np.count_nonzero(null))
    if nulls == length.size:
        return pa.nulls(length.size, pa.binary())
    edges = np.empty(2 * length.size, np.int32)
    edges[::2] = begin
    edges[1::2] = begin + np.maximum(length, 0)
    both = pa.Array.from_buffers(pa.binary(), edges.size - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)], null_count=0)
    index: npt.NDArray[np.int32] = np.arange(0, edges.size, 2, dtype=np.int32)
    return pc.take(both, pa.array(index, mask=null if nulls else None), boundscheck=False)


def _constant(text: str, count: int) -> pa.Array:
    encoded = text.encode()
    offsets = (
        np.arange(0, (count + 1) * len(encoded), max(1, len(encoded)), dtype=np.int32)
        if encoded
        else np.zeros(count + 1, np.int32)
    )
    return pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(encoded * count)], null_count=0
    )


def _add(base: Ints, delta: Ints) -> Ints:
    """The sums. One that could leave 64 bits becomes what fits no timestamp, as the others of its kind."""
    wild = (abs(base // 2) > _HALF) | (abs(delta // 2) > _HALF)
    return np.where(wild, _BEYOND, base + delta) if wild.any() else base + delta


def _times(times: Ints, heads: Ints) -> pa.Array:
    """Microseconds. A time that does not fit them is null: there is no such moment in Spark."""
    outside = (times > _LATEST_MS) | (times < -_LATEST_MS)
    return pa.array(times * 1000, mask=outside if outside.any() else None).view(_TIME)


def _within(rows: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
    """The rows with offsets in [start, end), without a copy."""
    offsets = rows.column("offset").to_numpy()
    first, last = np.searchsorted(offsets, [start, end])
    return rows.slice(int(first), int(last - first))
