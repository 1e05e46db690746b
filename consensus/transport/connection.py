"""One connection to one peer: handshake first, then frames both ways.

It knows its network only through `Owner`, and the meaning of no message. What it cannot send it drops and counts.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol, cast

from quorate.consensus.core.messages import Beat, BeatAnswer, NodeMessage
from quorate.consensus.core.types import Buffer, NodeId, node_of
from quorate.consensus.transport import frames
from quorate.consensus.transport.decode import decode, keeps_frame
from quorate.consensus.transport.encode import gather
from quorate.consensus.transport.errors import BadFrame
from quorate.consensus.transport.handshake import Greeting, Refusal, Refused, decode_handshake, encode_refusal
from quorate.consensus.transport.receive import Receiver
from quorate.consensus.transport.settings import TransportSettings

_log = logging.getLogger(__name__)
_HANDSHAKE_FRAME_BYTES = 1024
_NODE_MESSAGES = (Beat, BeatAnswer)


class Owner(Protocol):
    """What a connection needs of the network that it belongs to."""

    settings: TransportSettings

    def made(self, connection: Connection) -> bool:
        """A connection was made. False: there is no room for it."""

    def greeted(self, connection: Connection, kind: int, greeting: Greeting) -> None:
        """The other side said who it is: call `open` or `refuse`."""

    def heard(self, message: NodeMessage) -> None:
        """A message arrived."""

    def noted(self, node: NodeId, note: bytes) -> None:
        """A note arrived."""

    def turned_away(self, connection: Connection, refused: Refused) -> None:
        """The other side does not want us, or no longer."""

    def drained(self) -> None:
        """Everything that arrived together on a connection was handed on."""

    def closed(self, connection: Connection) -> None:
        """The connection is gone."""


class Connection(asyncio.BufferedProtocol):
    """One side of a connection. `node` is 0 until the handshake is done."""

    def __init__(self, owner: Owner, greeting: bytes | None = None) -> None:
        """`greeting` is sent as soon as the connection is made: the dialer's hello."""
        self.node: NodeId = NodeId(0)
        self.boot = 0
        self.refused: str | None = None
        """What the other side said when it did not want us."""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Resolved when the connection is gone."""
        self.blocked = False
        """More than `max_outgoing_bytes` wait for the peer."""
        self.dropped = 0
        self._owner = owner
        self._greeting = greeting
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._receiver = Receiver(self._on_frame, _HANDSHAKE_FRAME_BYTES)
        self._deadline: asyncio.TimerHandle | None = None
        self._asked_at: float | None = None

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._owner.made(self):
            return self.abort()
        limit = self._owner.settings.max_outgoing_bytes
        self._transport.set_write_buffer_limits(high=limit, low=limit // 2)
        self._deadline = self._loop.call_later(self._owner.settings.handshake_ms / 1000, self._too_slow)
        if self._greeting is not None:
            self._transport.write(self._greeting)
        return None

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receiver.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._asked_at = None
        try:
            self._receiver.received(nbytes)
        except BadFrame as error:
            who = f"node {self.node}" if self.node else "a stranger"
            _log.warning("closing the connection with %s at %s: %s", who, self.remote, error)
            self.abort()
        self._owner.drained()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.blocked = True
        _log.warning("node %s is slow: messages to it are dropped until it has caught up", self.node)

    def resume_writing(self) -> None:
        self.blocked = False

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_waiting()
        self._transport = None
        if not self.done.done():
            self.done.set_result(None)
        self._owner.closed(self)

    # What the network calls.

    @property
    def remote(self) -> str:
        """The other side's address, for logs."""
        peer = self._transport.get_extra_info("peername") if self._transport is not None else None
        return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "?"

    def open(self, node: NodeId, boot: int, welcome: bytes | None = None) -> None:
        """The handshake is done: this is `node`, in its life `boot`."""
        self._stop_waiting()
        self.node, self.boot = node, boot
        self._receiver.limit = self._owner.settings.max_frame_bytes
        if welcome is not None and self._transport is not None:
            self._transport.write(welcome)

    def refuse(self, reason: Refusal, text: str) -> None:
        """Tell the other side why not, and hang up."""
        if self._transport is not None:
            self._transport.write(encode_refusal(reason, text))
            self._transport.close()

    def send(self, parts: list[Buffer], messages: int) -> None:
        """Send frames, all in one write; or drop them, if too many bytes wait already."""
        transport = self._transport
        if transport is None or self.blocked or transport.is_closing():
            self.dropped += messages
            return
        now = self._loop.time()
        if self._asked_at is None:
            self._asked_at = now
        elif now - self._asked_at > self._owner.settings.silence_ms / 1000:
            _log.warning("nothing was heard from node %s for %.1f s: hanging up", self.node, now - self._asked_at)
            self.dropped += messages
            return self.abort()
        buffers = gather(parts)
        if len(buffers) == 1:
            transport.write(buffers[0])
        else:
            transport.writelines(buffers)

    @property
    def waiting_bytes(self) -> int:
        """Bytes that the peer was not given yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def close(self) -> None:
        """Hang up once what was written has left."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Hang up at once."""
        if self._transport is not None:
            self._transport.abort()

    # Frames.

    def _on_frame(self, frame: memoryview, owned: bool) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if not self.node:
            return self._on_handshake(frame)
        if frame[frames.LENGTH.size] == frames.NOTE:
            return self._owner.noted(self.node, bytes(frame[frames.HEAD.size :]))
        if frame[frames.LENGTH.size] == frames.REFUSAL:
            # The dialer did not like our welcome, or has been told by now to have nothing to do with us.
            return self._on_handshake(frame)
        if not owned and keeps_frame(frame):
            # It lies in a buffer that is about to be used again, among others: keep a copy of just its size.
            frame = memoryview(bytes(frame))
        message = decode(frame)
        sender = message.sender if isinstance(message, _NODE_MESSAGES) else node_of(message.sender)
        if sender != self.node:
            raise BadFrame(f"a message in the name of node {sender} came from node {self.node}")
        self._owner.heard(message)

    def _on_handshake(self, frame: memoryview) -> None:
        kind, said = decode_handshake(frame)
        if isinstance(said, Refused):
            self.refused = said.text
            self.close()
            return self._owner.turned_away(self, said)
        if kind != (frames.WELCOME if self._greeting is not None else frames.HELLO):
            raise BadFrame("the wrong side of the handshake")
        self._owner.greeted(self, kind, said)

    def _too_slow(self) -> None:
        _log.warning("closing the connection with %s: no handshake in time", self.remote)
        self.abort()

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
