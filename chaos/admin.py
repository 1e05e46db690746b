"""The cluster's HTTP administration as chaos uses it: JSON in, JSON out, with deadlines."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

_AGAIN_S = 0.2


class AdminRefused(RuntimeError):
    """A node answered with an error, or not at all."""


async def ask(base: str, method: str, path: str, body: object = None, timeout_s: float = 5.0) -> Any:
    """What a node answers. Raises AdminRefused."""
    return await asyncio.to_thread(_ask, base, method, path, body, timeout_s)


def _ask(base: str, method: str, path: str, body: object, timeout_s: float) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            raise AdminRefused(f"{method} {path}: {error.code} {error.read().decode(errors='replace')}") from error
    except (OSError, ValueError) as error:
        raise AdminRefused(f"{method} {base}{path}: {error}") from error


async def is_whole(base: str, expected: int) -> bool:
    """Whether a node is ready, sees so many nodes alive, and knows a leader of every partition."""
    try:
        await ask(base, "GET", "/readyz")
        nodes = (await ask(base, "GET", "/v1/nodes"))["nodes"]
        queues = (await ask(base, "GET", "/v1/queues"))["queues"]
    except AdminRefused:
        return False
    alive = sum(1 for one in nodes if one["state"] in ("alive", "draining"))
    return alive >= expected and all(one["leader"] is not None for queue in queues for one in queue["partitions"])


async def until(done: Callable[[], Awaitable[bool]], patience_s: float, complaint: str) -> None:
    """Ask again until it is so, whoever refuses meanwhile: other faults may be in the way. Raises TimeoutError."""
    try:
        async with asyncio.timeout(patience_s):
            while True:
                with suppress(AdminRefused):
                    if await done():
                        return
                await asyncio.sleep(_AGAIN_S)
    except TimeoutError as error:
        raise TimeoutError(f"{complaint} after {patience_s:.0f} s") from error
