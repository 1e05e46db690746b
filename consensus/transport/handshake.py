"""Who is at the other end: the first frame of each side of a connection, and the reasons for which it is refused.

The dialer says hello, the listener answers with a welcome of the same content, or with a refusal that names the reason.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from quorate.consensus.core import NodeId
from quorate.consensus.transport import frames
from quorate.consensus.transport.errors import BadFrame
from quorate.consensus.transport.frames import GREETING_LAYOUT, LENGTH, REFUSAL_LAYOUT

MAGIC = b"QUORATE\x01"
VERSION = 1
CLUSTER_BYTES = 16
_MAX_TEXT = 512


class Refusal(IntEnum):
    """Why a connection is refused."""

    VERSION = 1
    CLUSTER = 2
    NOT_ME = 3
    UNKNOWN_NODE = 4
    DIRECTION = 5
    OLD_BOOT = 6


class Identity(NamedTuple):
    """What a node says of itself. `boot` is higher at every start, so a later life of a node is told from an earlier."""

    cluster: bytes
    node: NodeId
    boot: int


class Greeting(NamedTuple):
    """A hello or a welcome: who speaks, to whom it believes to speak, and which protocol it speaks."""

    version: int
    identity: Identity
    to: NodeId


class Refused(NamedTuple):
    """The other side does not want us, and why."""

    reason: int
    text: str


def encode_greeting(kind: int, identity: Identity, to: NodeId) -> bytes:
    """A hello or a welcome frame."""
    cluster, node, boot = identity
    return GREETING_LAYOUT.pack(GREETING_LAYOUT.size - LENGTH.size, kind, MAGIC, VERSION, cluster, node, to, boot)


def encode_refusal(reason: Refusal, text: str) -> bytes:
    """A refusal frame; the text is for the other side's log."""
    told = text.encode()[:_MAX_TEXT]
    size = REFUSAL_LAYOUT.size - LENGTH.size + len(told)
    return REFUSAL_LAYOUT.pack(size, frames.REFUSAL, MAGIC, reason) + told


def decode_handshake(frame: memoryview) -> tuple[int, Greeting | Refused]:
    """The kind and content of a handshake frame. Raises BadFrame for anything else."""
    kind = frame[LENGTH.size]
    if kind in (frames.HELLO, frames.WELCOME):
        if len(frame) != GREETING_LAYOUT.size:
            raise BadFrame(f"a greeting has {len(frame)} bytes, not {GREETING_LAYOUT.size}")
        _, _, magic, version, cluster, node, to, boot = GREETING_LAYOUT.unpack(frame)
        _check_magic(magic)
        return kind, Greeting(version, Identity(cluster, NodeId(node), boot), NodeId(to))
    if kind == frames.REFUSAL:
        if not REFUSAL_LAYOUT.size <= len(frame) <= REFUSAL_LAYOUT.size + _MAX_TEXT:
            raise BadFrame(f"a refusal of {len(frame)} bytes")
        _, _, magic, reason = REFUSAL_LAYOUT.unpack_from(frame)
        _check_magic(magic)
        return kind, Refused(reason, bytes(frame[REFUSAL_LAYOUT.size :]).decode(errors="replace"))
    raise BadFrame(f"frame kind {kind} before the handshake was done")


def _check_magic(magic: bytes) -> None:
    if magic != MAGIC:
        raise BadFrame(f"the greeting does not begin with {MAGIC!r}: this is no peer")


def judge(greeting: Greeting, own: Identity) -> tuple[Refusal, str] | None:
    """Why this greeting cannot be accepted by `own`, or None."""
    if greeting.version != VERSION:
        return Refusal.VERSION, f"protocol version {greeting.version} is not spoken here, only {VERSION}"
    if greeting.identity.cluster != own.cluster:
        return Refusal.CLUSTER, f"cluster {greeting.identity.cluster.hex()} is not this one, {own.cluster.hex()}"
    if greeting.to != own.node:
        return Refusal.NOT_ME, f"node {greeting.to} is meant, and this is node {own.node}"
    return None
