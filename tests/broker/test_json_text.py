"""JSON from outside: what is read, and that everything else is one typed error, wherever the reader stands."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.json_text import MAX_DEPTH, BadJson, read_json

FLAT = st.none() | st.booleans() | st.integers(-(1 << 80), 1 << 80) | st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
VALUES: st.SearchStrategy[Any] = st.recursive(
    FLAT | TEXT, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12
)


@given(VALUES, st.booleans())
def test_what_is_written_is_read(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert read_json(text) == read_json(text.encode()) == value


@pytest.mark.parametrize(
    "bad", ["", "{", "NaN", "[-Infinity]", "1e999", '"\\ud800"', "9" * 5_000, b"\xff", b'"\xed\xa0\x80"']
)
def test_what_is_no_json_is_refused(bad: str | bytes) -> None:
    with pytest.raises(BadJson):
        read_json(bad)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_the_limit_of_depth_does_not_depend_on_the_caller(opening: str) -> None:
    closing = "]" if opening == "[" else "}"

    def nested(depth: int) -> str:
        return opening * depth + "1" + closing * depth

    def from_deep_below(frames: int, depth: int) -> Any:
        return from_deep_below(frames - 1, depth) if frames else read_json(nested(depth))

    for frames in (0, 600):
        assert from_deep_below(frames, MAX_DEPTH)
        for depth in (MAX_DEPTH + 1, 500, 100_000):
            with pytest.raises(BadJson, match="nested too deep"):
                from_deep_below(frames, depth)
    assert len(read_json("[" + "[]," * 1_000 + "[]]")) == 1_001, "many beside each other are not deep"
