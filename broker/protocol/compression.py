"""The five ways in which the records of a batch may be packed, each through cramjam's Rust and C codecs.

Inflating is bounded: the output goes into a buffer that grows up to the caller's limit and no further, so a small batch that
would inflate to gigabytes is refused for the price of the limit. Whatever a codec finds wrong becomes BadBatch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Final

import cramjam

from quorate.consensus.batch.errors import BadBatch, Reason
from quorate.consensus.core.types import Buffer


class Compression(IntEnum):
    """The code in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


MAX_INFLATED_BYTES: Final = 64 << 20
"""How far a batch may inflate unless the caller says otherwise."""

_SMALLEST_BUFFER: Final = 4096
_GROWTH: Final = 4
# What cramjam says when the output does not fit. A test pins each of them: without them a batch that inflates well would
# be called corrupt, and never the other way round.
_NO_ROOM: Final = ("failed to write whole buffer", "Destination buffer is too small")

# Snappy has two forms. librdkafka writes one plain block. Java writes xerial's stream: this head, then blocks of at most
# 32 KiB, each with its length before it. Every client reads both.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEAD: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK: Final = 32 << 10
_BLOCK_LENGTH: Final = struct.Struct(">i")


def deflate(codec: Compression, data: Buffer) -> Buffer:
    """The packed form, as the Java client would write it."""
    if codec is Compression.NONE:
        return data
    if codec is Compression.GZIP:
        return bytes(cramjam.gzip.compress(data))
    if codec is Compression.SNAPPY:
        return _deflate_xerial(data)
    if codec is Compression.LZ4:
        # Java reads frames of independent blocks only.
        packer = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
        packer.compress(data)
        return bytes(packer.finish())
    return bytes(cramjam.zstd.compress(data, level=3))


def inflate(code: int, data: Buffer, limit: int = MAX_INFLATED_BYTES) -> bytes:
    """The records as they were before they were packed. Raises BadBatch: unknown code, corrupt, or beyond `limit`."""
    if code == Compression.NONE:
        if len(data) > limit:
            raise _too_large(limit)
        return bytes(data)
    try:
        if code == Compression.GZIP:
            return _inflate_into(cramjam.gzip.decompress_into, data, limit)
        if code == Compression.SNAPPY:
            return _inflate_snappy(memoryview(data), limit)
        if code == Compression.LZ4:
            return _inflate_into(cramjam.lz4.decompress_into, data, limit)
        if code == Compression.ZSTD:
            return _inflate_into(cramjam.zstd.decompress_into, data, limit)
    except cramjam.DecompressionError as error:
        raise BadBatch(Reason.CORRUPT_COMPRESSION, 0, f"{Compression(code).name.lower()}: {error}") from error
    raise BadBatch(Reason.COMPRESSION, 0, f"compression {code} is not known")


def _inflate_into(codec: Callable[[Buffer, bytearray], int], data: Buffer, limit: int) -> bytes:
    room = min(limit, max(_SMALLEST_BUFFER, _GROWTH * len(data)))
    while True:
        out = bytearray(room)
        try:
            return bytes(memoryview(out)[: codec(data, out)])
        except cramjam.DecompressionError as error:
            if str(error) not in _NO_ROOM:
                raise
            if room >= limit:
                raise _too_large(limit) from error
        room = min(limit, room * _GROWTH)


def _inflate_snappy(data: memoryview, limit: int) -> bytes:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _inflate_block(data, limit)
    blocks = []
    at, end = len(_XERIAL_HEAD), len(data)
    if end < at:
        raise BadBatch(Reason.CORRUPT_COMPRESSION, end, "a snappy stream's head is cut off")
    while at < end:
        if end - at < _BLOCK_LENGTH.size:
            raise BadBatch(Reason.CORRUPT_COMPRESSION, at, "a snappy block's length is cut off")
        (length,) = _BLOCK_LENGTH.unpack_from(data, at)
        at += _BLOCK_LENGTH.size
        if not 0 < length <= end - at:
            raise BadBatch(Reason.CORRUPT_COMPRESSION, at, f"a snappy block of {length} bytes, and {end - at} are left")
        block = _inflate_block(data[at : at + length], limit)
        blocks.append(block)
        limit -= len(block)
        at += length
    return b"".join(blocks)


def _inflate_block(block: memoryview, limit: int) -> bytes:
    # The block begins with its inflated length: looked at before a byte is allocated.
    length = cramjam.snappy.decompress_raw_len(block)
    if length > limit:
        raise _too_large(limit)
    return bytes(cramjam.snappy.decompress_raw(block))


def _deflate_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    out = bytearray(_XERIAL_HEAD)
    for at in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK]))
        out += _BLOCK_LENGTH.pack(len(block))
        out += block
    return bytes(out)


def _too_large(limit: int) -> BadBatch:
    return BadBatch(Reason.TOO_LARGE, 0, f"the records inflate to more than {limit} bytes")
