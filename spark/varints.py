"""Kafka's zigzag varints, many at a time: read at an array of places, or written into rows of bytes.

Not here: what the numbers mean. A place outside of the buffer raises IndexError, which readers take for doubt.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

MOST_32: Final = 5
MOST_64: Final = 10
"""The most bytes that a number of 32 or 64 bits may take."""


class Doubt(Exception):
    """Something is wrong with some record. Whoever reads records one by one says what, and where."""


def read_unsigned(data: Bytes, at: Ints, most: int) -> tuple[Ints, Ints]:
    """The numbers that begin at these places, the sign still in the lowest bit, and where the next things begin.

    Ten bytes fill all 64 bits, so a number of `MOST_64` bytes may look negative: see `signed`.
    """
    byte = data[at]
    after = at + 1
    value = byte.astype(np.int64)
    more = np.flatnonzero(byte > 0x7F)
    if not more.size:
        return value, after
    value &= 0x7F
    whole = more.size == at.size
    for place in range(1, most):
        # Usually all of them go on, or few: picking is dear.
        byte = data[after] if whole else data[after[more]]
        if place == MOST_64 - 1 and byte.max() > 1:
            break
        part = (byte & 0x7F).astype(np.int64) << 7 * place
        if whole:
            value |= part
            after += 1
        else:
            value[more] |= part
            after[more] += 1
        left = np.flatnonzero(byte > 0x7F)
        if not left.size:
            return value, after
        if left.size < byte.size:
            more = left if whole else more[left]
            whole = False
    raise Doubt


def signed(value: Ints) -> Ints:
    """The numbers themselves, the sign taken out of the lowest bit."""
    high: Ints = (value.view(np.uint64) >> np.uint64(1)).view(np.int64)
    return high ^ -(value & 1)


def write_varints(values: Ints) -> tuple[Bytes, Ints]:
    """One row of bytes for each number, as wide as the longest needs, and how many bytes of each row count."""
    left = ((values << 1) ^ (values >> 63)).view(np.uint64)
    width = 1
    while width < MOST_64 and (left >> np.uint64(7 * width)).any():
        width += 1
    rows = np.empty((values.size, width), np.uint8)
    lengths = np.ones(values.size, np.int64)
    for place in range(width):
        byte = (left & np.uint64(0x7F)).astype(np.uint8)
        left = left >> np.uint64(7)
        more = left != 0
        lengths += more
        rows[:, place] = byte | (more.astype(np.uint8) << 7)
    return rows, lengths
