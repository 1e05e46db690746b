"""Options: every mistake gets one message that names the option."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.client import TopicPartition
from quorate.client.batches import Compression
from quorate.spark.errors import BadOption
from quorate.spark.offsets import from_json, to_json
from quorate.spark.options import EARLIEST, LATEST, OPTIONS, Use, include_headers, read_options, write_options

BASE = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "q"}
WRITE = {"bootstrap": "127.0.0.1:9092", "topic": "q"}
TINY = '{"q":{"0":5}}'


def without(name: str) -> dict[str, str]:
    return {key: value for key, value in BASE.items() if key != name}


def test_defaults_are_those_of_kafkas_source() -> None:
    batch, stream = read_options(BASE, Use.BATCH), read_options(BASE, Use.STREAM)
    assert (batch.starting.everywhere, stream.starting.everywhere) == (EARLIEST, LATEST)
    assert batch.ending.everywhere == LATEST
    assert batch.fail_on_data_loss
    assert not batch.headers
    assert (stream.max_offsets, stream.min_offsets, stream.max_delay_ms) == (None, None, 900_000)
    assert batch.subscription.topics == ("q",)
    assert batch.client.bootstrap == "127.0.0.1:9092"
    assert batch.group is None


def test_everything_can_be_set() -> None:
    given = {
        "BOOTSTRAP": "a:1,b:2",
        "subscribePattern": "q.*",
        "startingOffsetsByTimestamp": '{"q":{"0":17}}',
        "startingoffsetsbytimestampstrategy": "latest",
        "maxOffsetsPerTrigger": "100",
        "minOffsetsPerTrigger": "10",
        "maxTriggerDelay": "2m",
        "maxBytesPerTrigger": "1000",
        "longPollMs": "0",
        "minPartitions": "9",
        "failOnDataLoss": "FALSE",
        "includeHeaders": "true",
        "kafka.group.id": "g",
        "groupIdPrefix": "night",
        "fetchBytes": "2048",
        "retryMs": "7",
        "requestTimeoutMs": "8",
    }
    options = read_options(given, Use.STREAM)
    assert options.subscription.pattern == "q.*"
    assert options.starting.times == {TopicPartition("q", 0): 17}
    assert options.start_at_latest
    assert (options.max_offsets, options.min_offsets, options.max_delay_ms) == (100, 10, 120_000)
    assert (options.max_bytes, options.long_poll_ms, options.min_partitions) == (1000, 0, 9)
    assert (options.fail_on_data_loss, options.headers, options.group, options.fetch_bytes) == (False, True, "g", 2048)
    assert (options.client.client_id, options.client.retry_ms, options.client.request_timeout_ms) == ("night", 7, 8)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1700000000123", 1_700_000_000_123),
        ("2023-11-14T22:13:20.5Z", 1_700_000_000_500),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
    ],
)
def test_a_moment_for_a_cut(text: str, ms: int) -> None:
    assert read_options({**BASE, "asOf": text}, Use.BATCH).as_of_ms == ms


@pytest.mark.parametrize(
    ("option", "given", "says"),
    [
        ("kafka.bootstrap.servers", without("kafka.bootstrap.servers"), "missing"),
        ("kafka.bootstrap.servers", {**BASE, "kafka.bootstrap.servers": "nowhere"}, "not host:port"),
        ("bootstrap", {**BASE, "bootstrap": "a:1"}, "contradicts kafka.bootstrap.servers"),
        ("subscribe", without("subscribe"), "missing"),
        ("subscribe", {**BASE, "subscribe": " , "}, "no queue in it"),
        ("subscribe", {**BASE, "subscribe": "a b"}, "no name"),
        ("assign", {**BASE, "assign": '{"q":[0]}'}, "contradicts subscribe"),
        ("assign", {**without("subscribe"), "assign": '{"q":0}'}, "list of partitions"),
        ("assign", {**without("subscribe"), "assign": '{"q":[-1]}'}, "no partition"),
        ("assign", {**without("subscribe"), "assign": "{}"}, "no partition in it"),
        ("subscribePattern", {**without("subscribe"), "subscribePattern": "("}, "regular expression"),
        ("startingOffsets", {**BASE, "startingOffsets": "soon"}, "neither earliest nor latest"),
        ("startingOffsets", {**BASE, "startingOffsets": ""}, "empty"),
        ("startingOffsets", {**BASE, "startingOffsets": '{"q":'}, "no JSON"),
        ("startingOffsets", {**BASE, "startingOffsets": '{"q":5}'}, "should be an object"),
        ("startingOffsets", {**BASE, "startingOffsets": '{"q":{"x":5}}'}, "a partition is a number"),
        ("startingOffsets", {**BASE, "startingOffsets": '{"q":{"0":"5"}}'}, "whole number"),
        ("startingOffsets", {**BASE, "startingOffsets": '{"q":{"0":true}}'}, "whole number"),
        ("startingOffsets", {**BASE, "startingOffsets": '{"q":{"0":-3}}'}, "the least is -2"),
        ("startingOffsets", {**BASE, "startingOffsets": '{"q":{"0":1,"0":2}}'}, "twice"),
        ("startingOffsets", {**BASE, "startingOffsets": '{"q":{"0":1,"00":2}}'}, "twice"),
        ("startingOffsets", {**BASE, "startingOffsets": "{}"}, "no partition in it"),
        ("startingTimestamp", {**BASE, "startingOffsets": TINY, "startingTimestamp": "5"}, "contradicts startingOffsets"),
        ("startingTimestamp", {**BASE, "startingTimestamp": "noon"}, "no whole number"),
        ("startingTimestamp", {**BASE, "startingTimestamp": "-1"}, "not from 0"),
        ("startingOffsetsByTimestamp", {**BASE, "startingOffsetsByTimestamp": '{"q":{"0":-1}}'}, "the least is 0"),
        ("startingOffsetsByTimestampStrategy", {**BASE, "startingOffsetsByTimestampStrategy": "error"}, "means nothing"),
        ("minPartitions", {**BASE, "minPartitions": "0"}, "not from 1"),
        ("minPartitions", {**BASE, "minPartitions": "٣"}, "no whole number"),
        ("failOnDataLoss", {**BASE, "failOnDataLoss": "maybe"}, "none of true, false"),
        ("startingOffset", {**BASE, "startingOffset": "latest"}, "there is no such option; there are "),
        ("kafka.max.poll.records", {**BASE, "kafka.max.poll.records": "5"}, "only kafka.bootstrap.servers"),
        ("topic", {**BASE, "topic": "q"}, "not for"),
    ],
)  # fmt: skip
def test_mistakes_in_any_read(option: str, given: dict[str, str], says: str) -> None:
    for use in (Use.BATCH, Use.STREAM):
        refused(option, says, read_options, given, use)
    refused(option, says, include_headers, given)


def refused(option: str, says: str, function: Any, *arguments: Any) -> None:
    with pytest.raises(BadOption) as caught:
        function(*arguments)
    assert caught.value.option == option
    assert str(caught.value).startswith(f"option {option}: ")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("option", "more", "says"),
    [
        ("startingOffsets", {"startingOffsets": "latest"}, "cannot begin at latest"),
        ("startingOffsets", {"startingOffsets": '{"q":{"0":-1}}'}, "cannot begin at latest"),
        ("endingOffsets", {"endingOffsets": "earliest"}, "cannot end at earliest"),
        ("endingOffsets", {"endingOffsets": '{"q":{"0":-2}}'}, "the least is -1"),
        ("endingTimestamp", {"endingOffsets": "latest", "endingTimestamp": "5"}, "contradicts endingOffsets"),
        ("endingOffsets", {"endingOffsets": "latest", "asOf": "5"}, "contradicts asOf"),
        ("asOf", {"asOf": "yesterday"}, "neither milliseconds nor a time"),
        ("asOf", {"asOf": "2026-11-18T12:00:00"}, "does not say its zone"),
        ("asOf", {"asOf": "1700000000000000"}, "between 1970 and 9999"),
        ("asOfTimeoutMs", {"asOfTimeoutMs": "5"}, "nothing without asOf"),
        ("maxOffsetsPerTrigger", {"maxOffsetsPerTrigger": "5"}, "not for batch reads"),
        ("kafka.group.id", {"kafka.group.id": "g"}, "not for batch reads"),
    ],
)
def test_mistakes_in_batch_reads(option: str, more: dict[str, str], says: str) -> None:
    refused(option, says, read_options, {**BASE, **more}, Use.BATCH)


@pytest.mark.parametrize(
    ("option", "more", "says"),
    [
        ("endingOffsets", {"endingOffsets": "latest"}, "not for streaming reads"),
        ("asOf", {"asOf": "5"}, "not for streaming reads"),
        ("maxOffsetsPerTrigger", {"maxOffsetsPerTrigger": "1.5"}, "no whole number"),
        ("minOffsetsPerTrigger", {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, "more than"),
        ("maxTriggerDelay", {"maxTriggerDelay": "5s"}, "nothing without minOffsetsPerTrigger"),
        ("maxTriggerDelay", {"minOffsetsPerTrigger": "5", "maxTriggerDelay": "soon"}, "no time such as"),
        ("maxBytesPerTrigger", {"maxBytesPerTrigger": "-5"}, "not from 1"),
        ("longPollMs", {"longPollMs": "99999999"}, "not from 0 to 60000"),
    ],
)
def test_mistakes_in_streams(option: str, more: dict[str, str], says: str) -> None:
    refused(option, says, read_options, {**BASE, **more}, Use.STREAM)


def test_at_load_it_is_not_known_yet_what_it_is_for() -> None:
    assert include_headers({**BASE, "includeHeaders": "true", "startingOffsets": "latest"})
    assert not include_headers({**BASE, "asOf": "5"})
    refused(
        "minOffsetsPerTrigger",
        "more than",
        include_headers,
        {**BASE, "maxOffsetsPerTrigger": "1", "minOffsetsPerTrigger": "2"},
    )


def test_writes() -> None:
    options = write_options(WRITE)
    assert (options.topic, options.exactly_once, options.compression) == ("q", False, Compression.NONE)
    given = {
        **WRITE,
        "delivery": "exactly-once",
        "applicationId": "a",
        "batchId": "7",
        "compression": "zstd",
        "checkpointLocation": "x",
    }
    options = write_options(given)
    assert (options.exactly_once, options.application_id, options.batch_id) == (True, "a", 7)
    assert options.compression is Compression.ZSTD


@pytest.mark.parametrize(
    ("option", "more", "says"),
    [
        ("delivery", {"delivery": "twice"}, "none of at-least-once, exactly-once"),
        ("applicationId", {"applicationId": "a"}, "nothing without delivery=exactly-once"),
        ("batchId", {"delivery": "exactly-once", "batchId": "1"}, "nothing without applicationId"),
        ("compression", {"compression": "rar"}, "none of none, gzip"),
        ("topic", {"topic": "no/name"}, "no name"),
        ("batchBytes", {"batchBytes": "1"}, "not from 1024"),
        ("subscribe", {"subscribe": "q"}, "not for writes"),
        ("topci", {"topci": "q"}, "no such option"),
    ],
)
def test_mistakes_in_writes(option: str, more: dict[str, str], says: str) -> None:
    refused(option, says, write_options, {**WRITE, **more})


def test_there_and_back() -> None:
    offsets = {TopicPartition("b", 0): 1, TopicPartition("a", 10): 2, TopicPartition("a", 9): 3}
    assert list(to_json(offsets)) == ["a", "b"]
    assert list(to_json(offsets)["a"]) == ["9", "10"]
    assert from_json(to_json(offsets)) == offsets


def test_each_option_has_one_line() -> None:
    assert len({option.name.lower() for option in OPTIONS}) == len(OPTIONS)
    for option in OPTIONS:
        assert option.doc
        assert option.uses
