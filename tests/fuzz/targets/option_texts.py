"""Offsets and partitions as users write them into options of the Spark source: a value, or a text that names the option."""

from __future__ import annotations

import json

from quorate.spark.errors import BadOption
from quorate.spark.offsets import from_json, parse_offsets, parse_partitions, to_json
from tests.fuzz.targets.changed import changed
from tests.fuzz.targets.expect import expect

_LEAST = -2
_TEXT = b'{"a":{"0":12,"1":-2},"q":{"7":5}}'
_LISTS = b'{"a":[0,1],"q":[7]}'


def offsets(data: bytes) -> None:
    """A first byte of 0 or 1: good JSON, changed as the rest says; else the text itself."""
    way = data[:1]
    if way in (b"\0", b"\1"):
        data = changed(_TEXT if way == b"\0" else _LISTS, data[1:])
    text = data.decode("utf-8", "surrogateescape")
    _offsets(text)
    try:
        found = parse_partitions("assign", text)
    except BadOption as error:
        expect("assign" in str(error), "the message names the option")
    else:
        expect(list(found) == sorted(set(found)) and all(part.partition >= 0 for part in found), "each once, in order")


def _offsets(text: str) -> None:
    try:
        found = parse_offsets("startingOffsets", text, _LEAST)
    except BadOption as error:
        expect("startingOffsets" in str(error), "the message names the option")
        return
    expect(bool(found) and min(found.values()) >= _LEAST, "no less than the least")
    expect(from_json(json.loads(json.dumps(to_json(found)))) == found, "what was read can be written")
