"""Offsets as JSON has them: in options and in checkpoints, `{"queue": {"0": 12}}`, as with Kafka's source.

Spark keeps a stream's offsets as text and compares texts, so topics and partitions are always in the same order.
Not here: what -1 and -2 mean at a time (`planner`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from quorate.client import TopicPartition
from quorate.spark.errors import BadOption

Offsets = dict[TopicPartition, int]

_LARGEST: Final = (1 << 63) - 1
_EXAMPLE: Final = '{"queue":{"0":12,"1":-2}}'


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """As Spark takes them from a stream, sorted."""
    out: dict[str, dict[str, int]] = {}
    for part in sorted(offsets):
        out.setdefault(part.topic, {})[str(part.partition)] = offsets[part]
    return out


def from_json(offsets: Mapping[str, Mapping[str, int]]) -> Offsets:
    """What `to_json` made."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    }


def parse_offsets(option: str, text: str, least: int) -> Offsets:
    """The offsets, or times, for each partition in an option's JSON. Raises BadOption."""
    found: Offsets = {}
    for topic, partitions in _object(option, _load(option, text), "the outermost value").items():
        for partition, offset in _object(option, partitions, f"what stands for {topic!r}").items():
            place = f"partition {partition!r} of {topic!r}"
            part = TopicPartition(topic, _partition(option, partition, place))
            if part in found:
                raise BadOption(option, f"{place} stands there twice")
            if not isinstance(offset, int) or isinstance(offset, bool):
                raise BadOption(option, f"{place} needs a whole number, not {json.dumps(offset)}")
            if not least <= offset <= _LARGEST:
                raise BadOption(option, f"{place} cannot have {offset}: the least is {least}")
            found[part] = offset
    if not found:
        raise BadOption(option, f"there is no partition in it; it should look like {_EXAMPLE}")
    return found


def parse_partitions(option: str, text: str) -> tuple[TopicPartition, ...]:
    """The partitions in `{"queue": [0, 1]}`. Raises BadOption."""
    found = set()
    for topic, partitions in _object(option, _load(option, text), "the outermost value").items():
        if not isinstance(partitions, list):
            raise BadOption(option, f"what stands for {topic!r} should be a list of partitions, as in " + '{"queue":[0,1]}')
        for partition in partitions:
            if not isinstance(partition, int) or isinstance(partition, bool) or partition < 0:
                raise BadOption(option, f"{json.dumps(partition)} is no partition of {topic!r}")
            found.add(TopicPartition(topic, partition))
    if not found:
        raise BadOption(option, 'there is no partition in it; it should look like {"queue":[0,1]}')
    return tuple(sorted(found))


def shown(parts: Iterable[TopicPartition]) -> str:
    """For people."""
    return ", ".join(f"{part.topic}-{part.partition}" for part in sorted(parts))


def _load(option: str, text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _no_doubles(option, pairs))
    except BadOption:
        raise
    except (ValueError, RecursionError) as error:
        # Not only JSONDecodeError: also a number of thousands of digits, and brackets as deep as the stack.
        raise BadOption(option, f"{text!r:.500} is no JSON ({error}); it should look like {_EXAMPLE}") from error


def _no_doubles(option: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        doubled = next(name for name, _ in pairs if [one for one, _ in pairs].count(name) > 1)
        raise BadOption(option, f"{doubled!r} stands there twice")
    return found


def _object(option: str, value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadOption(option, f"{what} should be an object, as in {_EXAMPLE}, not {json.dumps(value)}")
    return value


def _partition(option: str, text: str, place: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise BadOption(option, f"{place}: a partition is a number from 0 on")
    return int(text)
