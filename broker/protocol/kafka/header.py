"""The header before each request and response. Flexible versions add tagged fields to it; ApiVersions' answers never do.

An answer to ApiVersions must be readable by a client that does not know yet what we speak.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from quorate.broker.protocol.kafka.apis import FLEXIBLE_FROM, Api
from quorate.broker.protocol.kafka.errors import BadMessage
from quorate.broker.protocol.kafka.wire import INT32, malformed, read_string, skip_tags, write_string

_REQUEST: Final = struct.Struct(">hhi")


class RequestHeader(NamedTuple):
    """`body_at` is where the body begins in the view that was given."""

    api: int
    version: int
    correlation_id: int
    client_id: str | None
    body_at: int


def decode_request_header(view: memoryview) -> RequestHeader:
    """The header of a request frame (without its length). A version that we do not speak passes, an unknown API does not."""
    with malformed():
        api, version, correlation_id = _REQUEST.unpack_from(view)
        flexible_from = FLEXIBLE_FROM.get(api)
        if flexible_from is None or version < 0:
            raise BadMessage(f"there is no API {api} version {version}")
        # The client id is an old-style string in flexible headers too.
        client_id, at = read_string(view, 8, False)
        if version >= flexible_from:
            at = skip_tags(view, at)
    return RequestHeader(api, version, correlation_id, client_id, at)


def write_request_header(out: bytearray, api: int, version: int, correlation_id: int, client_id: str | None) -> None:
    out += _REQUEST.pack(api, version, correlation_id)
    write_string(out, client_id, False)
    if version >= FLEXIBLE_FROM[Api(api)]:
        out.append(0)


def write_response_header(out: bytearray, api: int, version: int, correlation_id: int) -> None:
    out += INT32.pack(correlation_id)
    if _tagged(api, version):
        out.append(0)


def decode_response_header(api: int, version: int, view: memoryview) -> tuple[int, int]:
    """The correlation id, and where the body begins."""
    with malformed():
        (correlation_id,) = INT32.unpack_from(view)
        return correlation_id, skip_tags(view, 4) if _tagged(api, version) else 4


def _tagged(api: int, version: int) -> bool:
    return api != Api.API_VERSIONS and version >= FLEXIBLE_FROM[Api(api)]
