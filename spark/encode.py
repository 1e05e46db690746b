"""Arrow columns into batches, all records at once: the reverse of `columns`.

Numbers become rows of bytes in numpy, and Arrow joins them with keys and values in C++: the data of the joined column are
the records. Not here: who gets a batch (`routing`), and sending it (`sink`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quorate.client.batches import (
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    NO_EPOCH,
    NO_PRODUCER_STATE,
    Compression,
    Header,
    Producer,
    deflate,
    pack_header,
    seal,
)
from quorate.spark.varints import Ints, write_varints

_LARGEST_RECORD_EXTRA: Final = 26
"""Bytes of a record beside key, value and headers, at the most: length, attributes, time, offset, two lengths, count."""
_NOTHING: Final = pa.scalar(b"", pa.binary())


def encode(
    key: pa.Array,
    value: pa.Array,
    headers: pa.Array | None,
    timestamp: int,
    *,
    compression: Compression = Compression.NONE,
    producer: Producer = NO_PRODUCER_STATE,
) -> bytearray:
    """One batch of all these rows, sealed. Offsets count from 0; the broker gives the batch its place, and its time."""
    count = len(value)
    key_bytes, key_sizes = _blob(key)
    value_bytes, value_sizes = _blob(value)
    delta_rows, delta_sizes = write_varints(np.arange(count, dtype=np.int64))
    tails, tail_sizes = _tails(headers, count)
    content = np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0) + tail_sizes
    key_rows, key_lengths = write_varints(key_sizes)
    value_rows, value_lengths = write_varints(value_sizes)
    # Attributes and the time after the first one's take a byte each, and both are 0.
    inner = 2 + delta_sizes + key_lengths + value_lengths + content
    size_rows, size_lengths = write_varints(inner)
    zeros = np.zeros((count, 2), np.uint8), np.full(count, 2, np.int64)
    front = _rows((size_rows, size_lengths), zeros, (delta_rows, delta_sizes), (key_rows, key_lengths))
    middle = _rows((value_rows, value_lengths))
    records = pc.binary_join_element_wise(front, key_bytes, middle, value_bytes, tails, _NOTHING)
    plain = _data(records)
    body = deflate(compression, bytes(plain)) if compression else plain  # a codec that wants bytes would copy as well
    header = Header(
        base=0,
        length=HEADER_BYTES - LENGTH_END + len(body),
        leader_epoch=NO_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=compression,
        last_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=producer.sequence,
        records=count,
    )
    batch = bytearray(pack_header(header))
    batch += body
    seal(batch)
    return batch


def cut(key: pa.Array, value: pa.Array, headers: pa.Array | None, most: int) -> Iterator[slice]:
    """Which rows go together, so that no batch has more than `most` bytes before compression; a larger row goes alone."""
    sizes = _sizes(key) + _sizes(value) + _LARGEST_RECORD_EXTRA
    if headers is not None:
        sizes += _header_sizes(headers)
    room = most - HEADER_BYTES
    ends = np.cumsum(sizes)
    first, before = 0, 0
    while first < len(ends):
        end = max(first + 1, int(np.searchsorted(ends, before + room, side="right")))
        yield slice(first, end)
        first, before = end, int(ends[end - 1])


def _sizes(blobs: pa.Array) -> Ints:
    lengths: Ints = pc.fill_null(pc.binary_length(blobs), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def _header_sizes(headers: pa.Array) -> Ints:
    """An upper bound for each row."""
    firsts, counts, pairs = _pairs(headers)
    if not len(pairs):
        return np.zeros(len(headers), np.int64)
    each = _sizes(pairs.field(0)) + _sizes(pairs.field(1)) + 10
    sums = np.concatenate(([0], np.cumsum(each)))
    bounds: Ints = sums[firsts + counts] - sums[firsts] + 5
    return bounds


def _blob(blobs: pa.Array) -> tuple[pa.Array, Ints]:
    """The bytes, and their sizes; a null has none and the size -1."""
    if blobs.type == pa.string():
        blobs = blobs.cast(pa.binary())
    sizes: Ints = pc.fill_null(pc.binary_length(blobs), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return (pc.fill_null(blobs, _NOTHING) if blobs.null_count else blobs), sizes


def _rows(*parts: tuple[npt.NDArray[np.uint8], Ints]) -> pa.Array:
    """One column of bytes: in each row the first so many bytes of each part's row."""
    rows = np.concatenate([rows for rows, _ in parts], axis=1)
    keep = np.concatenate([np.arange(rows.shape[1]) < sizes[:, None] for rows, sizes in parts], axis=1)
    edges = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(sum(sizes for _, sizes in parts), out=edges[1:])
    data = pa.py_buffer(np.ascontiguousarray(rows[keep]))
    return pa.Array.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(edges), data], null_count=0)


def _data(blobs: pa.Array) -> memoryview:
    """All bytes of a column without nulls, one after the other."""
    _, edges, data = blobs.buffers()
    if data is None:
        return memoryview(b"")
    places = np.frombuffer(edges, np.int32)
    return memoryview(data)[places[blobs.offset] : places[blobs.offset + len(blobs)]]


def _tails(headers: pa.Array | None, count: int) -> tuple[pa.Array, Ints]:
    """What comes after the value: how many headers there are, and they."""
    if headers is None or headers.null_count == len(headers):
        ones = np.ones(count, np.int64)
        return _rows((np.zeros((count, 1), np.uint8), ones)), ones
    firsts, counts, pairs = _pairs(headers)
    count_rows, count_sizes = write_varints(counts)
    numbers = _rows((count_rows, count_sizes))
    names, name_sizes = _blob(pairs.field(0))
    values, value_sizes = _blob(pairs.field(1))
    # A header without a name cannot be written: as Kafka's sink, it is an empty one.
    name_part = _rows(write_varints(np.maximum(name_sizes, 0)))
    joined = pc.binary_join_element_wise(name_part, names, _rows(write_varints(value_sizes)), values, _NOTHING)
    # Headers of one record stand one after the other, so a record's are one piece of all of them.
    edges = np.frombuffer(joined.buffers()[1], np.int32)[joined.offset :]
    begins, ends = edges[firsts], edges[firsts + counts]
    places = np.empty(2 * count, np.int32)
    places[::2], places[1::2] = begins, ends
    pieces = pa.Array.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(places), joined.buffers()[2] or pa.py_buffer(b"")], null_count=0
    )
    own = pc.take(pieces, pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)), boundscheck=False)
    tails = pc.binary_join_element_wise(numbers, own, _NOTHING)
    return tails, count_sizes + (ends - begins).astype(np.int64)


def _pairs(headers: pa.Array) -> tuple[Ints, Ints, pa.StructArray]:
    """Where each row's headers begin among all of them, how many there are (null: 0), and all of them."""
    counts: Ints = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    pairs = headers.flatten()  # without those behind nulls
    return np.cumsum(counts) - counts, counts, pairs
