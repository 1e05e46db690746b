"""Settings from a TOML file, and a commented file from settings. Unknown tables and keys are refused."""

from __future__ import annotations

import difflib
import json
import textwrap
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from pathlib import Path
from typing import Any

from quorate.broker.node.settings import SECTIONS, BadSettings, Endpoint, Member, NodeSettings, Section

_WIDTH = 110


def load(path: Path) -> NodeSettings:
    """The settings in a file. Raises BadSettings, which names the file and the key."""
    try:
        said = parse(path.read_bytes())
    except OSError as error:
        raise BadSettings(f"cannot read {path}: {error.strerror}") from error
    except BadSettings as error:
        raise BadSettings(f"{path} {error}") from error
    try:
        return from_tables(said)
    except BadSettings as error:
        raise BadSettings(f"{path}: {error}") from error


def parse(text: bytes) -> dict[str, Any]:
    """The tables in a TOML file. Raises BadSettings."""
    try:
        return tomllib.loads(text.decode())
    except RecursionError as error:
        raise BadSettings("is not TOML: it is nested too deep") from error
    except ValueError as error:
        # Not only TOMLDecodeError: also a number of thousands of digits, and bytes that are no text.
        raise BadSettings(f"is not TOML: {error}") from error


def from_tables(said: Mapping[str, Any]) -> NodeSettings:
    """The settings in parsed TOML. Raises BadSettings."""
    _known(said, SECTIONS, "table")
    made: dict[str, Any] = {}
    for table, section in SECTIONS.items():
        values = said.get(table, {})
        if not isinstance(values, dict):
            raise BadSettings(f"{table} must be a table: [{table}]")
        made[table] = _section(section, values)
    return NodeSettings(**made)


def _section(section: type[Section], values: Mapping[str, Any]) -> Section:
    declared = {one.name: one for one in section.declared()}
    table = section.table()
    _known(values, declared, f"setting in [{table}]")
    for one in declared.values():
        if one.default is MISSING and one.name not in values:
            raise BadSettings(f"{table}.{one.name} is missing, for example {one.name} = {_example(one.metadata['example'])}")
    return section(**{name: _value(f"{table}.{name}", str(declared[name].type), value) for name, value in values.items()})


def _known(said: Mapping[str, Any], known: Mapping[str, Any], what: str) -> None:
    for name in said:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise BadSettings(f"there is no {what} named {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def _texts(parse: Callable[[str], Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise TypeError("a list of strings")
        return tuple(parse(one) for one in value)

    return read


def _plain(kind: type, words: str) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(words)
        return value

    return read


_text = _plain(str, "a string")


def _path(text: str) -> Path:
    if "\0" in text:
        raise BadSettings(f"{text!r} is no path")
    return Path(text)


_READERS: dict[str, Callable[[Any], Any]] = {
    "int": _plain(int, "a whole number"),
    "bool": _plain(bool, "true or false"),
    "str": _text,
    "Path": lambda value: _path(_text(value)),
    "Endpoint": lambda value: Endpoint.parse(_text(value)),
    "Endpoint | None": lambda value: Endpoint.parse(value) if _text(value) else None,
    "tuple[Member, ...]": _texts(Member.parse),
    "tuple[Endpoint, ...]": _texts(Endpoint.parse),
}


def _value(name: str, kind: str, value: Any) -> Any:
    try:
        return _READERS[kind](value)
    except TypeError as error:
        raise BadSettings(f"{name} must be {error}, not {value!r}") from error
    except BadSettings as error:
        raise BadSettings(f"{name}: {error}") from error


def dump(settings: NodeSettings) -> str:
    """A file that says exactly this, with every setting and its text."""
    return _write(lambda table, name: getattr(getattr(settings, table), name))


def sample() -> str:
    """A file to begin with: the defaults, and examples where there is none."""

    def value(table: str, name: str) -> Any:
        one = next(one for one in SECTIONS[table].declared() if one.name == name)
        if one.default is not MISSING and one.default != ():
            return one.default
        if str(one.type).startswith("tuple"):
            return (one.metadata["example"],) if name == "members" else ()
        return _number_or_text(one.metadata["example"])

    return _write(value)


def _write(value: Callable[[str, str], Any]) -> str:
    lines: list[str] = []
    for table, section in SECTIONS.items():
        lines += [*_comment((section.__doc__ or "").strip()), f"[{table}]"]
        for one in section.declared():
            lines += [*_comment(one.metadata["doc"]), f"{one.name} = {literal(value(table, one.name))}"]
        lines.append("")
    return "\n".join(lines)


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH)]


def literal(value: Any) -> str:
    """A value as it is written in a file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return '""'
    if isinstance(value, int):
        return f"{value:_}" if value >= 10_000 else str(value)
    if isinstance(value, tuple) and not isinstance(value, (Endpoint, Member)):
        return "[" + ", ".join(literal(one) for one in value) + "]"
    # JSON leaves this one control character as it is, and TOML does not take it.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _example(text: str) -> str:
    return literal(_number_or_text(text))


def _number_or_text(text: str) -> int | str:
    return int(text) if text.isdecimal() else text
