"""Zigzag varints: the known encodings, there and back, and no patience with long or cut ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.consensus.batch.errors import BadBatch, Reason
from quorate.consensus.batch.varint import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    encode_varint,
    read_varint,
    read_varlong,
)

KNOWN = {
    0: "00",
    -1: "01",
    1: "02",
    63: "7e",
    -64: "7f",
    64: "8001",
    -65: "8101",
    8191: "fe7f",
    8192: "808001",
    INT32_MAX: "feffffff0f",
    INT32_MIN: "ffffffff0f",
    INT64_MAX: "feffffffffffffffff01",
    INT64_MIN: "ffffffffffffffffff01",
}


@pytest.mark.parametrize(("value", "encoded"), KNOWN.items())
def test_known_encodings(value: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert encode_varint(value) == data
    assert read_varlong(b"?" + data + b"?", 1, 2 + len(data)) == (value, 1 + len(data))


@given(st.integers(INT32_MIN, INT32_MAX))
def test_32_bits_there_and_back(value: int) -> None:
    data = encode_varint(value)
    assert read_varint(data, 0, len(data)) == read_varlong(data, 0, len(data)) == (value, len(data))


@given(st.integers(INT64_MIN, INT64_MAX))
def test_64_bits_there_and_back(value: int) -> None:
    data = encode_varint(value)
    assert read_varlong(memoryview(data), 0, len(data)) == (value, len(data))


@pytest.mark.parametrize("value", [INT32_MAX + 1, INT32_MIN - 1, INT64_MAX])
def test_too_wide_for_32_bits(value: int) -> None:
    data = encode_varint(value)
    with pytest.raises(BadBatch) as caught:
        read_varint(data, 0, len(data))
    assert caught.value.reason is Reason.VARINT


@pytest.mark.parametrize("data", [b"\x80" * 10 + b"\0", b"\xff" * 100, b"\xff" * 9 + b"\x02"])
def test_too_wide_for_64_bits(data: bytes) -> None:
    with pytest.raises(BadBatch) as caught:
        read_varlong(data, 0, len(data))
    assert caught.value.reason is Reason.VARINT


def test_nothing_beyond_the_end_is_read() -> None:
    data = encode_varint(INT64_MAX)
    for end in range(len(data)):
        with pytest.raises(BadBatch) as caught:
            read_varlong(data, 0, end)
        assert (caught.value.reason, caught.value.at) == (Reason.TRUNCATED, end)


@pytest.mark.parametrize("value", [INT64_MAX + 1, INT64_MIN - 1])
def test_what_cannot_be_written(value: int) -> None:
    with pytest.raises(BadBatch):
        encode_varint(value)
