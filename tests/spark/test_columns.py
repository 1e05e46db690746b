"""Whole columns say what the reader of single records says, of good batches and of bad ones."""

import contextlib
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from quorate.broker.protocol.builder import BatchBuilder
from quorate.broker.protocol.compression import Compression
from quorate.broker.protocol.records import Record, read_records, split_batches
from quorate.consensus.batch.control import encode_control
from quorate.consensus.batch.errors import BadBatch, Reason
from quorate.consensus.batch.header import CONTROL, HEADER_BYTES, read_header, seal, stamp, stamp_append_time
from quorate.consensus.core import Batch, BatchKind, Offset, Term
from quorate.spark.columns import APPEND_TIME, CREATE_TIME, SCHEMA, SCHEMA_WITH_HEADERS, Decoder, Malformed
from quorate.spark.schema import spark_schema
from tests.broker.protocol.cases import CLIENTS, CODECS, RECORDS, SMALL, build, fixture
from tests.broker.protocol.test_malformed import GOOD, record, refit
from tests.consensus.batch.samples import batch

FAR = 1 << 62
Row = tuple[Any, ...]
_LATEST_MS = ((1 << 63) - 1) // 1000


def decoded(data: bytes | bytearray, start: int = 0, end: int = FAR, *, headers: bool = True) -> list[Row]:
    """Rows as Python has them: key, value, offset, microseconds, type of the time, headers."""
    rows: list[Row] = []
    for part in Decoder("größe", 7, headers=headers).decode(data, start, end):
        part.validate(full=True)
        assert part.num_rows
        assert set(part.column("topic").to_pylist()) == {"größe"}
        assert set(part.column("partition").to_pylist()) == {7}
        columns = [part.column("key"), part.column("value"), part.column("offset")]
        columns += [part.column("timestamp").view(pa.int64()), part.column("timestampType")]
        found = [column.to_pylist() for column in columns]
        found.append(part.column("headers").to_pylist() if headers else [None] * part.num_rows)
        rows += zip(*found, strict=True)
    return rows


def expected(data: bytes | bytearray, start: int = 0, end: int = FAR, *, headers: bool = True) -> list[Row]:
    """The same by way of the reader of single records. Raises BadBatch."""
    rows: list[Row] = []
    for one in split_batches(data):
        header = read_header(one)
        kind = APPEND_TIME if header.log_append_time else CREATE_TIME
        for found in list(read_records(one)):
            if header.control or not start <= found.offset < end:
                continue
            stamp_us = 1000 * found.timestamp if abs(found.timestamp) <= _LATEST_MS else None
            pairs = [{"key": _shown(name), "value": value} for name, value in found.headers]
            rows.append((found.key, found.value, found.offset, stamp_us, kind, (pairs or None) if headers else None))
    return rows


def _shown(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def both(data: bytes | bytearray, start: int = 0, end: int = FAR) -> list[Row]:
    """The rows, with headers and without, which are as they should be."""
    rows = expected(data, start, end)
    assert decoded(data, start, end) == rows
    assert decoded(data, start, end, headers=False) == [(*row[:-1], None) for row in rows]
    return rows


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("codec", CODECS)
def test_what_real_producers_wrote(client: str, codec: str) -> None:
    assert len(both(fixture(f"{client}-{codec}"))) == len(RECORDS)


@pytest.mark.parametrize("codec", Compression)
def test_every_compression_and_both_times(codec: Compression) -> None:
    first, second = build(RECORDS, codec), build(RECORDS, codec)
    stamp(first, 100, 1)
    stamp_append_time(second, 1_700_000_000_777)
    stamp(second, 1000, 2)
    rows = both(first + second)
    assert {row[4] for row in rows} == {CREATE_TIME, APPEND_TIME}
    assert {row[3] for row in rows if row[4] == APPEND_TIME} == {1_700_000_000_777_000}


def test_control_batches_are_no_rows() -> None:
    control = encode_control(Batch(Offset(2), Offset(2), Term(1), BatchKind.NOOP, b""))
    data = build(SMALL) + control
    assert len(both(data)) == 2
    assert both(bytes(control)) == []
    marked = build(SMALL)
    marked[22] |= CONTROL
    seal(marked)
    assert both(marked) == []


def test_only_the_wanted_offsets() -> None:
    batches = [build(RECORDS) for _ in range(3)]
    for number, one in enumerate(batches):
        stamp(one, 100 * number, 1)
    data = batches[0] + batches[1] + batches[2]
    assert [row[2] for row in decoded(data, 150, 210)] == list(range(150, 210))
    assert decoded(data, 300, 400) == []
    assert decoded(data, 170, 170) == []


def test_a_broken_batch_is_named() -> None:
    batches = [build(RECORDS) for _ in range(3)]
    for number, one in enumerate(batches):
        stamp(one, 100 * number, 1)
    batches[1][70] ^= 1
    with pytest.raises(Malformed) as caught:
        decoded(batches[0] + batches[1] + batches[2])
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("größe", 7, 100)
    assert caught.value.why.reason is Reason.CRC
    assert "at offset 100 of größe-7" in str(caught.value)


def test_a_cut_tail_is_left_for_the_next_fetch() -> None:
    data = build(SMALL) + build(SMALL)[:-1]
    assert len(both(data)) == 2
    assert both(b"") == []


@pytest.mark.parametrize("sizes", [[100], [40, 41], list(range(200)), [0], [20_000, 1, 1]])
def test_many_records_of_one_size_and_of_many(sizes: list[int]) -> None:
    builder = BatchBuilder()
    for number in range(20_000 if max(sizes) < 300 else 300):
        builder.append(1_700_000_000_000 + number // 3, None, bytes(sizes[number % len(sizes)]))
    assert len(both(builder.build())) == builder.count


def test_a_run_of_one_size_that_ends_in_another() -> None:
    builder = BatchBuilder()
    for number in range(700):
        builder.append(0, b"k", bytes(100 if number != 631 else 99))
    both(builder.build())


def test_times_that_spark_cannot_hold_are_null() -> None:
    rows = [Record(0, 0, b"good", None)]
    rows += [
        Record(1 + i, at, b"far", None) for i, at in enumerate([_LATEST_MS + 1, (1 << 63) - 1, -(1 << 62), -_LATEST_MS])
    ]
    assert [row[3] for row in both(build(rows))] == [0, None, None, None, -1000 * _LATEST_MS]


def test_a_header_name_that_is_no_text() -> None:
    data = build([Record(0, 0, None, None, (("\udcff\udc80x", b"1"),)), *SMALL])
    assert both(data)[0][-1] == [{"key": "\ufffd\ufffdx", "value": b"1"}]


def test_the_schema_is_the_one_that_spark_expects() -> None:
    assert to_arrow_schema(spark_schema(headers=False), timezone="UTC").equals(SCHEMA)
    assert to_arrow_schema(spark_schema(headers=True), timezone="UTC").equals(SCHEMA_WITH_HEADERS)


_blob = st.none() | st.binary(max_size=90)
_name = st.text("ab-é€", max_size=20)
_record = st.tuples(
    st.integers(-1, 253_402_300_799_999), _blob, _blob, st.lists(st.tuples(_name, _blob), max_size=4).map(tuple)
)
_batch = st.tuples(
    st.lists(_record, min_size=1, max_size=12),
    st.sampled_from(Compression),
    st.integers(0, 500),
    st.none() | st.integers(0, 1 << 40),
)


@settings(max_examples=60)
@given(st.lists(_batch, min_size=1, max_size=5), st.data())
def test_any_batches(batches: list[tuple[Any, ...]], data: st.DataObject) -> None:
    buffer, base = bytearray(), 0
    for rows, codec, gap, append_time in batches:
        one = build([Record(offset, *row) for offset, row in enumerate(rows)], codec)
        if append_time is not None:
            stamp_append_time(one, append_time)
        stamp(one, base + gap, 1)
        base += gap + len(rows)
        buffer += one
    both(buffer)
    start = data.draw(st.integers(0, base))
    both(buffer, start, data.draw(st.integers(start, base + 1)))


def judge(data: bytearray) -> None:
    """Bad for the one reader is bad for the other, and nothing but Malformed is raised."""
    reason, rows = None, []
    try:
        rows = expected(data)
    except BadBatch as error:
        reason = error.reason
    if reason is None:
        assert decoded(data) == rows
        assert decoded(data, headers=False) == [(*row[:-1], None) for row in rows]
        return
    with pytest.raises(Malformed) as caught:
        decoded(data)
    assert caught.value.why.reason is reason
    # Headers that nobody asked for may be wrong; everything else may not.
    with contextlib.suppress(Malformed):
        decoded(data, headers=False)


@pytest.mark.parametrize("codec", Compression)
@settings(max_examples=150)
@given(data=st.data())
def test_any_damage_behind_a_right_checksum(codec: Compression, data: st.DataObject) -> None:
    damaged = build(SMALL if data.draw(st.booleans()) else RECORDS[:12], codec)
    places = st.tuples(st.integers(HEADER_BYTES, len(damaged) - 1), st.integers(0, 255))
    for at, byte in data.draw(st.lists(places, min_size=1, max_size=5)):
        damaged[at] = byte
    damaged += data.draw(st.binary(max_size=8))
    judge(refit(damaged[: data.draw(st.integers(HEADER_BYTES, len(damaged)))]))


@settings(max_examples=300)
@given(st.binary(max_size=120), st.integers(0, 40))
def test_any_body_at_all(body: bytes, count: int) -> None:
    judge(bytearray(batch(body, count=count, last_delta=max(0, count - 1))))


def test_damage_in_a_long_run_of_one_size() -> None:
    builder = BatchBuilder()
    for _ in range(300):
        builder.append(0, b"k", bytes(20))
    good = builder.build()
    for at in range(HEADER_BYTES, len(good), 41):
        for byte in (0x00, 0x7F, 0xFF):
            damaged = bytearray(good)
            damaged[at] = byte
            judge(refit(damaged))


@pytest.mark.parametrize("count", [-(1 << 31), -1, 0, 1, 3, (1 << 31) - 1])
def test_a_wrong_count(count: int) -> None:
    data = build(SMALL)
    struct.pack_into(">i", data, 57, count)
    seal(data)
    judge(data)


def test_absurd_lengths() -> None:
    for bad in (b"\x80" * 5, b"\xff" * 10, b"\xff\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\x0f", b"\xff" * 9 + b"\x7f"):
        for body in (
            bad + GOOD,
            record(b"\0", bad, b"\0\1\1\0"),
            record(b"\0\0", bad, b"\1\1\0"),
            record(b"\0\0\0", bad, b"\1\0"),
            record(b"\0\0\0\1", bad, b"\0"),
            record(b"\0\0\0\1\1", bad),
            record(b"\0\0\0\1\1\2", bad, b"\0"),
        ):
            judge(bytearray(batch(body)))
