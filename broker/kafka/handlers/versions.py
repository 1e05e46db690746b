"""ApiVersions: what this broker speaks."""

from __future__ import annotations

from collections.abc import Mapping

from quorate.broker.kafka.context import Message
from quorate.broker.protocol.kafka.apis import OUR_SOFTWARE, Api
from quorate.broker.protocol.kafka.errors import Error

Served = Mapping[int, tuple[int, int]]


def api_versions(served: Served, own: Served, message: Message) -> Message:
    """All APIs and their versions. `own` are those that only our own clients are told of: others see what Kafka has."""
    if (message.get("client_software_name") or "").startswith(OUR_SOFTWARE):
        served = {**served, **own}
    keys = [{"api_key": api, "min_version": least, "max_version": most} for api, (least, most) in sorted(served.items())]
    return {"error_code": 0, "api_keys": keys, "throttle_time_ms": 0}


def unsupported_version(served: Served) -> Message:
    """The answer to a version that we do not know: the client tries again with one that is listed here."""
    least, most = served[Api.API_VERSIONS]
    key = {"api_key": int(Api.API_VERSIONS), "min_version": least, "max_version": most}
    return {"error_code": int(Error.UNSUPPORTED_VERSION), "api_keys": [key]}
