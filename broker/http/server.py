"""The HTTP listener (aiohttp): routes, JSON, and one shape of error for everything."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from quorate.broker.http.admin import Admin, AdminFailure, Facts
from quorate.broker.json_text import BadJson, read_json
from quorate.broker.kafka.complaints import Complaints

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_MAX_BODY_BYTES = 1 << 20
_MAX_DIGITS = 10


@web.middleware
async def failures(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every refusal becomes the same JSON object."""
    try:
        return await handler(request)
    except AdminFailure as failure:
        return web.json_response(failure.facts(), status=failure.status)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        said = f"{request.method} {request.path}: {error.reason}"
        refusal = AdminFailure(error.status, error.reason.lower().replace(" ", "-"), said)
        return web.json_response(refusal.facts(), status=error.status)


class _Log(logging.LoggerAdapter[logging.Logger]):
    """What is no HTTP gets one line, and not a traceback each time: whoever sends it must not fill the disk."""

    def __init__(self) -> None:
        super().__init__(logging.getLogger("quorate.http"), {})
        self._complaints = Complaints(self.logger, time.monotonic)

    def exception(self, msg: object, *args: object, exc_info: Any = True, **kwargs: Any) -> None:
        if isinstance(exc_info, HttpProcessingError):
            self._complaints.about(str(args[0] if args else "?"), f"no HTTP: {' '.join(exc_info.message.split())[:200]}")
        else:
            super().exception(msg, *args, exc_info=exc_info, **kwargs)


class HttpListener:
    """Serves one node's HTTP port: `start`, then `close`."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; the address, with the port that was chosen if `port` is 0. Raises OSError."""
        application = web.Application(middlewares=[failures], client_max_size=_MAX_BODY_BYTES)
        application.add_routes(self._routes())
        self._runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=2.0, logger=_Log())
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        bound: tuple[str, int] = self._runner.addresses[0][:2]
        return bound

    async def close(self) -> None:
        """Finish what is under way, and let go of the port."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _routes(self) -> list[web.RouteDef]:
        return [
            web.get("/healthz", self._health),
            web.get("/readyz", self._readiness),
            web.get("/v1/cluster", self._cluster),
            web.get("/v1/nodes", self._nodes),
            web.post("/v1/nodes", self._join),
            web.delete("/v1/nodes/{node}", self._remove),
            web.post("/v1/nodes/{node}/drain", self._drain),
            web.post("/v1/nodes/{node}/undrain", self._undrain),
            web.get("/v1/queues", self._queues),
            web.post("/v1/rebalance", self._rebalance),
        ]

    async def _health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _readiness(self, request: web.Request) -> web.Response:
        ready = self._admin.ready
        return web.json_response({"status": "ready" if ready else "starting"}, status=200 if ready else 503)

    async def _cluster(self, request: web.Request) -> web.Response:
        return web.json_response(self._admin.cluster())

    async def _nodes(self, request: web.Request) -> web.Response:
        return web.json_response({"nodes": self._admin.nodes()})

    async def _queues(self, request: web.Request) -> web.Response:
        return web.json_response({"queues": await self._admin.queues()})

    async def _join(self, request: web.Request) -> web.Response:
        return web.json_response(await self._admin.join(await _body(request)))

    async def _drain(self, request: web.Request) -> web.Response:
        await self._admin.drain(_node(request))
        return web.json_response({"status": "draining"}, status=202)

    async def _undrain(self, request: web.Request) -> web.Response:
        await self._admin.undrain(_node(request))
        return web.json_response({"status": "joined"})

    async def _remove(self, request: web.Request) -> web.Response:
        await self._admin.remove(_node(request))
        return web.json_response({"status": "removed"})

    async def _rebalance(self, request: web.Request) -> web.Response:
        dry_run = dry_run_of(await _body(request))
        return web.json_response({"dry_run": dry_run, "moves": await self._admin.rebalance(dry_run=dry_run)})


def _node(request: web.Request) -> int:
    return node_number(request.match_info["node"])


async def _body(request: web.Request) -> Facts:
    return read_object(await request.read())


def node_number(text: str) -> int:
    """The number of a node, out of a path. Raises AdminFailure."""
    # Its length first: Python refuses to read numbers of thousands of digits.
    if len(text) > _MAX_DIGITS or not text.isdecimal() or not 0 < int(text) < 1 << 31:
        raise AdminFailure(400, "bad-request", f"{text[:40]!r} is no node's number")
    return int(text)


def read_object(text: bytes) -> Facts:
    """A JSON object; nothing at all is an empty one. Raises AdminFailure."""
    if not text:
        return {}
    try:
        said = read_json(text)
    except BadJson as error:
        raise AdminFailure(400, "bad-request", f"the body is not JSON: {error}") from error
    if not isinstance(said, dict):
        raise AdminFailure(400, "bad-request", "the body must be a JSON object")
    return said


def dry_run_of(said: Facts) -> bool:
    """Whether a request is only to tell what it would do. Raises AdminFailure."""
    dry_run = said.get("dry_run", False)
    if not isinstance(dry_run, bool):
        raise AdminFailure(400, "bad-request", f"dry_run must be true or false, not {dry_run!r:.40}")
    return dry_run
