"""What is encoded in whole columns is what the builder of single records makes, byte for byte."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.protocol.builder import BatchBuilder, Producer
from quorate.broker.protocol.compression import Compression
from quorate.broker.protocol.records import read_records
from quorate.consensus.batch.validate import validate
from quorate.spark.encode import cut, encode
from quorate.spark.record_headers import HEADERS_TYPE

T0 = 1_700_000_000_123
Pairs = tuple[tuple[str, bytes | None], ...]
Row = tuple[bytes | None, bytes | None, Pairs | None]


def columns(rows: list[Row]) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Arrays with an offset, as slices of larger ones have."""
    pad: list[Row] = [(b"pad", b"pad", (("pad", b"pad"),)), *rows]
    headers = [None if row[2] is None else [{"key": name, "value": value} for name, value in row[2]] for row in pad]
    key = pa.array([row[0] for row in pad], pa.binary())
    value = pa.array([row[1] for row in pad], pa.binary())
    return key.slice(1), value.slice(1), pa.array(headers, HEADERS_TYPE).slice(1)


def oracle(rows: list[Row], **build: Any) -> bytearray:
    builder = BatchBuilder()
    for key, value, headers in rows:
        builder.append(T0, key, value, headers or ())
    return builder.build(**build)


_blob = st.none() | st.binary(max_size=150)
_row = st.tuples(_blob, _blob, st.none() | st.lists(st.tuples(st.text(max_size=70), _blob), max_size=3).map(tuple))


@given(st.lists(_row, min_size=1, max_size=25))
def test_any_rows(rows: list[Row]) -> None:
    key, value, headers = columns(rows)
    data = encode(key, value, headers, T0)
    assert data == oracle(rows)
    validate(data)
    bare: list[Row] = [(*row[:2], None) for row in rows]
    assert encode(key, value, None, T0) == oracle(bare)


@pytest.mark.parametrize("codec", Compression)
def test_every_compression(codec: Compression) -> None:
    rows: list[Row] = [(b"k%d" % number, b"v" * (number % 300), None) for number in range(10_000)]
    data = encode(*columns(rows), T0, compression=codec)
    assert validate(data).compression == codec
    assert list(read_records(data)) == list(read_records(oracle(rows)))


def test_who_produced_it() -> None:
    rows: list[Row] = [(None, b"v", None)]
    producer = Producer(4_000_000_123, 7, 99)
    assert encode(*columns(rows), T0, producer=producer) == oracle(rows, producer=producer)


@given(st.lists(_row, max_size=25), st.integers(400, 3000))
def test_no_batch_is_larger_than_it_should_be(rows: list[Row], most: int) -> None:
    key, value, headers = columns(rows)
    cuts = list(cut(key, value, headers, most))
    assert [number for piece in cuts for number in range(len(rows))[piece]] == list(range(len(rows)))
    for piece in cuts:
        assert len(oracle(rows[piece])) <= most or piece.stop - piece.start == 1


def test_batches_are_filled() -> None:
    key, value, headers = columns([(None, bytes(100), None)] * 1000)
    assert len(list(cut(key, value, headers, 10_000))) <= 14


def test_text_is_written_as_bytes() -> None:
    assert encode(pa.array(["é"]), pa.array(["größe"]), None, T0) == oracle([("é".encode(), "größe".encode(), None)])
