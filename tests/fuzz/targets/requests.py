"""Requests of Kafka clients: the decoders of all APIs and versions, and the two that are written by hand."""

from __future__ import annotations

from typing import Any

from quorate.broker.protocol.kafka.apis import Api, supports
from quorate.broker.protocol.kafka.codec import decode_request, encode_request
from quorate.broker.protocol.kafka.errors import BadMessage
from quorate.broker.protocol.kafka.fetch import FetchRequest, decode_fetch
from quorate.broker.protocol.kafka.header import decode_request_header
from quorate.broker.protocol.kafka.produce import ProduceRequest, decode_produce
from tests.fuzz.targets.expect import expect


def kafka(data: bytes) -> None:
    """A frame from a Kafka client: its header chooses the API and the version, and so which of the decoders is meant."""
    try:
        header = decode_request_header(memoryview(data))
        body = memoryview(data)[header.body_at :]
        value = decode_request(header.api, header.version, body)
    except BadMessage:
        return
    again = encode_request(header.api, header.version, value)
    expect(decode_request(header.api, header.version, memoryview(again)) == value, "what was read can be written")
    expect(supports(header.api, header.version), "only what is advertised is read")
    try:
        if header.api == Api.PRODUCE:
            _produce(decode_produce(header.version, body), value)
        elif header.api == Api.FETCH:
            _fetch(decode_fetch(header.version, body), value)
    except BadMessage as error:
        expect("follow" in str(error), "the two ways differ in what may follow a request, and in nothing else")


def _produce(found: ProduceRequest, value: dict[str, Any]) -> None:
    parts = [
        (topic["name"], one["index"], one["records"]) for topic in value["topic_data"] for one in topic["partition_data"]
    ]
    expect(parts == [(name, *one) for name, batches in found.topics for one in batches], "the same batches")


def _fetch(found: FetchRequest, value: dict[str, Any]) -> None:
    wishes = [(one["partition"], one["fetch_offset"]) for topic in value["topics"] for one in topic["partitions"]]
    expect(wishes == [(one[0], one[2]) for _, parts in found.topics for one in parts], "the same wishes")
