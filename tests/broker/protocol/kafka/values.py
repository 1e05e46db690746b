"""Values of every message that we speak, drawn at random from our tables: what fits a table, and nothing else."""

from __future__ import annotations

from random import Random
from typing import Any, Final, NamedTuple

from quorate.broker.protocol.kafka.apis import PRIVATE, SUPPORTED, Api
from quorate.broker.protocol.kafka.errors import Error
from quorate.broker.protocol.kafka.schema import MESSAGES, Field

Value = dict[str, Any]

_WIDTHS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_LETTERS: Final = "az09._-\0 üß€漢😀"
# The compact form of a length takes two bytes from 127 on.
_LENGTHS: Final = (0, 1, 2, 7, 42, 126, 127, 128, 300)
_OFTEN: Final = 0.3
_ERRORS: Final = [int(error) for error in Error]


class Case(NamedTuple):
    """One message in one version."""

    api: Api
    version: int
    direction: str

    def __str__(self) -> str:
        return f"{self.api.name.lower()}-{self.version}-{self.direction}"


def _cases(versions: dict[Api, tuple[int, int]]) -> list[Case]:
    return [
        Case(api, version, direction)
        for api, (first, last) in versions.items()
        for version in range(first, last + 1)
        for direction in ("request", "response")
    ]


KAFKAS: Final = _cases(SUPPORTED)
"""What Kafka has too, so that others can be asked about it."""
CASES: Final = KAFKAS + _cases(PRIVATE)
REQUESTS: Final = [case for case in CASES if case.direction == "request"]


def draw(case: Case, random: Random, *, tame: bool = False) -> Value:
    """A value with all fields of the case's version. `tame`: only such as have a meaning, for readers that know meanings."""
    return _struct(MESSAGES[case.api, case.direction], case.version, random, tame)


def _struct(fields: tuple[Field, ...], version: int, random: Random, tame: bool) -> Value:
    return {field.name: _field(field, version, random, tame) for field in fields if field.versions.has(version)}


def _field(field: Field, version: int, random: Random, tame: bool) -> Any:
    if field.nullable.has(version) and random.random() < _OFTEN:
        return None
    if field.array:
        return [_one(field, version, random, tame) for _ in range(random.choice((0, 1, 1, 2, 3)))]
    return _one(field, version, random, tame)


def _one(field: Field, version: int, random: Random, tame: bool) -> Any:
    if field.kind == "struct":
        return _struct(field.fields, version, random, tame)
    if field.tag is not None and random.random() < _OFTEN:
        return field.default
    if field.kind == "bool":
        return random.random() < 1 / 2
    if field.kind == "uuid":
        return random.randbytes(16)
    if field.kind == "string":
        return "".join(random.choices(_LETTERS, k=random.choice(_LENGTHS)))
    if field.kind in _WIDTHS:
        half = 1 << (_WIDTHS[field.kind] - 1)
        if tame and (meaningful := _meaningful(field.name, half, random)) is not None:
            return meaningful
        return random.choice((-half, -1, 0, 1, half - 1, random.randrange(-half, half)))
    return random.randbytes(random.choice(_LENGTHS))


def _meaningful(name: str, half: int, random: Random) -> int | None:
    if name.endswith("error_code"):
        return random.choice(_ERRORS)
    # As times they must be dates, or "none"; Kafka itself sends no others.
    if half == 1 << 63 and (name.endswith("_ms") or "time" in name):
        return random.choice((-1, 0, random.randrange(1 << 41)))
    return None
