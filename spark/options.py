"""All options of the source and the sink: their names, who knows them, their bounds and their texts, in one table.

Names are Kafka's where Kafka's source has them; case does not count. Everything is checked here, before anything is asked
of a cluster. Not here: whether queues and offsets exist (`planner`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar

from quorate.client import BadSettings, ClientSettings, TopicPartition
from quorate.client.batches import Compression
from quorate.spark.errors import BadOption
from quorate.spark.offsets import Offsets, parse_offsets, parse_partitions

T = TypeVar("T")


class Use(Enum):
    """What a data source is asked for."""

    BATCH = "batch reads"
    STREAM = "streaming reads"
    WRITE = "writes"


_READS: Final = frozenset({Use.BATCH, Use.STREAM})
_ALL: Final = frozenset(Use)


class Option(NamedTuple):
    """One option."""

    name: str
    uses: frozenset[Use]
    doc: str


OPTIONS: Final = (
    Option("kafka.bootstrap.servers", _ALL, "host:port of some nodes, with commas between them. Also: bootstrap."),
    Option("bootstrap", _ALL, "The same as kafka.bootstrap.servers."),
    Option("subscribe", _READS, "Queues to read, with commas between them."),
    Option("subscribePattern", _READS, "A regular expression: queues whose whole name matches are read, new ones too."),
    Option("assign", _READS, 'Partitions to read: {"queue":[0,1]}.'),
    Option("startingOffsets", _READS, "earliest, latest or JSON (-2, -1). A new stream: latest; else earliest."),
    Option("endingOffsets", frozenset({Use.BATCH}), "latest (the default) or JSON; -1 is latest."),
    Option("startingTimestamp", _READS, "Begin with the first record at or after this time (ms)."),
    Option("endingTimestamp", frozenset({Use.BATCH}), "End before the first record at or after this time (ms)."),
    Option("startingOffsetsByTimestamp", _READS, 'The same for each partition: {"queue":{"0":1700000000000}}.'),
    Option("endingOffsetsByTimestamp", frozenset({Use.BATCH}), "The same for the end."),
    Option("startingOffsetsByTimestampStrategy", _READS, "No record is that late: error (the default), or begin at latest."),
    Option("asOf", frozenset({Use.BATCH}), "A cut through all partitions: all records up to this time (ms, or ISO 8601)."),
    Option("asOfTimeoutMs", frozenset({Use.BATCH}), "How long to wait until the time of asOf is closed (60000)."),
    Option("maxOffsetsPerTrigger", frozenset({Use.STREAM}), "The most offsets of one micro-batch."),
    Option("minOffsetsPerTrigger", frozenset({Use.STREAM}), "Wait for so many offsets, but at most maxTriggerDelay."),
    Option("maxTriggerDelay", frozenset({Use.STREAM}), "15m unless given: 500ms, 30s, 15m, 1h."),
    Option("maxBytesPerTrigger", frozenset({Use.STREAM}), "About the most bytes of one micro-batch, as stored."),
    Option("longPollMs", frozenset({Use.STREAM}), "How long an idle query waits for new records before it asks anew (500)."),
    Option("minPartitions", _READS, "Split large partitions of queues into at least so many tasks."),
    Option("failOnDataLoss", _READS, "Whether missing offsets are an error (true); else a warning, and counted."),
    Option("includeHeaders", _ALL, "Whether there is a column headers (false). Writes take the column if it is there."),
    Option("kafka.group.id", frozenset({Use.STREAM}), "Commit what was processed to this group, for others to see."),
    Option("groupIdPrefix", _READS, "What nodes' logs call this reader."),
    Option("fetchBytes", _READS, "The most bytes of one fetch (8388608); one batch comes in any case."),
    Option("retryMs", _ALL, "How long requests that fail are repeated (120000)."),
    Option("requestTimeoutMs", _ALL, "How long one request may go without an answer (30000)."),
    Option("topic", frozenset({Use.WRITE}), "The queue of all rows. Without it rows need a column topic."),
    Option("delivery", frozenset({Use.WRITE}), "at-least-once (the default) or exactly-once."),
    Option("applicationId", frozenset({Use.WRITE}), "Whose batches are exactly once; a stream's is its query's id."),
    Option("batchId", frozenset({Use.WRITE}), "The number of a batch write with applicationId, as in foreachBatch."),
    Option("compression", frozenset({Use.WRITE}), "none (the default), gzip, snappy, lz4, zstd."),
    Option("batchBytes", frozenset({Use.WRITE}), "About the most bytes of one batch (524288)."),
    Option("checkpointLocation", frozenset({Use.WRITE}), "Spark's own."),
)
"""docs/spark.md shows this table."""

_BY_NAME: Final = {option.name.lower(): option for option in OPTIONS}


class Position(NamedTuple):
    """Where to begin or to end: `offsets` or `times` for each partition, one time for all, or -1 or -2 for all."""

    option: str
    """Which option says so, for errors."""
    everywhere: int | None = None
    offsets: Offsets | None = None
    time_ms: int | None = None
    times: Offsets | None = None


class Subscription(NamedTuple):
    """What to read: one of these."""

    option: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    parts: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """All that a reader wants to know."""

    client: ClientSettings
    subscription: Subscription
    starting: Position
    ending: Position
    start_at_latest: bool
    """What a starting time beyond the last record means; otherwise an error."""
    as_of_ms: int | None
    as_of_timeout_ms: int
    max_offsets: int | None
    min_offsets: int | None
    max_delay_ms: int
    max_bytes: int | None
    long_poll_ms: int
    min_partitions: int | None
    fail_on_data_loss: bool
    headers: bool
    group: str | None
    fetch_bytes: int


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """All that a writer wants to know."""

    client: ClientSettings
    topic: str | None
    exactly_once: bool
    application_id: str | None
    batch_id: int
    compression: Compression
    batch_bytes: int


EARLIEST, LATEST = -2, -1
_MOST: Final = (1 << 63) - 1
_LATEST_MS: Final = 253_402_300_799_999
"""The end of the year 9999."""
_DELAY: Final = re.compile(r"(\d{1,12})\s*(ms|s|m|min|h|d)?", re.ASCII)
_UNITS: Final = {None: 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class _Values:
    """Given options, by name; each look checks the value. All raise BadOption."""

    def __init__(self, given: Mapping[str, str], use: Use) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        for name in self._given:
            option = _BY_NAME.get(name)
            if option is None:
                raise BadOption(_shown(given, name), f"there is no such option; {_suggest(name, use)}")
            if use not in option.uses:
                raise BadOption(option.name, f"{_NOT_FOR}{use.value}")

    def has(self, name: str) -> bool:
        return name.lower() in self._given

    def text(self, name: str) -> str | None:
        value = self._given.get(name.lower())
        if value is not None and not value.strip():
            raise BadOption(name, "it is empty")
        return value

    def number(self, name: str, default: T, least: int = 1, most: int = _MOST) -> int | T:
        text = self.text(name)
        if text is None:
            return default
        digits = text.strip().removeprefix("-")
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 19:
            raise BadOption(name, f"{text!r} is no whole number")
        value = int(text)
        if not least <= value <= most:
            raise BadOption(name, f"{value} is not from {least} to {most}")
        return value

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, {"true": True, "false": False}, default)

    def choice(self, name: str, choices: Mapping[str, T], default: T) -> T:
        text = self.text(name)
        if text is None:
            return default
        if text.strip().lower() not in choices:
            raise BadOption(name, f"{text!r} is none of {', '.join(choices)}")
        return choices[text.strip().lower()]

    def at_most_one(self, *names: str) -> str | None:
        """The one that is given."""
        there = [name for name in names if self.has(name)]
        if len(there) > 1:
            raise BadOption(there[1], f"it contradicts {there[0]}: give one of them")
        return there[0] if there else None


def read_options(given: Mapping[str, str], use: Use) -> ReadOptions:
    """The options of a reader. Raises BadOption, which names the option."""
    values = _Values(given, use)
    default = LATEST if use is Use.STREAM else EARLIEST
    as_of = values.text("asOf")
    if as_of is not None:
        values.at_most_one("asOf", *(name for name in _ENDS if values.has(name)))
    elif values.has("asOfTimeoutMs"):
        raise BadOption("asOfTimeoutMs", "it means nothing without asOf")
    max_offsets, min_offsets = values.number("maxOffsetsPerTrigger", None), values.number("minOffsetsPerTrigger", None)
    if max_offsets is not None and min_offsets is not None and min_offsets > max_offsets:
        raise BadOption("minOffsetsPerTrigger", f"{min_offsets} is more than maxOffsetsPerTrigger, {max_offsets}")
    if values.has("maxTriggerDelay") and min_offsets is None:
        raise BadOption("maxTriggerDelay", "it means nothing without minOffsetsPerTrigger")
    if values.has("startingOffsetsByTimestampStrategy") and not (
        values.has("startingTimestamp") or values.has("startingOffsetsByTimestamp")
    ):
        raise BadOption("startingOffsetsByTimestampStrategy", "it means nothing without a starting time")
    return ReadOptions(
        client=_client(values),
        subscription=_subscription(values),
        starting=_starting(values, use, default),
        ending=_ending(values),
        start_at_latest=values.choice("startingOffsetsByTimestampStrategy", {"error": False, "latest": True}, False),
        as_of_ms=None if as_of is None else _moment("asOf", as_of),
        as_of_timeout_ms=values.number("asOfTimeoutMs", 60_000, 0, 86_400_000),
        max_offsets=max_offsets,
        min_offsets=min_offsets,
        max_delay_ms=_delay(values),
        max_bytes=values.number("maxBytesPerTrigger", None),
        long_poll_ms=values.number("longPollMs", 500, 0, 60_000),
        min_partitions=values.number("minPartitions", None, 1, 1_000_000),
        fail_on_data_loss=values.flag("failOnDataLoss", True),
        headers=values.flag("includeHeaders", False),
        group=values.text("kafka.group.id"),
        fetch_bytes=values.number("fetchBytes", 8 << 20, 1024, 256 << 20),
    )


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """The options of a writer. Raises BadOption, which names the option."""
    values = _Values(given, Use.WRITE)
    exactly_once = values.choice("delivery", {"at-least-once": False, "exactly-once": True}, False)
    for name in ("applicationId", "batchId"):
        if values.has(name) and not exactly_once:
            raise BadOption(name, "it means nothing without delivery=exactly-once")
    if values.has("batchId") and not values.has("applicationId"):
        raise BadOption("batchId", "it means nothing without applicationId")
    topic = values.text("topic")
    return WriteOptions(
        client=_client(values),
        topic=None if topic is None else _topic("topic", topic),
        exactly_once=exactly_once,
        application_id=values.text("applicationId"),
        batch_id=values.number("batchId", 0, 0),
        compression=values.choice("compression", {codec.name.lower(): codec for codec in Compression}, Compression.NONE),
        batch_bytes=values.number("batchBytes", 512 << 10, 1024, 64 << 20),
    )


def include_headers(given: Mapping[str, str]) -> bool:
    """Whether there is a column `headers`, before it is known what the source is used for. Unknown names are refused."""
    refusals = []
    for use in (Use.BATCH, Use.STREAM):
        try:
            return read_options(given, use).headers
        except BadOption as error:
            refusals.append(error)
    # That an option is only for the other use says nothing.
    raise next((error for error in refusals if not error.why.startswith(_NOT_FOR)), refusals[0])


_NOT_FOR: Final = "it is not for "
_ENDS: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")


def _client(values: _Values) -> ClientSettings:
    name = values.at_most_one("kafka.bootstrap.servers", "bootstrap")
    if name is None:
        raise BadOption("kafka.bootstrap.servers", "it is missing: host:port of at least one node")
    bootstrap = values.text(name) or ""
    settings: dict[str, Any] = {"bootstrap": bootstrap, "client_id": values.text("groupIdPrefix") or "quorate-spark"}
    settings["retry_ms"] = values.number("retryMs", 120_000, 0, 86_400_000)
    settings["request_timeout_ms"] = values.number("requestTimeoutMs", 30_000, 1, 86_400_000)
    try:
        # The decoder looks at every batch's checksum.
        return ClientSettings(**settings, check_crcs=False)
    except BadSettings as error:
        raise BadOption(name, str(error)) from error


def _subscription(values: _Values) -> Subscription:
    name = values.at_most_one("subscribe", "subscribePattern", "assign")
    text = values.text(name) if name is not None else None
    if name is None or text is None:
        raise BadOption("subscribe", "it is missing: say what to read with subscribe, subscribePattern or assign")
    if name == "assign":
        return Subscription(name, parts=parse_partitions(name, text))
    if name == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise BadOption(name, f"{text!r} is no regular expression: {error}") from error
        return Subscription(name, pattern=text)
    topics = tuple(dict.fromkeys(_topic(name, word.strip()) for word in text.split(",") if word.strip()))
    if not topics:
        raise BadOption(name, "there is no queue in it")
    return Subscription(name, topics=topics)


def _starting(values: _Values, use: Use, default: int) -> Position:
    name = values.at_most_one("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
    if name is None:
        return Position("startingOffsets", everywhere=default)
    position = _position(values, name, {"earliest": EARLIEST, "latest": LATEST}, EARLIEST)
    at_latest = position.everywhere == LATEST or LATEST in (position.offsets or {}).values()
    if use is Use.BATCH and at_latest:
        raise BadOption(name, "a batch read cannot begin at latest (-1): there would be nothing to read")
    return position


def _ending(values: _Values) -> Position:
    name = values.at_most_one(*_ENDS)
    if name is None:
        return Position("endingOffsets", everywhere=LATEST)
    if (values.text(name) or "").strip().lower() == "earliest":
        raise BadOption(name, "a read cannot end at earliest: there would be nothing to read")
    return _position(values, name, {"latest": LATEST}, LATEST)


def _position(values: _Values, name: str, words: Mapping[str, int], least: int) -> Position:
    text = (values.text(name) or "").strip()
    if name.endswith("ByTimestamp"):
        return Position(name, times=parse_offsets(name, text, 0))
    if name.endswith("Timestamp"):
        return Position(name, time_ms=values.number(name, 0, 0, _LATEST_MS))
    if text.lower() in words:
        return Position(name, everywhere=words[text.lower()])
    if not text.startswith("{"):
        raise BadOption(name, f"{text!r} is neither {' nor '.join(words)} nor JSON")
    return Position(name, offsets=parse_offsets(name, text, least))


def _delay(values: _Values) -> int:
    text = values.text("maxTriggerDelay")
    if text is None:
        return 15 * 60_000
    found = _DELAY.fullmatch(text.strip().lower())
    if found is None:
        raise BadOption("maxTriggerDelay", f"{text!r} is no time such as 500ms, 30s, 15m or 1h")
    return int(found[1]) * _UNITS[found[2]]


def _moment(name: str, text: str) -> int:
    digits = text.strip()
    if digits.isascii() and digits.isdigit():
        value = int(digits)
    else:
        try:
            moment = datetime.fromisoformat(digits)
        except ValueError as error:
            raise BadOption(name, f"{text!r} is neither milliseconds nor a time such as 2026-11-18T12:00:00Z") from error
        if moment.tzinfo is None:
            raise BadOption(name, f"{text!r} does not say its zone: append Z or +01:00")
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
        value = since.days * 86_400_000 + since.seconds * 1000 + since.microseconds // 1000
    if not 0 <= value <= _LATEST_MS:
        raise BadOption(name, f"{text!r} is not between 1970 and 9999")
    return value


_TOPIC: Final[Callable[[str], object]] = re.compile(r"[A-Za-z0-9._@-]{1,249}", re.ASCII).fullmatch


def _topic(option: str, name: str) -> str:
    if not _TOPIC(name):
        raise BadOption(option, f"{name!r} is no name of a queue")
    return name


def _shown(given: Mapping[str, str], lowered: str) -> str:
    return next((name for name in given if name.lower() == lowered), lowered)


def _suggest(name: str, use: Use) -> str:
    if name.startswith("kafka."):
        return "of the settings of Kafka's client, only kafka.bootstrap.servers and kafka.group.id mean something here"
    known = sorted(option.name for option in OPTIONS if use in option.uses)
    return f"there are {', '.join(known)}"
