"""Records that are broken behind a right length and checksum: BadBatch, whatever it is, and nothing else."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.broker.protocol.compression import Compression
from quorate.broker.protocol.records import Record, read_records
from quorate.consensus.batch.errors import BadBatch, Reason
from quorate.consensus.batch.header import HEADER_BYTES, seal
from quorate.consensus.batch.varint import encode_varint
from quorate.consensus.core.types import Buffer
from tests.broker.protocol.cases import CLIENTS, CODECS, SMALL, build, fixture
from tests.consensus.batch.samples import batch


def refusal(data: Buffer, max_inflated: int = 1 << 20) -> Reason:
    with pytest.raises(BadBatch) as caught:
        list(read_records(data, max_inflated))
    return caught.value.reason


def refit(data: bytearray) -> bytearray:
    """Make length and checksum fit what is there now, so that only the records are wrong."""
    struct.pack_into(">i", data, 8, len(data) - 12)
    seal(data)
    return data


def record(*fields: bytes, length: int | None = None) -> bytes:
    """One record, its length in front, right or not."""
    body = b"".join(fields)
    return encode_varint(len(body) if length is None else length) + body


ATTRIBUTES, ZERO, NULL = b"\0", encode_varint(0), encode_varint(-1)
START = (ATTRIBUTES, ZERO, ZERO)
GOOD = record(*START, NULL, NULL, ZERO)


def test_the_good_one_is_good() -> None:
    assert list(read_records(batch(GOOD))) == [Record(0, 1000, None, None)]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("codec", CODECS)
def test_cut_off_at_every_byte(client: str, codec: str) -> None:
    data = fixture(f"{client}-{codec}")
    step = 1 if codec != "none" else 7  # a step that visits every kind of place, since these are longer
    for size in range(0, len(data), step):
        refusal(data[:size])
    for size in range(HEADER_BYTES, len(data), 5 * step):
        refusal(refit(bytearray(data[:size])))


def test_a_small_one_cut_off_at_every_byte_behind_a_right_checksum() -> None:
    data = build(SMALL)
    for size in range(HEADER_BYTES, len(data)):
        assert refusal(refit(data[:size])) in (Reason.COUNT, Reason.RECORD, Reason.TRUNCATED)


HUGE = (-2, -(1 << 31), 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 63) - 1, (1 << 63) - 60, -(1 << 63))


@pytest.mark.parametrize("length", HUGE)
def test_overflowing_lengths(length: int) -> None:
    bad = encode_varint(length)
    for body in (
        bad + GOOD[1:],
        record(*START, bad, NULL, ZERO),
        record(*START, NULL, bad, ZERO),
        record(*START, NULL, NULL, bad),
        record(*START, NULL, NULL, encode_varint(1), bad),
        record(*START, NULL, NULL, encode_varint(1), encode_varint(1), b"n", bad),
        record(ATTRIBUTES, ZERO, bad, NULL, NULL, ZERO),
    ):
        assert refusal(batch(body)) in (Reason.RECORD, Reason.VARINT, Reason.OFFSET)


@pytest.mark.parametrize("endless", [b"\x80" * 3, b"\x80" * 5, b"\xff" * 10, b"\x80" * 300, b"\xff" * 9 + b"\x7f"])
def test_absurd_varints(endless: bytes) -> None:
    for body in (
        endless,
        endless + GOOD,
        record(ATTRIBUTES, endless, ZERO, NULL, NULL, ZERO),
        record(ATTRIBUTES, ZERO, endless, NULL, NULL, ZERO),
        record(*START, endless, NULL, ZERO),
        record(*START, NULL, NULL, endless),
    ):
        refusal(batch(body))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", Reason.COUNT),
        (GOOD[:-1], Reason.COUNT),
        (GOOD + b"x", Reason.TRAILING),
        (GOOD + GOOD, Reason.TRAILING),
        (record(*START, NULL, NULL, ZERO, b"x"), Reason.RECORD),
        (record(*START, NULL, NULL, ZERO, length=5) + b"xx", Reason.RECORD),
        (record(*START, NULL, NULL, ZERO, length=7) + b"xx", Reason.RECORD),
        (record(*START, NULL, NULL, encode_varint(1), NULL, NULL), Reason.RECORD),
        (record(*START, NULL, NULL, encode_varint(2), ZERO, ZERO), Reason.RECORD),
        (record(ATTRIBUTES, ZERO, encode_varint(1), NULL, NULL, ZERO), Reason.OFFSET),
        (record(ATTRIBUTES, ZERO, NULL, NULL, NULL, ZERO), Reason.OFFSET),
        (record(b"\x80", ZERO, ZERO, NULL, NULL, ZERO), Reason.RECORD),
        (record(*START, encode_varint(64), b"k" * 64, NULL, length=6) + ZERO, Reason.RECORD),
    ],
)
def test_records_that_do_not_add_up(body: bytes, reason: Reason) -> None:
    assert refusal(batch(body)) is reason


@pytest.mark.parametrize("count", [-(1 << 31), -1, 1, 3, (1 << 31) - 1])
def test_a_wrong_count(count: int) -> None:
    for codec in Compression:
        data = build(SMALL, codec)
        struct.pack_into(">i", data, 57, count)
        seal(data)
        refusal(data)


def test_offsets_have_to_rise() -> None:
    second = record(ATTRIBUTES, ZERO, ZERO, NULL, NULL, ZERO)
    assert refusal(batch(GOOD + second, count=2, last_delta=1)) is Reason.OFFSET


def test_a_batch_of_no_records_is_empty() -> None:
    assert list(read_records(batch(b"", count=0))) == []


@pytest.mark.parametrize("code", [5, 6, 7])
def test_an_unknown_compression(code: int) -> None:
    assert refusal(batch(GOOD, attributes=code)) is Reason.COMPRESSION


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_noise_instead_of_packed_records(codec: Compression) -> None:
    assert refusal(batch(b"", attributes=codec)) is Reason.CORRUPT_COMPRESSION
    assert refusal(batch(b"noise, noise, noise", attributes=codec)) in (Reason.CORRUPT_COMPRESSION, Reason.TOO_LARGE)


@pytest.mark.parametrize("codec", Compression)
@settings(max_examples=200)
@given(data=st.data())
def test_any_damage_behind_a_right_checksum(codec: Compression, data: st.DataObject) -> None:
    damaged = build(SMALL, codec)
    places = st.tuples(st.integers(21, len(damaged) - 1), st.integers(0, 255))
    for at, byte in data.draw(st.lists(places, min_size=1, max_size=5)):
        damaged[at] = byte
    tail = data.draw(st.binary(max_size=8))
    damaged += tail
    damaged = refit(damaged[: data.draw(st.integers(HEADER_BYTES, len(damaged)))])
    try:
        records = list(read_records(damaged, 1 << 20))
    except BadBatch:
        return
    assert [record.offset for record in records] == sorted({record.offset for record in records})


@given(st.binary(max_size=120), st.integers(0, 40))
def test_any_body_at_all(body: bytes, count: int) -> None:
    try:
        records = list(read_records(batch(body, count=count, last_delta=max(0, count - 1))))
    except BadBatch:
        return
    assert len(records) == count
