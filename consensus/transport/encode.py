"""Messages to frames. Batch bytes are never copied here, unless they are so small that a copy is cheaper than a buffer.

An append to two followers differs in its head only: the body is made once and sent to both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, NamedTuple

from quorate.consensus.core.messages import (
    Append,
    AppendAnswer,
    Beat,
    BeatAnswer,
    Heartbeat,
    HeartbeatAnswer,
    InstallSnapshot,
    NodeMessage,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)
from quorate.consensus.core.types import Batch, Buffer
from quorate.consensus.transport import frames
from quorate.consensus.transport.frames import (
    APPEND_ANSWER_LAYOUT,
    APPEND_LAYOUT,
    BATCH_LAYOUT,
    BEAT_ANSWER_LAYOUT,
    BEAT_LAYOUT,
    CLAIM_LAYOUT,
    HEARTBEAT_LAYOUT,
    LENGTH,
    REFUSED_LAYOUT,
    SNAPSHOT_LAYOUT,
    TIMEOUT_NOW_LAYOUT,
    VOTE_ANSWER_LAYOUT,
    VOTE_REQUEST_LAYOUT,
)

SMALL = 4096
"""Buffers below this are joined: copying them is cheaper than one more entry in the list that the kernel walks."""


def gather(parts: Sequence[Buffer]) -> list[Buffer]:
    """The same bytes in fewer buffers: neighbours that are small are joined, large ones are left as they are."""
    gathered: list[Buffer] = []
    begin = 0
    for index, part in enumerate(parts):
        if len(part) >= SMALL:
            if begin < index:
                gathered.append(b"".join(parts[begin:index]))
            gathered.append(part)
            begin = index + 1
    if begin == 0:
        return [b"".join(parts)] if parts else []
    if begin < len(parts):
        gathered.append(b"".join(parts[begin:]))
    return gathered


class _Body(NamedTuple):
    """What follows the head of an append: batch heads and batch bytes, for these very batches."""

    batches: tuple[Batch, ...]
    parts: list[Buffer]
    size: int


class Encoder:
    """Turns messages into buffers. It remembers the bodies of a turn's appends: another follower's are the same."""

    __slots__ = ("_bodies",)

    def __init__(self) -> None:
        self._bodies: dict[int, _Body] = {}

    def encode(self, message: NodeMessage, parts: list[Buffer]) -> int:
        """Add the frame of `message` to `parts`; returns its size."""
        if type(message) is Append:
            return self._append(message, parts)
        frame = _ENCODERS[type(message)](message)
        parts.extend(frame)
        return sum(map(len, frame))

    def forget(self) -> None:
        """The turn is over: let go of the bodies, which may be large."""
        self._bodies.clear()

    def _append(self, message: Append, parts: list[Buffer]) -> int:
        group, sender, to, term, previous, previous_term, commit, batches = message
        body = self._body(batches) if batches else None
        size = APPEND_LAYOUT.size + (body.size if body is not None else 0)
        count, rest = len(batches), size - LENGTH.size
        parts.append(
            APPEND_LAYOUT.pack(rest, frames.APPEND, group, sender, to, term, previous, previous_term, commit, count)
        )
        if body is not None:
            parts.extend(body.parts)
        return size

    def _body(self, batches: tuple[Batch, ...]) -> _Body:
        # Batches are shared objects, so whether a body fits is seen without comparing bytes. The remembered tuple keeps
        # its first batch alive, so no other batch can have its id.
        known = self._bodies.get(id(batches[0]))
        if known is not None and len(known.batches) == len(batches) and all(map(is_, known.batches, batches)):
            return known
        pack = BATCH_LAYOUT.pack
        heads = [pack(kind, base, last, term, len(data)) for base, last, term, kind, data in batches]
        parts: list[Buffer] = [b"".join(heads)]
        parts.extend([batch.data for batch in batches])
        body = _Body(batches, gather(parts), sum(map(len, parts)))
        self._bodies[id(batches[0])] = body
        return body


def _append_answer(message: AppendAnswer) -> list[Buffer]:
    return [APPEND_ANSWER_LAYOUT.pack(APPEND_ANSWER_LAYOUT.size - LENGTH.size, frames.APPEND_ANSWER, *message)]


def _heartbeat(message: Heartbeat) -> list[Buffer]:
    return [HEARTBEAT_LAYOUT.pack(HEARTBEAT_LAYOUT.size - LENGTH.size, frames.HEARTBEAT, *message)]


def _heartbeat_answer(message: HeartbeatAnswer) -> list[Buffer]:
    return [HEARTBEAT_LAYOUT.pack(HEARTBEAT_LAYOUT.size - LENGTH.size, frames.HEARTBEAT_ANSWER, *message)]


def _vote_request(message: VoteRequest) -> list[Buffer]:
    return [VOTE_REQUEST_LAYOUT.pack(VOTE_REQUEST_LAYOUT.size - LENGTH.size, frames.VOTE_REQUEST, *message)]


def _vote_answer(message: VoteAnswer) -> list[Buffer]:
    return [VOTE_ANSWER_LAYOUT.pack(VOTE_ANSWER_LAYOUT.size - LENGTH.size, frames.VOTE_ANSWER, *message)]


def _timeout_now(message: TimeoutNow) -> list[Buffer]:
    return [TIMEOUT_NOW_LAYOUT.pack(TIMEOUT_NOW_LAYOUT.size - LENGTH.size, frames.TIMEOUT_NOW, *message)]


def _snapshot(message: InstallSnapshot) -> list[Buffer]:
    group, sender, to, term, ((offset, start_term, configuration), state) = message
    members = configuration.encode()
    size = SNAPSHOT_LAYOUT.size - LENGTH.size + len(members) + len(state)
    head = SNAPSHOT_LAYOUT.pack(size, frames.SNAPSHOT, group, sender, to, term, offset, start_term, len(members))
    return [head, members, state]


def _beat(message: Beat) -> list[Buffer]:
    sender, to, boot, sequence, version, claims = message
    lines = b"" if claims is None else b"".join([CLAIM_LAYOUT.pack(*claim) for claim in claims])
    size = BEAT_LAYOUT.size - LENGTH.size + len(lines)
    count = len(claims) if claims is not None else 0
    head = BEAT_LAYOUT.pack(size, frames.BEAT, sender, to, boot, sequence, version, claims is not None, count)
    return [head + lines]


def _beat_answer(message: BeatAnswer) -> list[Buffer]:
    sender, to, boot, sequence, version, known, refused, life = message
    lines = b"".join([REFUSED_LAYOUT.pack(*line) for line in refused])
    size = BEAT_ANSWER_LAYOUT.size - LENGTH.size + len(lines)
    fixed = (sender, to, boot, sequence, version, life, known, len(refused))
    head = BEAT_ANSWER_LAYOUT.pack(size, frames.BEAT_ANSWER, *fixed)
    return [head + lines]


# Any: each function takes the one message type that it is filed under.
_ENCODERS: dict[type[NodeMessage], Callable[[Any], list[Buffer]]] = {
    AppendAnswer: _append_answer,
    Heartbeat: _heartbeat,
    HeartbeatAnswer: _heartbeat_answer,
    VoteRequest: _vote_request,
    VoteAnswer: _vote_answer,
    InstallSnapshot: _snapshot,
    TimeoutNow: _timeout_now,
    Beat: _beat,
    BeatAnswer: _beat_answer,
}
