"""Who is at the other end: the first frame of each side of a connection, and the reasons for which it is refused.

The dialer says hello, the listener answers with a welcome of the same content, or with a refusal that names the reason.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from quorate.consensus.core import NodeId
from quorate.consensus.transport import frames
from quorate.consensus.transport.errors import BadFrame
from quorate.consensus.transport.frames import GREETING_LAYOUT, GREETING_START, LENGTH, REFUSAL_LAYOUT

MAGIC = b"QUORATE\x01"
VERSION = 2
CLUSTER_BYTES = 16
STORAGE_BYTES = 16
_MAX_TEXT = 512


class Refusal(IntEnum):
    """Why a connection is refused."""

    VERSION = 1
    CLUSTER = 2
    NOT_ME = 3
    UNKNOWN_NODE = 4
    DIRECTION = 5
    OLD_BOOT = 6
    BARRED = 7
    """The node must never come back as it is: it was removed, or has lost its disk. Trying again is of no use."""


class Identity(NamedTuple):
    """What a node says of itself.

    `boot` is higher at every start, so a later life of a node is told from an earlier. `storage` is drawn when the node's
    folder is made, so a node that has lost its disk, and with it its votes, is told from the one that it was.
    """

    cluster: bytes
    node: NodeId
    boot: int
    storage: bytes = bytes(STORAGE_BYTES)


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
    cluster, node, boot, storage = identity
    size = GREETING_LAYOUT.size - LENGTH.size
    return GREETING_LAYOUT.pack(size, kind, MAGIC, VERSION, cluster, node, to, boot, storage)


def encode_refusal(reason: Refusal, text: str) -> bytes:
    """A refusal frame; the text is for the other side's log."""
    told = text.encode()[:_MAX_TEXT]
    size = REFUSAL_LAYOUT.size - LENGTH.size + len(told)
    return REFUSAL_LAYOUT.pack(size, frames.REFUSAL, MAGIC, reason) + told


def decode_handshake(frame: memoryview) -> tuple[int, Greeting | Refused]:
    """The kind and content of a handshake frame. Raises BadFrame for anything else."""
    kind = frame[LENGTH.size]
    if kind in (frames.HELLO, frames.WELCOME):
        return kind, _decode_greeting(frame)
    if kind == frames.REFUSAL:
        if not REFUSAL_LAYOUT.size <= len(frame) <= REFUSAL_LAYOUT.size + _MAX_TEXT:
            raise BadFrame(f"a refusal of {len(frame)} bytes")
        _, _, magic, reason = REFUSAL_LAYOUT.unpack_from(frame)
        _check_magic(magic)
        return kind, Refused(reason, bytes(frame[REFUSAL_LAYOUT.size :]).decode(errors="replace"))
    raise BadFrame(f"frame kind {kind} before the handshake was done")


def _decode_greeting(frame: memoryview) -> Greeting:
    if len(frame) < GREETING_START.size:
        raise BadFrame(f"a greeting of {len(frame)} bytes")
    _, _, magic, version = GREETING_START.unpack_from(frame)
    _check_magic(magic)
    if version != VERSION:
        # Its fields are not known here; it can only be refused, and is told why.
        return Greeting(version, Identity(bytes(CLUSTER_BYTES), NodeId(0), 0), NodeId(0))
    if len(frame) != GREETING_LAYOUT.size:
        raise BadFrame(f"a greeting has {len(frame)} bytes, not {GREETING_LAYOUT.size}")
    _, _, _, _, cluster, node, to, boot, storage = GREETING_LAYOUT.unpack(frame)
    return Greeting(version, Identity(cluster, NodeId(node), boot, storage), NodeId(to))


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
