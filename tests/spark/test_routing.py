"""Keys go where Kafka's clients send them."""

from __future__ import annotations

import warnings

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from quorate.spark.routing import by_key, murmur2

with warnings.catch_warnings():
    # kafka-python reads its own files by a function that Python will not have for ever.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import murmur2 as kafkas


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(0, 5))
def test_the_hash_is_kafkas(keys: list[bytes], skip: int) -> None:
    column = pa.array([b"pad", *keys], pa.binary()).slice(1).slice(min(skip, len(keys)))
    assert murmur2(column).tolist() == [kafkas(key) & 0xFFFFFFFF for key in keys[min(skip, len(keys)) :]]


def test_rows_without_a_key_go_together() -> None:
    keys = pa.array([b"a", None, b"b", None], pa.binary())
    chosen = by_key(keys, 7, 3).tolist()
    assert chosen == [(kafkas(b"a") & 0x7FFFFFFF) % 7, 3, (kafkas(b"b") & 0x7FFFFFFF) % 7, 3]
    assert by_key(pa.nulls(2, pa.binary()), 7, 5).tolist() == [5, 5]
