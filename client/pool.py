"""All connections of a client, by node and by what they are for.

CONTROL requests of one node, which are answered at once, share a connection, and so do ORDERED ones, which arrive in the
order in which they were sent. All others get a connection to themselves, so that nothing waits behind them.
"""

from __future__ import annotations

import asyncio
from copy import copy
from enum import Enum, auto
from typing import Final

from quorate.client.connection import Answer, Connection, Request
from quorate.client.errors import ClientClosed, ConnectionLost, QuorateError
from quorate.client.settings import ClientSettings
from quorate.client.values import Address

_REMEMBER_S: Final = 0.05
"""For so long nobody knocks again where nobody opened: many who want the same node knock once."""


class Lane(Enum):
    """What a connection is for."""

    CONTROL = auto()
    ORDERED = auto()
    ALONE = auto()


class _Node:
    """The connections to one node."""

    def __init__(self, limit: int) -> None:
        self.shared: dict[Lane, Connection] = {}
        self.opening = {Lane.CONTROL: asyncio.Lock(), Lane.ORDERED: asyncio.Lock()}
        self.idle: list[Connection] = []
        self.room = asyncio.Semaphore(limit)
        self.refused: QuorateError | None = None
        self.refused_at = 0.0


class Pool:
    """Belongs to one event loop. Every method may raise QuorateError."""

    def __init__(self, settings: ClientSettings, loop: asyncio.AbstractEventLoop) -> None:
        self._settings = settings
        self._loop = loop
        self._nodes: dict[Address, _Node] = {}
        self._all: set[Connection] = set()
        self._closed = False

    def close(self) -> None:
        """End all connections: what is under way fails with ClientClosed."""
        self._closed = True
        for connection in self._all:
            connection.fail(ClientClosed())
        self._all.clear()
        self._nodes.clear()

    def connected(self, address: Address) -> bool:
        """Whether this node can be asked (CONTROL) without a new connection."""
        node = self._nodes.get(address)
        connection = node.shared.get(Lane.CONTROL) if node is not None else None
        return connection is not None and connection.lost is None

    async def ask(self, address: Address, request: Request, lane: Lane) -> Answer:
        """Ask one node, once."""
        node = self._nodes.get(address)
        if node is None:
            node = self._nodes[address] = _Node(self._settings.max_connections)
        if lane is Lane.ALONE:
            return await self._ask_alone(address, node, request)
        return await (await self._shared(address, node, lane)).ask(request)

    async def _ask_alone(self, address: Address, node: _Node, request: Request) -> Answer:
        async with node.room:
            connection = self._idle(node) or await self._open(address, node, self._loop.time())
            try:
                return await connection.ask(request)
            finally:
                if connection.busy:
                    # Whoever waited does not want the answer any more, and nobody else shall wait for it.
                    connection.fail(ConnectionLost(str(address), "given up: the request was cancelled"))
                if connection.lost is None and not self._closed:
                    node.idle.append(connection)

    def _idle(self, node: _Node) -> Connection | None:
        while node.idle:
            connection = node.idle.pop()
            if connection.lost is None:
                return connection
        return None

    async def _shared(self, address: Address, node: _Node, lane: Lane) -> Connection:
        began = self._loop.time()
        async with node.opening[lane]:
            connection = node.shared.get(lane)
            if connection is None or connection.lost is not None:
                connection = node.shared[lane] = await self._open(address, node, began)
        return connection

    async def _open(self, address: Address, node: _Node, began: float) -> Connection:
        """A new connection that has been introduced. `began`: failures after this moment are those of the caller too."""
        if self._closed:
            raise ClientClosed
        if node.refused is not None and node.refused_at >= began - _REMEMBER_S:
            raise copy(node.refused)
        connection = Connection(address, self._settings, self._loop)
        self._all = {one for one in self._all if one.lost is None}
        self._all.add(connection)
        try:
            async with asyncio.timeout(self._settings.connect_timeout_ms / 1000):
                await self._loop.create_connection(lambda: connection, address.host, address.port)
                await connection.introduce()
        except OSError as error:
            raise self._refused(node, connection, f"no connection: {_words(error)}") from error
        except QuorateError as error:
            if isinstance(error, ConnectionLost):
                raise self._refused(node, connection, error.why) from error
            connection.fail(error)
            raise
        except asyncio.CancelledError:
            connection.fail(ConnectionLost(str(address), "given up"))
            raise
        node.refused = None
        return connection

    def _refused(self, node: _Node, connection: Connection, why: str) -> ConnectionLost:
        error = ConnectionLost(str(connection.address), why, True)
        connection.fail(error)
        node.refused, node.refused_at = error, self._loop.time()
        return error


def _words(error: OSError) -> str:
    return error.strerror or str(error) or "it took too long"
