"""The tables of `tables/` as values: which fields a message has, in which versions. Coding is `encoder` and `decoder`."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from quorate.broker.protocol.kafka.apis import ALL_VERSIONS, Api
from quorate.broker.protocol.kafka.tables import admin, data, groups, own

INDENT: Final = 4
_ZEROS: Final[dict[str, Any]] = {"bool": False, "uuid": bytes(16), "string": "", "bytes": b"", "records": b""}
_WORDS: Final[dict[str, Any]] = {"null": None, "true": True, "false": False}


class Versions(NamedTuple):
    """First and last, both included. An empty range has its first above its last."""

    first: int
    last: int

    def has(self, version: int) -> bool:
        return self.first <= version <= self.last


NONE: Final = Versions(0, -1)


class Field(NamedTuple):
    """One line of a table. `kind` is a primitive's name, or "struct" with `fields`; `tag` is None for an ordinary field."""

    name: str
    kind: str
    array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    default: Any  # of a primitive; an array that is left out is empty, a structure has its fields' defaults
    fields: tuple[Field, ...]

    def default_value(self, version: int) -> Any:
        """What stands for a field that is left out: a new value each time, because arrays and structures can be changed."""
        if self.array:
            return []
        if self.kind == "struct":
            return {field.name: field.default_value(version) for field in self.fields if field.versions.has(version)}
        return self.default


class _Line(NamedTuple):
    depth: int
    words: list[str]


def parse(text: str) -> dict[tuple[Api, str], tuple[Field, ...]]:
    """A text of tables: the fields of each (api, "request" or "response")."""
    lines = [_Line((len(raw) - len(raw.lstrip())) // INDENT, raw.split()) for raw in text.splitlines() if raw.strip()]
    found = {}
    at = 0
    while at < len(lines):
        name, direction = lines[at].words
        api = Api[_upper(name)]
        fields, at = _fields(lines, at + 1, 1, Versions(*ALL_VERSIONS[api]))
        found[api, direction] = fields
    return found


def _fields(lines: list[_Line], at: int, depth: int, within: Versions) -> tuple[tuple[Field, ...], int]:
    fields = []
    while at < len(lines) and lines[at].depth == depth:
        field = _field(lines[at].words, within)
        nested, at = _fields(lines, at + 1, depth + 1, field.versions)
        if bool(nested) is not (field.kind == "struct"):
            raise ValueError(f"{field.name}: structures have fields, and nothing else has")
        fields.append(field._replace(fields=nested))
    return tuple(fields), at


def _field(words: list[str], within: Versions) -> Field:
    name, kind, *rest = words
    kind, nullable, nullable_versions = kind.partition("?")
    array = kind.startswith("[]")
    kind = kind.removeprefix("[]") or "struct"
    options = dict(word.split("=") for word in rest if "=" in word)
    versions = _versions(next((word for word in rest if "=" not in word), ""), within)
    return Field(
        name,
        kind,
        array,
        versions,
        _versions(nullable_versions, versions) if nullable else NONE,
        int(options["tag"]) if "tag" in options else None,
        _default(kind, options.get("default")),
        (),
    )


def _versions(text: str, within: Versions) -> Versions:
    """`3+`, `3-7`, `3`, or nothing for all of those around it."""
    if not text:
        return within
    if text.endswith("+"):
        return Versions(int(text[:-1]), within.last)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


def _default(kind: str, text: str | None) -> Any:
    if text is None:
        return _ZEROS.get(kind, 0)
    return _WORDS[text] if text in _WORDS else int(text)


def _upper(name: str) -> str:
    return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in name).lstrip("_")


MESSAGES: Final = parse(data.TABLES) | parse(groups.TABLES) | parse(admin.TABLES) | parse(own.TABLES)
