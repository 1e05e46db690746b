"""All peer connections of one node: listening, dialing again and again, and sending.

Of each pair of nodes the one with the lower id dials, so there is one connection per pair and no tie to break.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Callable, Sequence
from typing import NamedTuple

from quorate.consensus.core.messages import NodeMessage
from quorate.consensus.core.types import Buffer, NodeId
from quorate.consensus.transport import frames
from quorate.consensus.transport.connection import Connection
from quorate.consensus.transport.encode import Encoder
from quorate.consensus.transport.handshake import (
    CLUSTER_BYTES,
    STORAGE_BYTES,
    Greeting,
    Identity,
    Refusal,
    Refused,
    encode_greeting,
    judge,
)
from quorate.consensus.transport.settings import TransportSettings

_log = logging.getLogger(__name__)
_LAST_WORDS_S = 1.0


class Address(NamedTuple):
    """Where a node listens for its peers."""

    host: str
    port: int


class Security(NamedTuple):
    """TLS for both directions; None for plain TCP."""

    server: ssl.SSLContext
    client: ssl.SSLContext


Problem = tuple[Refusal, str]
"""Why a node is not taken in."""
Admit = Callable[[Identity], Problem | None]
OnRefused = Callable[[Refusal, str], None]


class Network:
    """The connections of one node. Messages that cannot be sent now are dropped and counted: Raft sends them again."""

    def __init__(
        self,
        identity: Identity,
        on_message: Callable[[NodeMessage], None],
        settings: TransportSettings | None = None,
        security: Security | None = None,
        on_peer: Callable[[NodeId, bool], None] | None = None,
        on_drained: Callable[[], None] | None = None,
        on_note: Callable[[NodeId, bytes], None] | None = None,
        admit: Admit | None = None,
        on_refused: OnRefused | None = None,
    ) -> None:
        """`on_peer(node, up)` is called when a connection with a node is made or lost, `on_drained()` when everything that
        arrived together on one connection was handed to `on_message`, `on_note(node, note)` for what others `tell`.

        `admit(identity)` says why a node that speaks the right protocol must not be taken in, before anything else of it is
        read; what it has to remember it must have remembered when it returns. `on_refused(reason, text)` is called
        when another node does not want this one."""
        if len(identity.cluster) != CLUSTER_BYTES:
            raise ValueError(f"a cluster id has {CLUSTER_BYTES} bytes, not {len(identity.cluster)}")
        if len(identity.storage) != STORAGE_BYTES:
            raise ValueError(f"a storage id has {STORAGE_BYTES} bytes, not {len(identity.storage)}")
        self.identity = identity
        self.settings = settings if settings is not None else TransportSettings()
        self.heard = on_message
        self.unsent = 0
        """How many messages were dropped because there was no connection, or a slow one."""
        self.oversize = 0
        """How many messages were dropped because no peer would accept a frame of that size."""
        self.drained = on_drained if on_drained is not None else _nothing
        self.noted = on_note if on_note is not None else _not_noted
        self._on_peer = on_peer
        self._admit = admit
        self._on_refused = on_refused
        self._security = security
        self._encoder = Encoder()
        self._random = random.Random()
        self._addresses: dict[NodeId, Address] = {}
        self._open: dict[NodeId, Connection] = {}
        self._all: set[Connection] = set()
        self._dialers: dict[NodeId, asyncio.Task[None]] = {}
        self._server: asyncio.Server | None = None
        self._closing = False

    # Life.

    async def listen(self, address: Address) -> Address:
        """Listen for peers; returns where, with the port that was chosen if none was asked for."""
        tls = self._security.server if self._security is not None else None
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, address.host, address.port, ssl=tls)
        host, port = self._server.sockets[0].getsockname()[:2]
        return Address(host, port)

    def set_peer(self, node: NodeId, address: Address) -> None:
        """There is a node at this address (or it has moved there)."""
        if node == self.identity.node:
            raise ValueError(f"node {node} is this node itself")
        known = self._addresses.get(node)
        self._addresses[node] = address
        if known == address or self.identity.node > node:
            return
        self._stop_dialing(node)
        self._dialers[node] = asyncio.create_task(self._dial(node), name=f"dial node {node}")

    def remove_peer(self, node: NodeId, why: str = "") -> None:
        """Have nothing more to do with a node, and tell it `why`, if that is said, so that it does not try again."""
        self._addresses.pop(node, None)
        connection = self._open.get(node)
        if connection is None or not why:
            self._stop_dialing(node)
            if connection is not None:
                connection.abort()
            return
        connection.refuse(Refusal.BARRED, why)
        dialer = self._dialers.pop(node, None)
        if dialer is not None:
            # Not at once: it would hang up before the reason has left.
            connection.done.add_done_callback(lambda _: dialer.cancel())
        asyncio.get_running_loop().call_later(_LAST_WORDS_S, connection.abort)

    @property
    def connected(self) -> frozenset[NodeId]:
        """The nodes that can be sent to now."""
        return frozenset(self._open)

    def waiting_bytes(self, node: NodeId) -> int:
        """Bytes that wait for a node to take them."""
        connection = self._open.get(node)
        return connection.waiting_bytes if connection is not None else 0

    async def close(self) -> None:
        """Hang up everywhere, after what was sent has left, or after a second."""
        self._closing = True
        for node in list(self._dialers):
            self._stop_dialing(node)
        if self._server is not None:
            self._server.close()
        open_ones = list(self._all)
        for connection in open_ones:
            connection.close()
        if open_ones:
            _, late = await asyncio.wait([connection.done for connection in open_ones], timeout=1)
            for connection in list(self._all) if late else []:
                connection.abort()
            await asyncio.wait([connection.done for connection in open_ones])
        if self._server is not None:
            await self._server.wait_closed()

    # Sending.

    def send(self, node: NodeId, messages: Sequence[NodeMessage]) -> None:
        """Send all of these in one write. Never blocks; what cannot be sent is dropped and counted."""
        connection = self._open.get(node)
        if connection is None or connection.blocked:
            self.unsent += len(messages)
            return
        parts: list[Buffer] = []
        limit = self.settings.max_frame_bytes
        for message in messages:
            before = len(parts)
            if self._encoder.encode(message, parts) > limit:
                del parts[before:]
                self.oversize += 1
                _log.error("a %s for node %s is larger than max_frame_bytes", type(message).__name__, node)
        if parts:
            connection.send(parts, len(messages))

    def tell(self, node: NodeId, note: bytes) -> bool:
        """Send bytes that are not Raft's business; whether they were sent. They may be lost like any message."""
        size = frames.HEAD.size + len(note)
        connection = self._open.get(node)
        if connection is None or connection.blocked or size > self.settings.max_frame_bytes:
            self.unsent += 1
            return False
        connection.send([frames.HEAD.pack(size - frames.LENGTH.size, frames.NOTE), note], 1)
        return True

    def end_turn(self) -> None:
        """Everything of this turn was sent."""
        self._encoder.forget()

    # Dialing.

    def _stop_dialing(self, node: NodeId) -> None:
        task = self._dialers.pop(node, None)
        if task is not None:
            task.cancel()

    async def _dial(self, node: NodeId) -> None:
        """Keep one connection to `node`, for ever."""
        settings = self.settings
        pause_ms, complaint = float(settings.reconnect_ms), ""
        while True:
            trouble, opened = await self._dial_once(node)
            if opened:
                pause_ms = settings.reconnect_ms
            if trouble and trouble != complaint:
                _log.warning("no connection to node %s at %s:%s: %s", node, *self._addresses[node], trouble)
            complaint = trouble
            await asyncio.sleep(pause_ms * self._random.uniform(0.5, 1.0) / 1000)
            pause_ms = min(2 * pause_ms, settings.max_reconnect_ms)

    async def _dial_once(self, node: NodeId) -> tuple[str, bool]:
        """Connect and stay until it is over. Returns what went wrong, and whether the handshake was done."""
        host, port = self._addresses[node]
        tls = self._security.client if self._security is not None else None
        hello = encode_greeting(frames.HELLO, self.identity, node)
        loop = asyncio.get_running_loop()
        connection: Connection | None = None
        try:
            async with asyncio.timeout(self.settings.handshake_ms / 1000):
                _, connection = await loop.create_connection(lambda: Connection(self, hello), host, port, ssl=tls)
        except (OSError, ssl.SSLError, TimeoutError) as error:
            return f"{type(error).__name__}: {error}", False
        try:
            await asyncio.shield(connection.done)
        finally:
            connection.abort()
        if connection.refused is not None:
            return f"it refused us: {connection.refused}", False
        return "", connection.node != 0

    # What connections call.

    def _accept(self) -> Connection:
        return Connection(self)

    def made(self, connection: Connection) -> bool:
        """A connection was made; whether there is room for one more that has not said who it is."""
        self._all.add(connection)
        strangers = sum(1 for one in self._all if not one.node)
        return strangers <= self.settings.max_strangers and not self._closing

    def greeted(self, connection: Connection, kind: int, greeting: Greeting) -> None:
        """The other side said who it is: take it in, or refuse it and say why."""
        node, boot = greeting.identity.node, greeting.identity.boot
        problem = judge(greeting, self.identity)
        if problem is None and self._admit is not None:
            problem = self._admit(greeting.identity)
        problem = problem or self._judge_peer(greeting.identity, dialed=kind == frames.WELCOME)
        if problem is not None:
            _log.warning("refusing node %s at %s: %s", node, connection.remote, problem[1])
            connection.refuse(*problem)
            return
        earlier = self._open.pop(node, None)
        if earlier is not None:
            earlier.abort()
        welcome = encode_greeting(frames.WELCOME, self.identity, node) if kind == frames.HELLO else None
        connection.open(node, boot, welcome)
        self._open[node] = connection
        _log.info("connected with node %s (boot %s) at %s", node, boot, connection.remote)
        if self._on_peer is not None:
            self._on_peer(node, True)

    def turned_away(self, connection: Connection, refused: Refused) -> None:
        """The other side does not want us, or no longer."""
        if connection.node:
            # Whoever dials says it there.
            _log.warning("node %s at %s refuses this node: %s", connection.node, connection.remote, refused.text)
        if self._on_refused is not None and refused.reason in tuple(Refusal):
            self._on_refused(Refusal(refused.reason), refused.text)

    def _judge_peer(self, identity: Identity, *, dialed: bool) -> Problem | None:
        if identity.node not in self._addresses:
            return Refusal.UNKNOWN_NODE, f"node {identity.node} is not known here"
        if not dialed and identity.node > self.identity.node:
            return Refusal.DIRECTION, f"node {self.identity.node} dials node {identity.node}, not the other way round"
        earlier = self._open.get(identity.node)
        if earlier is not None and earlier.boot > identity.boot:
            return Refusal.OLD_BOOT, f"boot {identity.boot} of node {identity.node} is over: boot {earlier.boot} is here"
        return None

    def closed(self, connection: Connection) -> None:
        """A connection is gone."""
        self._all.discard(connection)
        self.unsent += connection.dropped
        if connection.node and self._open.get(connection.node) is connection:
            del self._open[connection.node]
            if self._on_peer is not None:
                self._on_peer(connection.node, False)


def _nothing() -> None:
    pass


def _not_noted(node: NodeId, note: bytes) -> None:
    """Nobody here reads notes."""
