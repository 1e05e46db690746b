"""`KafkaListener`: the TCP server for Kafka clients, what its connections share, and how it ends."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Coroutine
from typing import Any

from quorate.broker.kafka.backend import Backend
from quorate.broker.kafka.budget import Budget
from quorate.broker.kafka.complaints import Complaints
from quorate.broker.kafka.connection import Connection
from quorate.broker.kafka.context import CannotAnswer, Context
from quorate.broker.kafka.dispatch import dispatch
from quorate.broker.kafka.request import Request
from quorate.broker.kafka.settings import ListenerSettings

_LOG = logging.getLogger("quorate.kafka")


class KafkaListener:
    """Serves Kafka clients from a backend: `start`, then `close`."""

    def __init__(self, backend: Backend, settings: ListenerSettings | None = None) -> None:
        self.settings = settings or ListenerSettings()
        self.budget = Budget(self.settings.node_in_flight_bytes)
        self.answers = Budget(self.settings.node_in_flight_bytes)
        self.held = False
        """Whoever connects is taken, and not heard before `begin`."""
        self._backend = backend
        self._server: asyncio.Server | None = None
        self._connections: dict[Connection, None] = {}
        self._by_host: dict[str, int] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None

    # Life.

    async def start(
        self, host: str, port: int, security: ssl.SSLContext | None = None, *, held: bool = False
    ) -> tuple[str, int]:
        """Listen, but if `held`, serve nobody before `begin`; the address, with the port that was chosen if `port` is 0.
        Raises OSError.
        """
        self.held = held
        self.loop = asyncio.get_running_loop()
        self._complaints = Complaints(_LOG, self.loop.time)
        self._context = Context(self._backend, self.settings, self.loop, self.answers, self._spawn)
        self._server = await self.loop.create_server(lambda: Connection(self), host, port, ssl=security)
        self._plan_sweep()
        bound_host, bound_port = self._server.sockets[0].getsockname()[:2]
        return bound_host, bound_port

    def begin(self) -> None:
        """Serve those that were held."""
        self.held = False
        for connection in self._connections:
            connection.wake()

    async def close(self) -> None:
        """Accept nobody, finish what is under way within the time that settings allow, and close every connection."""
        if self._server is None:
            return
        server, self._server = self._server, None
        server.close()
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self._connections):
            connection.finish()
        await self._until_empty(self.settings.close_ms / 1000)
        for connection in list(self._connections):
            connection.abort()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._until_empty(self.settings.close_ms / 1000)
        await server.wait_closed()

    async def _until_empty(self, timeout_s: float) -> None:
        if self._connections:
            self._emptied = self.loop.create_future()
            await asyncio.wait([self._emptied], timeout=timeout_s)

    # What connections ask for.

    def admit(self, connection: Connection) -> bool:
        """Whether there is room for one more connection."""
        host, settings = connection.host, self.settings
        count = self._by_host.get(host, 0)
        if self._server is None:
            return False
        if len(self._connections) >= settings.max_connections:
            self.complain(host, f"refused: there are {settings.max_connections} connections already")
            return False
        if count >= settings.max_connections_per_ip:
            self.complain(host, f"refused: it has {settings.max_connections_per_ip} connections already")
            return False
        self._connections[connection] = None
        self._by_host[host] = count + 1
        return True

    def lost(self, connection: Connection) -> None:
        """A connection that was admitted is gone."""
        if connection not in self._connections:
            return
        del self._connections[connection]
        left = self._by_host[connection.host] - 1
        if left:
            self._by_host[connection.host] = left
        else:
            del self._by_host[connection.host]
        if not self._connections and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    def serve(self, request: Request) -> None:
        """See to it that a request is completed. Raises BadMessage if it cannot be understood."""
        later = dispatch(self._context, request)
        if later is not None:
            self._run(request, later)

    def drained(self) -> None:
        """What was read in one go has been served."""
        self._backend.drained()

    def complain(self, host: str, what: str) -> None:
        """Log what a client did, unless something was said of it lately."""
        self._complaints.about(host, what)

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self._connections)

    # Inside.

    def _run(self, request: Request, later: Coroutine[Any, Any, dict[str, Any]]) -> None:
        task = self.loop.create_task(later)
        self._tasks.add(task)

        def done(task: asyncio.Task[dict[str, Any]]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                return
            error = task.exception()
            if error is None:
                return request.reply(task.result())
            if isinstance(error, CannotAnswer):
                return request.origin.fail(str(error))
            # A mistake of ours. The client is told nothing it could misunderstand, and everybody else goes on.
            _LOG.error("api %d version %d failed", request.api, request.version, exc_info=error)
            request.origin.fail("its request could not be served")

        task.add_done_callback(done)

    def _spawn(self, later: Coroutine[Any, Any, None]) -> None:
        """Run what answers its request by itself."""
        task = self.loop.create_task(later)
        self._tasks.add(task)
        task.add_done_callback(self._spawned)

    def _spawned(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _LOG.error("a request failed half way", exc_info=task.exception())

    def _plan_sweep(self) -> None:
        period = max(0.01, min(self.settings.idle_ms, self.settings.frame_ms, 4_000) / 4_000)
        self._sweep = self.loop.call_later(period, self._look_at_all)

    def _look_at_all(self) -> None:
        now = self.loop.time()
        for connection in list(self._connections):
            connection.check(now)
        self._plan_sweep()
