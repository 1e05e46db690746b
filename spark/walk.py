"""Where records begin: the one thing that has to be found record by record, because each says where the next one is.

Not here: what is in a record (`columns`). What is found is only as good as the lengths; `columns` checks that they add up.
"""

from __future__ import annotations

from array import array
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from quorate.client.batches import Buffer
from quorate.spark.varints import MOST_32, Bytes, Doubt

_LOOK: Final = 8
"""So many records of one size in a row promise more of them."""
_FEW: Final = 64
"""Fewer records than this are walked faster than they are compared."""


def find_starts(data: Buffer, bytes_: Bytes, at: int, end: int, count: int, starts: array[int]) -> None:
    """Append where `count` records begin, the first at `at`. Raises Doubt, or IndexError, if they cannot fit.

    `data` and `bytes_` are the same bytes: Python indexes the one faster, numpy the other.
    """
    append = starts.append
    left, wait = count, 0
    while left:
        if wait <= 0 and left >= _FEW:
            run = _run(data, bytes_, at, end, left)
            if run > 1:
                size = _size(data, at)
                starts.frombytes(np.arange(at, at + run * size, size, dtype=np.int64).tobytes())
                at += run * size
                left -= run
            # Sizes that change all the time are looked at ever more rarely.
            wait = 0 if run >= _FEW else 16 * _FEW
            continue
        turn = min(left, 4 * _FEW)
        left -= turn
        wait -= turn
        for _ in range(turn):
            append(at)
            number = data[at]
            if number < 0x80:
                at += 1 + (number >> 1)
            else:
                second = data[at + 1]
                if second < 0x80:
                    at += 2 + ((number & 0x7F | second << 7) >> 1)
                else:
                    at += _size(data, at)
    if at != end:
        raise Doubt


def _size(data: Buffer, at: int) -> int:
    """Bytes of the record at `at`, its length included."""
    number = shift = 0
    for place in range(at, at + MOST_32):
        byte = data[place]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return place + 1 - at + (number >> 1)
        shift += 7
    raise Doubt


def _run(data: Buffer, bytes_: Bytes, at: int, end: int, most: int) -> int:
    """How many records from here on have the same size: 1 unless it is worth the while."""
    size = _size(data, at)
    most = min(most, (end - at) // size)
    if most < _FEW:
        return 1
    width = 1
    while data[at + width - 1] > 0x7F:
        width += 1
    prefix = bytes(data[at : at + width])
    for place in range(at + size, at + _LOOK * size, size):
        if data[place : place + width] != prefix:
            return 1
    rows = as_strided(bytes_[at:], (most, width), (size, 1), writeable=False)
    other = np.flatnonzero((rows != rows[0]).any(axis=1) if width > 1 else rows[:, 0] != rows[0, 0])
    return int(other[0]) if other.size else most
