"""The headers of records as an Arrow column: the first header of all records, then the second of those that have one, ...

Not here: any other field of a record (`columns`).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quorate.client.batches import Buffer
from quorate.spark.varints import MOST_32, Bytes, Doubt, Ints, read_unsigned

HEADER_TYPE: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
HEADERS_TYPE: Final = pa.list_(pa.field("element", HEADER_TYPE))
"""As Kafka's source has it."""

_NULL: Final = 1


def read_headers(data: Buffer, bytes_: Bytes, at: Ints, stop: Ints) -> pa.Array:
    """Each record's headers, null for none. They begin at `at` with their count, and end at `stop`. Raises Doubt."""
    counts, at = read_unsigned(bytes_, at, MOST_32)
    if (counts & 1).any():
        raise Doubt
    counts >>= 1
    # The smallest header has two bytes, so that a huge count is refused before the loop.
    if (counts > (stop - at) // 2).any():
        raise Doubt
    firsts = np.cumsum(counts) - counts
    total = int(counts.sum())
    names = np.empty((total, 2), np.int64)
    values = np.empty((total, 2), np.int64)
    left = np.flatnonzero(counts)
    turn = 0
    while left.size:
        places = firsts[left] + turn
        names[places], at[left] = _field(bytes_, at[left])
        values[places], at[left] = _field(bytes_, at[left])
        turn += 1
        left = left[counts[left] > turn]
    if not np.array_equal(at, stop) or (names[:, 1] < 0).any():
        raise Doubt
    pairs = pa.StructArray.from_arrays(
        [_texts(_pick(data, names)), _pick(data, values)], fields=[HEADER_TYPE.field(0), HEADER_TYPE.field(1)]
    )
    edges = pa.array(np.append(firsts, total).astype(np.int32))
    return pa.ListArray.from_arrays(edges, pairs, type=HEADERS_TYPE, mask=pa.array(counts == 0))


def _field(bytes_: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Begin and length (-1: null) of names or values, and what comes after them."""
    number, begin = read_unsigned(bytes_, at, MOST_32)
    length = number >> 1
    null = number == _NULL
    if ((number & 1).astype(bool) & ~null).any():
        raise Doubt
    after = begin + length
    return np.stack((begin, np.where(null, -1, length)), axis=1), after


def _pick(data: Buffer, places: Ints) -> pa.Array:
    """The bytes at these places. They lie apart and in order, as the records do."""
    if not len(places):
        return pa.array([], pa.binary())
    edges = np.empty(2 * len(places), np.int32)
    edges[::2] = places[:, 0]
    edges[1::2] = places[:, 0] + np.maximum(places[:, 1], 0)
    both = pa.Array.from_buffers(pa.binary(), edges.size - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)], null_count=0)
    index = pa.array(np.arange(0, edges.size, 2, dtype=np.int32), mask=places[:, 1] < 0)
    return pc.take(both, index, boundscheck=False)


def _texts(names: pa.Array) -> pa.Array:
    """Names as text. They should be UTF-8; what is not becomes the replacement character, as in Java."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.as_py().decode(errors="replace") for name in names], pa.string())
