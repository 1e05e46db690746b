"""Bodies and whole frames of every message that `apis.SUPPORTED` names, as plain dicts, in both directions.

Names are those of Kafka's schemas in snake_case. Each (api, version, direction) is compiled from its table when it is first
used. Produce and Fetch have faster ways of their own beside this one (`produce`, `fetch`).
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

from quorate.broker.protocol.kafka import decoder, encoder
from quorate.broker.protocol.kafka.apis import SUPPORTED, Api, is_flexible, supports
from quorate.broker.protocol.kafka.errors import BadMessage, BadValue, Error
from quorate.broker.protocol.kafka.header import decode_response_header, write_request_header, write_response_header
from quorate.broker.protocol.kafka.schema import MESSAGES
from quorate.broker.protocol.kafka.wire import INT32, malformed


def decode_request(api: int, version: int, body: memoryview) -> dict[str, Any]:
    """The body of a request. BadMessage for anything malformed, or a version that we do not speak."""
    return _decode(api, version, "request", body)


def decode_response(api: int, version: int, body: memoryview) -> dict[str, Any]:
    """The body of a response: the client's direction."""
    return _decode(api, version, "response", body)


def decode_response_frame(api: int, version: int, frame: memoryview) -> tuple[int, dict[str, Any]]:
    """The correlation id and the body of a response frame (without its length)."""
    correlation_id, at = decode_response_header(api, version, frame)
    return correlation_id, decode_response(api, version, frame[at:])


def encode_request(api: int, version: int, value: dict[str, Any]) -> bytes:
    """The body of a request. BadValue when the value does not fit the table."""
    return bytes(_encode(bytearray(), api, version, "request", value))


def encode_response(api: int, version: int, value: dict[str, Any]) -> bytes:
    """The body of a response. BadValue when the value does not fit the table."""
    return bytes(_encode(bytearray(), api, version, "response", value))


def encode_response_frame(api: int, version: int, correlation_id: int, value: dict[str, Any]) -> bytes:
    """Length, header and body: what goes to the socket."""
    out = bytearray(4)
    write_response_header(out, api, version, correlation_id)
    return _close(_encode(out, api, version, "response", value))


def encode_request_frame(api: int, version: int, correlation_id: int, client_id: str | None, value: dict[str, Any]) -> bytes:
    """Length, header and body: what goes to the socket."""
    out = bytearray(4)
    write_request_header(out, api, version, correlation_id, client_id)
    return _close(_encode(out, api, version, "request", value))


def encode_api_versions_frame(version: int, correlation_id: int, error: int = Error.NONE, throttle_ms: int = 0) -> bytes:
    """What we speak. A version that is too new for us gets what every client can read: version 0, and error 35."""
    if not supports(Api.API_VERSIONS, version):
        version, error = 0, Error.UNSUPPORTED_VERSION
    keys = [{"api_key": api, "min_version": first, "max_version": last} for api, (first, last) in SUPPORTED.items()]
    value = {"error_code": error, "api_keys": keys, "throttle_time_ms": throttle_ms}
    return encode_response_frame(Api.API_VERSIONS, version, correlation_id, value)


def _decode(api: int, version: int, direction: str, body: memoryview) -> dict[str, Any]:
    if not supports(api, version):
        raise BadMessage(f"there is no API {api} version {version}")
    with malformed():
        # What follows is not looked at, as in Kafka. librdkafka needs that: to ask Metadata 9+ for all topics it sends the
        # four bytes of an old-style count where one byte is the null array, so three are left over at the end.
        value, _ = _reader(api, version, direction)(body, 0)
    return value  # type: ignore[no-any-return]


def _encode(out: bytearray, api: int, version: int, direction: str, value: dict[str, Any]) -> bytearray:
    if not supports(api, version):
        raise BadValue(f"there is no API {api} version {version}")
    try:
        _writer(api, version, direction)(out, value)
    except (struct.error, TypeError, AttributeError, UnicodeEncodeError) as error:
        raise BadValue(f"{Api(api).name} {direction} version {version}: {error}") from error
    return out


def _close(out: bytearray) -> bytes:
    INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)


# One entry per message and version that was used: `supports` bounds them.
@cache
def _reader(api: int, version: int, direction: str) -> decoder.Read:
    return decoder.compile_struct(MESSAGES[Api(api), direction], version, is_flexible(api, version))


@cache
def _writer(api: int, version: int, direction: str) -> encoder.Write:
    return encoder.compile_struct(MESSAGES[Api(api), direction], version, is_flexible(api, version))
