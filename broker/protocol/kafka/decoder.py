"""Compiles a table's fields, for one version, into a function that reads them. Runs of fixed width are read at once.

A compiled reader takes (view, at) and returns (value, where the next one begins); see `wire` for what it raises.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from quorate.broker.protocol.kafka.errors import BadMessage
from quorate.broker.protocol.kafka.schema import NONE, Field
from quorate.broker.protocol.kafka.wire import read_count, read_string, read_uvarint, read_view

FORMATS: Final = {"bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uuid": "16s"}

Read = Callable[[memoryview, int], tuple[Any, int]]
_Step = Callable[[memoryview, int, dict[str, Any]], int]


def compile_struct(fields: tuple[Field, ...], version: int, flexible: bool) -> Read:
    """A reader of these fields as a dict."""
    present = [field for field in fields if field.versions.has(version)]
    steps: list[_Step] = []
    run: list[Field] = []
    for field in present:
        if field.tag is not None:
            continue
        if field.kind in FORMATS and not field.array:
            run.append(field)
            continue
        if run:
            steps.append(_fixed(run))
        run = []
        steps.append(_single(field.name, _value(field, version, flexible)))
    if run:
        steps.append(_fixed(run))
    if flexible:
        steps.append(_tagged([field for field in present if field.tag is not None], version))

    def read(view: memoryview, at: int) -> tuple[dict[str, Any], int]:
        value: dict[str, Any] = {}
        for step in steps:
            at = step(view, at, value)
        return value, at

    return read


def smallest(field: Field, version: int, flexible: bool) -> int:
    """How many bytes one value of the field's kind takes at least: what bounds the length of an array of them."""
    if field.kind in FORMATS:
        return struct.calcsize(">" + FORMATS[field.kind])
    if field.kind != "struct":
        return 1 if flexible else 2 if field.kind == "string" else 4
    total = 1 if flexible else 0
    for inner in field.fields:
        if inner.versions.has(version) and inner.tag is None:
            total += (1 if flexible else 4) if inner.array else smallest(inner, version, flexible)
    return total


def _fixed(run: list[Field]) -> _Step:
    layout = struct.Struct(">" + "".join(FORMATS[field.kind] for field in run))
    names = tuple(field.name for field in run)
    unpack, size = layout.unpack_from, layout.size
    if len(names) == 1:
        name = names[0]

        def one(view: memoryview, at: int, into: dict[str, Any]) -> int:
            (into[name],) = unpack(view, at)
            return at + size

        return one

    def many(view: memoryview, at: int, into: dict[str, Any]) -> int:
        into.update(zip(names, unpack(view, at), strict=True))
        return at + size

    return many


def _single(name: str, read: Read) -> _Step:
    def step(view: memoryview, at: int, into: dict[str, Any]) -> int:
        into[name], at = read(view, at)
        return at

    return step


def _value(field: Field, version: int, flexible: bool) -> Read:
    read = _nullable(field, version, flexible)
    if field.nullable.has(version):
        return read
    name = field.name

    def present(view: memoryview, at: int) -> tuple[Any, int]:
        value, at = read(view, at)
        if value is None:
            raise BadMessage(f"{name} is null and must not be")
        return value, at

    return present


def _nullable(field: Field, version: int, flexible: bool) -> Read:
    if field.array:
        return _array(field, version, flexible)
    if field.kind == "struct":
        return compile_struct(field.fields, version, flexible)
    if field.kind in FORMATS:
        unpack, size = struct.Struct(">" + FORMATS[field.kind]).unpack_from, smallest(field, version, flexible)
        return lambda view, at: (unpack(view, at)[0], at + size)
    if field.kind == "string":
        return lambda view, at: read_string(view, at, flexible)
    return _bytes(flexible)


def _bytes(flexible: bool) -> Read:
    def read(view: memoryview, at: int) -> tuple[bytes | None, int]:
        part, at = read_view(view, at, flexible)
        return (None if part is None else bytes(part)), at

    return read


def _array(field: Field, version: int, flexible: bool) -> Read:
    element = field._replace(array=False, nullable=NONE)
    least = max(1, smallest(element, version, flexible))
    if element.kind in FORMATS:
        code = FORMATS[element.kind]

        def fixed(view: memoryview, at: int) -> tuple[list[Any] | None, int]:
            count, at = read_count(view, at, flexible, least)
            if count < 0:
                return None, at
            return list(struct.unpack_from(f">{count}{code}", view, at)), at + count * least

        return fixed
    read = compile_struct(field.fields, version, flexible) if field.kind == "struct" else _value(element, version, flexible)

    def several(view: memoryview, at: int) -> tuple[list[Any] | None, int]:
        count, at = read_count(view, at, flexible, least)
        if count < 0:
            return None, at
        values = []
        for _ in range(count):
            value, at = read(view, at)
            values.append(value)
        return values, at

    return several


def _tagged(fields: list[Field], version: int) -> _Step:
    readers = {field.tag: (field.name, _value(field, version, True)) for field in fields}

    def step(view: memoryview, at: int, into: dict[str, Any]) -> int:
        for field in fields:
            into[field.name] = field.default_value(version)
        if not view[at]:
            return at + 1
        count, at = read_uvarint(view, at)
        for _ in range(count):
            tag, at = read_uvarint(view, at)
            size, at = read_uvarint(view, at)
            if size > len(view) - at:
                raise BadMessage(f"tagged field {tag} of {size} bytes does not fit into the {len(view) - at} that remain")
            if tag in readers:
                name, read = readers[tag]
                into[name], read_to = read(view[at : at + size], 0)
                if read_to != size:
                    raise BadMessage(f"tagged field {name} is shorter than it says")
            at += size
        return at

    return step
