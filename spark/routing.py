"""Which partition a row goes to: the one that it names, else by its key as Kafka's Java client does it, else any.

Rows with one key stay in one partition, whether Spark or a Kafka client writes them. Not here: encoding and sending.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from quorate.spark.varints import Ints

_SEED: Final = 0x9747B28C
_M: Final = np.uint32(0x5BD1E995)
_POSITIVE: Final = np.uint32(0x7FFFFFFF)

Hashes = npt.NDArray[np.uint32]


def murmur2(keys: pa.Array) -> Hashes:
    """The hash of each key (binary, no nulls) that Kafka's Java client uses."""
    _, offsets, data = keys.buffers()
    edges = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    lengths = np.diff(edges)
    # Words are read beyond the end of short tails, and masked.
    padded = np.concatenate((np.frombuffer(data or b"", np.uint8), np.zeros(4, np.uint8)))
    hashes = np.uint32(_SEED) ^ lengths.astype(np.uint32)
    begin = edges[:-1]
    turn, active = 0, np.flatnonzero(lengths >= 4)
    while active.size:
        word = _words(padded, begin[active] + 4 * turn) * _M
        word ^= word >> np.uint32(24)
        hashes[active] = hashes[active] * _M ^ word * _M
        turn += 1
        active = active[lengths[active] >= 4 * (turn + 1)]
    tail = lengths % 4
    left = np.flatnonzero(tail)
    if left.size:
        mask = (np.uint32(1) << (8 * tail[left]).astype(np.uint32)) - np.uint32(1)
        hashes[left] = (hashes[left] ^ _words(padded, begin[left] + lengths[left] - tail[left]) & mask) * _M
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    return hashes


def _words(data: npt.NDArray[np.uint8], at: Ints) -> Hashes:
    """Four bytes at each place, the lowest first."""
    words = data[at].astype(np.uint32)
    for place in range(1, 4):
        words |= data[at + place].astype(np.uint32) << np.uint32(8 * place)
    return words


def by_key(keys: pa.Array, partitions: int, otherwise: int) -> Ints:
    """The partition of each key; `otherwise` for null."""
    there = keys.is_valid().to_numpy(zero_copy_only=False)
    chosen = np.full(len(keys), otherwise, np.int64)
    if there.all():
        chosen[:] = (murmur2(keys) & _POSITIVE) % np.uint32(partitions)
    elif there.any():
        chosen[there] = (murmur2(pc.drop_null(keys)) & _POSITIVE) % np.uint32(partitions)
    return chosen
