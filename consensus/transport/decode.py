"""Frames to messages. Whatever is malformed raises BadFrame, every length is checked against what remains.

Batches are views of the frame's buffer: nothing is copied here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any

from quorate.consensus.core.membership import Configuration
from quorate.consensus.core.messages import (
    Append,
    AppendAnswer,
    Beat,
    BeatAnswer,
    Claim,
    Heartbeat,
    HeartbeatAnswer,
    InstallSnapshot,
    Message,
    NodeMessage,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)
from quorate.consensus.core.types import Batch, BatchKind, LogStart, Snapshot
from quorate.consensus.transport import frames
from quorate.consensus.transport.errors import BadFrame
from quorate.consensus.transport.frames import (
    APPEND_ANSWER_LAYOUT,
    APPEND_LAYOUT,
    BATCH_LAYOUT,
    BEAT_ANSWER_LAYOUT,
    BEAT_LAYOUT,
    CLAIM_LAYOUT,
    HEARTBEAT_LAYOUT,
    REFUSED_LAYOUT,
    SNAPSHOT_LAYOUT,
    TIMEOUT_NOW_LAYOUT,
    VOTE_ANSWER_LAYOUT,
    VOTE_REQUEST_LAYOUT,
)

_KINDS: dict[int, BatchKind] = {kind.value: kind for kind in BatchKind}
_BOOLEANS = (False, True)
MAX_TERM = (1 << 31) - 1
"""A batch holds its term in 32 bits, so there is no greater one. A replica that took one over could never write again."""


def decode(frame: memoryview) -> NodeMessage:
    """The message in a whole frame, its length and kind included. Batches and states are views of it."""
    if len(frame) < frames.HEAD.size:
        raise BadFrame("a frame is shorter than its head")
    kind = frame[frames.LENGTH.size]
    decoder = _DECODERS.get(kind)
    if decoder is not None:
        message = decoder(frame)
        if message.term > MAX_TERM:
            raise BadFrame(f"there is no term {message.term}")
        return message
    if kind == frames.BEAT:
        return _beat(frame)
    if kind == frames.BEAT_ANSWER:
        return _beat_answer(frame)
    raise BadFrame(f"frame kind {kind} is not known")


def keeps_frame(frame: memoryview) -> bool:
    """Whether the message in this frame will go on using the frame's bytes."""
    return frame[frames.LENGTH.size] in _KEEPERS


_KEEPERS = frozenset((frames.APPEND, frames.SNAPSHOT))


def _fixed(layout: Struct, frame: memoryview, what: str) -> list[Any]:
    """The fields of a frame that has fixed fields only."""
    if len(frame) != layout.size:
        raise BadFrame(f"{what} has {len(frame)} bytes, not {layout.size}")
    return list(layout.unpack(frame)[2:])


def _boolean(value: int, what: str) -> bool:
    if value > 1:
        raise BadFrame(f"{what} must be 0 or 1, not {value}")
    return _BOOLEANS[value]


def _append(frame: memoryview) -> Append:
    if len(frame) < APPEND_LAYOUT.size:
        raise BadFrame("an append is shorter than its fixed fields")
    _, _, group, sender, to, term, previous, previous_term, commit, count = APPEND_LAYOUT.unpack_from(frame)
    heads = APPEND_LAYOUT.size
    position = heads + count * BATCH_LAYOUT.size
    if position > len(frame):
        raise BadFrame(f"an append of {count} batches does not fit into {len(frame)} bytes")
    batches = []
    for kind, base, last, batch_term, length in BATCH_LAYOUT.iter_unpack(frame[heads:position]):
        end = position + length
        if kind not in _KINDS:
            raise BadFrame(f"batch kind {kind} is not known")
        batches.append(Batch(base, last, batch_term, _KINDS[kind], frame[position:end]))
        position = end
    if position != len(frame):
        raise BadFrame(f"an append's batches end at {position}, its frame at {len(frame)}")
    return Append(group, sender, to, term, previous, previous_term, commit, tuple(batches))


def _append_answer(frame: memoryview) -> AppendAnswer:
    group, sender, to, term, match, rejected, hint, hint_term = _fixed(APPEND_ANSWER_LAYOUT, frame, "an append answer")
    return AppendAnswer(group, sender, to, term, match, _boolean(rejected, "rejected"), hint, hint_term)


def _heartbeat(frame: memoryview) -> Heartbeat:
    return Heartbeat(*_fixed(HEARTBEAT_LAYOUT, frame, "a heartbeat"))


def _heartbeat_answer(frame: memoryview) -> HeartbeatAnswer:
    return HeartbeatAnswer(*_fixed(HEARTBEAT_LAYOUT, frame, "a heartbeat answer"))


def _vote_request(frame: memoryview) -> VoteRequest:
    group, sender, to, term, last, last_term, pre, transfer = _fixed(VOTE_REQUEST_LAYOUT, frame, "a vote request")
    flags = _boolean(pre, "pre"), _boolean(transfer, "transfer")
    return VoteRequest(group, sender, to, term, last, last_term, *flags)


def _vote_answer(frame: memoryview) -> VoteAnswer:
    group, sender, to, term, pre, granted = _fixed(VOTE_ANSWER_LAYOUT, frame, "a vote answer")
    return VoteAnswer(group, sender, to, term, _boolean(pre, "pre"), _boolean(granted, "granted"))


def _timeout_now(frame: memoryview) -> TimeoutNow:
    return TimeoutNow(*_fixed(TIMEOUT_NOW_LAYOUT, frame, "a timeout-now"))


def _snapshot(frame: memoryview) -> InstallSnapshot:
    if len(frame) < SNAPSHOT_LAYOUT.size:
        raise BadFrame("a snapshot is shorter than its fixed fields")
    _, _, group, sender, to, term, offset, start_term, length = SNAPSHOT_LAYOUT.unpack_from(frame)
    state = SNAPSHOT_LAYOUT.size + length
    if state > len(frame):
        raise BadFrame(f"a snapshot's configuration of {length} bytes does not fit into {len(frame)} bytes")
    try:
        configuration = Configuration.decode(frame[SNAPSHOT_LAYOUT.size : state])
    except ValueError as error:
        raise BadFrame(f"a snapshot's configuration cannot be read: {error}") from error
    snapshot = Snapshot(LogStart(offset, start_term, configuration), frame[state:])
    return InstallSnapshot(group, sender, to, term, snapshot)


def _lines(layout: Struct, frame: memoryview, begin: int, count: int, what: str) -> memoryview:
    """The rest of a frame, which must be exactly `count` lines."""
    if len(frame) != begin + count * layout.size:
        raise BadFrame(f"{count} {what} do not take {len(frame) - begin} bytes")
    return frame[begin:]


def _check_terms(terms: Iterable[int]) -> None:
    highest = max(terms, default=0)
    if highest > MAX_TERM:
        raise BadFrame(f"there is no term {highest}")


def _beat(frame: memoryview) -> Beat:
    if len(frame) < BEAT_LAYOUT.size:
        raise BadFrame("a beat is shorter than its fixed fields")
    _, _, sender, to, boot, sequence, version, told, count = BEAT_LAYOUT.unpack_from(frame)
    lines = _lines(CLAIM_LAYOUT, frame, BEAT_LAYOUT.size, count, "claims")
    if not _boolean(told, "whether there are claims"):
        if count:
            raise BadFrame("a beat without claims counts some")
        return Beat(sender, to, boot, sequence, version, None)
    claims = tuple(map(Claim._make, CLAIM_LAYOUT.iter_unpack(lines)))
    _check_terms(term for _, _, _, term in claims)
    return Beat(sender, to, boot, sequence, version, claims)


def _beat_answer(frame: memoryview) -> BeatAnswer:
    if len(frame) < BEAT_ANSWER_LAYOUT.size:
        raise BadFrame("a beat's answer is shorter than its fixed fields")
    _, _, sender, to, boot, sequence, version, life, known, count = BEAT_ANSWER_LAYOUT.unpack_from(frame)
    lines = _lines(REFUSED_LAYOUT, frame, BEAT_ANSWER_LAYOUT.size, count, "refused claims")
    refused = tuple(REFUSED_LAYOUT.iter_unpack(lines))
    _check_terms(term for _, term in refused)
    return BeatAnswer(sender, to, boot, sequence, version, _boolean(known, "known"), refused, life)


_DECODERS: dict[int, Callable[[memoryview], Message]] = {
    frames.APPEND: _append,
    frames.APPEND_ANSWER: _append_answer,
    frames.HEARTBEAT: _heartbeat,
    frames.HEARTBEAT_ANSWER: _heartbeat_answer,
    frames.VOTE_REQUEST: _vote_request,
    frames.VOTE_ANSWER: _vote_answer,
    frames.SNAPSHOT: _snapshot,
    frames.TIMEOUT_NOW: _timeout_now,
}
"""What replicas say to each other: each names its sender's term."""
