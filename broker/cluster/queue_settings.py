"""The settings of a queue: names, kinds, bounds, defaults and texts, in one table. Kafka's names where Kafka has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple


class BadSetting(ValueError):
    """A setting that is not known, or a value that it cannot have. The text names it."""


class Rule(NamedTuple):
    """Which values a setting can have."""

    words: str
    """For people."""
    wrong: Callable[[str], str | None]
    """What is wrong with a value; None: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSetting:
    """One setting."""

    name: str
    kind: str
    """int, long or string."""
    default: str
    doc: str
    rule: Rule


def _number(least: int, most: int) -> Rule:
    def check(text: str) -> str | None:
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal()) or len(digits) > 19:
            return "is no whole number"
        value = int(text)
        return None if least <= value <= most else f"must be from {least} to {most}"

    return Rule(f"{least} to {most}", check)


def _one_of(*values: str) -> Rule:
    return Rule(" or ".join(values), lambda text: None if text in values else f"must be {' or '.join(map(repr, values))}")


_LONG: Final = (1 << 63) - 1
_INT: Final = (1 << 31) - 1

SETTINGS: Final = {
    one.name: one
    for one in (
        QueueSetting(
            name="retention.ms",
            kind="long",
            default="604800000",
            doc="How long messages are kept, by the log's own time. -1: for ever.",
            rule=_number(-1, _LONG),
        ),
        QueueSetting(
            name="retention.bytes",
            kind="long",
            default="-1",
            doc="How many bytes each partition keeps; the oldest go first. -1: no limit.",
            rule=_number(-1, _LONG),
        ),
        QueueSetting(
            name="max.message.bytes",
            kind="int",
            default="1048588",
            doc="The largest batch of messages that is accepted. A batch is replicated and read as a whole.",
            rule=_number(1, 64 << 20),
        ),
        QueueSetting(
            name="stage.expiry.ms",
            kind="long",
            default="86400000",
            doc="How long staged messages are kept that nobody commits. In the second half of it they cannot be committed.",
            rule=_number(10_000, _LONG),
        ),
        QueueSetting(
            name="cleanup.policy",
            kind="string",
            default="delete",
            doc="What becomes of old messages. Compaction by key is not offered.",
            rule=_one_of("delete"),
        ),
        QueueSetting(
            name="compression.type",
            kind="string",
            default="producer",
            doc="Batches are stored as their producer compressed them.",
            rule=_one_of("producer"),
        ),
        QueueSetting(
            name="message.timestamp.type",
            kind="string",
            default="LogAppendTime",
            doc="Messages carry the time at which their leader appended them.",
            rule=_one_of("LogAppendTime"),
        ),
        QueueSetting(
            name="min.insync.replicas",
            kind="int",
            default="1",
            doc="Accepted for Kafka's tools. Acknowledged (acks=all) means on a majority of replicas, whatever this says.",
            rule=_number(1, _INT),
        ),
    )
}


def check_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """The settings, if all of them are good. Raises BadSetting."""
    for name, value in settings.items():
        known = SETTINGS.get(name)
        if known is None:
            raise BadSetting(f"there is no queue setting {name!r}; there are {', '.join(SETTINGS)}")
        # What comes from JSON may be anything.
        wrong = known.rule.wrong(value) if isinstance(value, str) else "must be given as text"
        if wrong is not None:
            raise BadSetting(f"{name}={value!r}: it {wrong}")
    return dict(settings)


def effective(settings: Mapping[str, str], name: str) -> str:
    """A queue's own value, or the default."""
    return settings.get(name, SETTINGS[name].default)
