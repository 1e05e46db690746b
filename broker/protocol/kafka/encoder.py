"""Compiles a table's fields, for one version, into a function that writes them; a field that is left out takes its default.

A field of another version is passed over, so one dict answers all versions. A name that no version has is BadValue: a
misspelt field would otherwise go out as its default.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final

from quorate.broker.protocol.kafka.decoder import FORMATS
from quorate.broker.protocol.kafka.errors import BadValue
from quorate.broker.protocol.kafka.schema import NONE, Field
from quorate.broker.protocol.kafka.wire import write_bytes, write_length, write_string, write_uvarint

UUID_BYTES: Final = 16

Write = Callable[[bytearray, Any], None]
_Step = Callable[[bytearray, dict[str, Any]], None]


def compile_struct(fields: tuple[Field, ...], version: int, flexible: bool) -> Write:
    """A writer of these fields out of a dict."""
    present = [field for field in fields if field.versions.has(version)]
    known = frozenset(field.name for field in fields)
    steps: list[_Step] = []
    run: list[Field] = []
    for field in present:
        if field.tag is not None:
            continue
        # A uuid stands alone: its length has to be looked at, since struct would pad or cut it.
        if field.kind in FORMATS and field.kind != "uuid" and not field.array:
            run.append(field)
            continue
        if run:
            steps.append(_fixed(run))
        run = []
        steps.append(_single(field, version, flexible))
    if run:
        steps.append(_fixed(run))
    if flexible:
        steps.append(_tagged([field for field in present if field.tag is not None], version))

    def write(out: bytearray, value: dict[str, Any]) -> None:
        if not value.keys() <= known:
            raise BadValue(f"there are no fields {sorted(value.keys() - known)}")
        for step in steps:
            step(out, value)

    return write


def _fixed(run: list[Field]) -> _Step:
    pack = struct.Struct(">" + "".join(FORMATS[field.kind] for field in run)).pack
    defaults = {field.name: field.default for field in run}
    names = tuple(defaults)
    if len(names) == 1:
        name, default = names[0], run[0].default
        return lambda out, value: out.extend(pack(value.get(name, default)))
    take = itemgetter(*names)

    def step(out: bytearray, value: dict[str, Any]) -> None:
        try:
            out += pack(*take(value))
        except KeyError:
            out += pack(*take({**defaults, **value}))

    return step


def _single(field: Field, version: int, flexible: bool) -> _Step:
    name, write = field.name, _value(field, version, flexible)

    def step(out: bytearray, value: dict[str, Any]) -> None:
        write(out, value[name] if name in value else field.default_value(version))

    return step


def _value(field: Field, version: int, flexible: bool) -> Write:
    write = _plain(field, version, flexible)
    if field.nullable.has(version):
        return write

    def present(out: bytearray, value: Any) -> None:
        if value is None:
            raise BadValue(f"{field.name} must not be null in version {version}")
        write(out, value)

    return present


def _plain(field: Field, version: int, flexible: bool) -> Write:
    if field.array:
        return _array(field, version, flexible)
    if field.kind == "struct":
        return compile_struct(field.fields, version, flexible)
    if field.kind == "uuid":
        return _write_uuid
    if field.kind in FORMATS:
        pack = struct.Struct(">" + FORMATS[field.kind]).pack
        return lambda out, value: out.extend(pack(value))
    if field.kind == "string":
        return lambda out, value: write_string(out, value, flexible)
    return lambda out, value: write_bytes(out, value, flexible)


def _write_uuid(out: bytearray, value: bytes) -> None:
    if len(value) != UUID_BYTES:
        raise BadValue(f"a uuid has 16 bytes, not {len(value)}")
    out += value


def _array(field: Field, version: int, flexible: bool) -> Write:
    element = field._replace(array=False, nullable=NONE)
    code = FORMATS.get(field.kind)
    if code is not None and field.kind != "uuid":

        def fixed(out: bytearray, value: list[Any] | None) -> None:
            write_length(out, -1 if value is None else len(value), flexible)
            if value:
                out += struct.pack(f">{len(value)}{code}", *value)

        return fixed
    write = compile_struct(field.fields, version, flexible) if field.kind == "struct" else _value(element, version, flexible)

    def several(out: bytearray, value: list[Any] | None) -> None:
        write_length(out, -1 if value is None else len(value), flexible)
        for one in value or ():
            write(out, one)

    return several


def _tagged(fields: list[Field], version: int) -> _Step:
    """Tagged fields that are at their default are left out, as every implementation does."""
    ordered = sorted(fields, key=lambda field: field.tag or 0)
    writers = [(field, _value(field, version, True)) for field in ordered]

    def step(out: bytearray, value: dict[str, Any]) -> None:
        chosen = []
        for field, write in writers:
            if field.name in value and not _is_default(field, version, value[field.name]):
                part = bytearray()
                write(part, value[field.name])
                chosen.append((field.tag or 0, part))
        write_uvarint(out, len(chosen))
        for tag, part in chosen:
            write_uvarint(out, tag)
            write_uvarint(out, len(part))
            out += part

    return step


def _is_default(field: Field, version: int, value: Any) -> bool:
    default = field.default_value(version)
    if isinstance(default, dict) and isinstance(value, dict):
        return bool({**default, **value} == default)
    return bool(value == default)
