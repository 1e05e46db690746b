"""Inflating is bounded, whatever the data promises, and every complaint of a codec becomes BadBatch."""

import random
import time
import tracemalloc
import zlib

import cramjam
import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.protocol.compression import Compression, deflate, inflate
from quorate.consensus.batch.errors import BadBatch, Reason

PACKED = [codec for codec in Compression if codec]
MIB = 1 << 20
PLAIN = b"".join(b"record number %d, " % i for i in range(20_000))


def bomb(codec: Compression) -> bytes:
    """256 MiB of zeros. Snappy's blocks say their length, so that one is made by hand."""
    if codec is Compression.SNAPPY:
        return b"\x80\x80\x80\x80\x01" + b"\x00\x00" + b"\xfe\x01\x00" * 100
    return bytes(deflate(codec, bytes(256 * MIB)))


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("size", [0, 1, 100, 32 << 10, (32 << 10) + 1, 3 * MIB])
def test_there_and_back(codec: Compression, size: int) -> None:
    data = random.Random(size).randbytes(min(size, 5000)) * (size // 5000 + 1)
    data = data[:size]
    assert inflate(codec, deflate(codec, data)) == data
    assert inflate(codec, memoryview(deflate(codec, data)), max(1, size)) == data


@given(st.sampled_from(PACKED), st.binary(max_size=3000), st.integers(1, 50))
def test_any_bytes_there_and_back(codec: Compression, data: bytes, times: int) -> None:
    assert inflate(codec, deflate(codec, data * times)) == data * times


@pytest.mark.parametrize("codec", Compression)
def test_the_limit_is_exact(codec: Compression) -> None:
    packed = deflate(codec, PLAIN)
    assert inflate(codec, packed, len(PLAIN)) == PLAIN
    for limit in (len(PLAIN) - 1, len(PLAIN) // 2, 1, 0):
        with pytest.raises(BadBatch) as caught:
            inflate(codec, packed, limit)
        # This also pins the words that cramjam uses when its output does not fit.
        assert caught.value.reason is Reason.TOO_LARGE


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_costs_no_more_than_the_limit(codec: Compression) -> None:
    data = bomb(codec)
    tracemalloc.start()
    try:
        begin = time.monotonic()
        with pytest.raises(BadBatch) as caught:
            inflate(codec, data, MIB)
        elapsed_s, peak = time.monotonic() - begin, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.reason is Reason.TOO_LARGE
    assert elapsed_s < 10
    assert peak < 4 * MIB


def test_many_small_blocks_add_up_to_the_limit() -> None:
    """Each xerial block is within the limit; the sum is not."""
    packed = deflate(Compression.SNAPPY, bytes(4 * MIB))
    with pytest.raises(BadBatch) as caught:
        inflate(Compression.SNAPPY, packed, 2 * MIB)
    assert caught.value.reason is Reason.TOO_LARGE


@pytest.mark.parametrize("codec", PACKED)
def test_cut_off_anywhere(codec: Compression) -> None:
    packed = bytes(deflate(codec, PLAIN[:3000]))
    whole = {16} if codec is Compression.SNAPPY else set()  # xerial's head alone is a stream of no blocks
    for size in set(range(len(packed))) - whole:
        with pytest.raises(BadBatch) as caught:
            inflate(codec, packed[:size], MIB)
        assert caught.value.reason is Reason.CORRUPT_COMPRESSION


@given(st.sampled_from(PACKED), st.binary(max_size=300))
def test_noise(codec: Compression, noise: bytes) -> None:
    heads = {
        Compression.GZIP: b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff",
        Compression.SNAPPY: b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01",
        Compression.LZ4: b"\x04\x22\x4d\x18",
        Compression.ZSTD: b"\x28\xb5\x2f\xfd",
    }
    for data in (noise, heads[codec] + noise):
        try:
            assert len(inflate(codec, data, MIB)) <= MIB
        except BadBatch:
            continue


@pytest.mark.parametrize("code", [-1, 5, 7, 8])
def test_an_unknown_code(code: int) -> None:
    with pytest.raises(BadBatch) as caught:
        inflate(code, b"x")
    assert caught.value.reason is Reason.COMPRESSION


def test_other_libraries_read_ours() -> None:
    assert zlib.decompress(deflate(Compression.GZIP, PLAIN), wbits=31) == PLAIN
    assert lz4.frame.decompress(bytes(deflate(Compression.LZ4, PLAIN))) == PLAIN
    assert zstandard.ZstdDecompressor().decompress(bytes(deflate(Compression.ZSTD, PLAIN)), len(PLAIN)) == PLAIN


def test_java_can_read_our_lz4() -> None:
    """Its reader takes independent blocks only, and no dictionary: bits 5 and 0 of the frame's flags."""
    flags = bytes(deflate(Compression.LZ4, PLAIN))[4]
    assert flags >> 6 == 1
    assert flags & 0x20
    assert not flags & 0x01


def test_we_read_what_other_libraries_write() -> None:
    raw = bytes(cramjam.snappy.compress_raw(PLAIN))
    assert inflate(Compression.SNAPPY, raw) == PLAIN
    assert inflate(Compression.SNAPPY, snappy.compress(PLAIN)) == PLAIN
    for linked in (False, True):
        for sized in (False, True):
            frame = lz4.frame.compress(PLAIN, block_linked=linked, store_size=sized, content_checksum=True)
            assert inflate(Compression.LZ4, frame) == PLAIN
    stream = zstandard.ZstdCompressor(write_content_size=False).compress(PLAIN)
    assert inflate(Compression.ZSTD, stream) == PLAIN
    two = zlib.compress(PLAIN[:1000], wbits=31) + zlib.compress(PLAIN[1000:], wbits=31)
    assert inflate(Compression.GZIP, two) == PLAIN
