"""What another node says: handshakes, Raft's messages, beats."""

from __future__ import annotations

from quorate.consensus.core import NodeId
from quorate.consensus.core.messages import Beat, BeatAnswer, InstallSnapshot, NodeMessage
from quorate.consensus.core.types import Buffer
from quorate.consensus.transport.decode import MAX_TERM, decode
from quorate.consensus.transport.encode import Encoder
from quorate.consensus.transport.errors import BadFrame
from quorate.consensus.transport.frames import LENGTH
from quorate.consensus.transport.handshake import Greeting, Identity, Refusal, decode_handshake, encode_greeting, judge
from tests.fuzz.targets.expect import expect

_ME = Identity(b"c" * 16, NodeId(1), 1)


def peer(data: bytes) -> None:
    """A frame from its kind on, before the handshake was done and after it."""
    if not data:
        return
    frame = memoryview(LENGTH.pack(len(data)) + data)
    try:
        kind, said = decode_handshake(frame)
        if isinstance(said, Greeting):
            _greeting(frame, kind, said)
        else:
            expect(len(said.text) <= 512, "a reason is short")
    except BadFrame:
        pass
    try:
        message = decode(frame)
    except BadFrame:
        return
    again = encoded(message)
    if not isinstance(message, InstallSnapshot):  # the members of its configuration may stand in any order
        expect(again == frame, "a frame that can be read is the one that is written")
    expect(decode(memoryview(again)) == message, "what was read can be written")
    terms = [message.term] if not isinstance(message, (Beat, BeatAnswer)) else []
    if isinstance(message, Beat):
        terms = [claim.term for claim in message.claims or ()]
    expect(all(term <= MAX_TERM for term in terms), "a term fits a batch")


def _greeting(frame: memoryview, kind: int, said: Greeting) -> None:
    refused = judge(said, _ME)
    if refused is None or refused[0] is not Refusal.VERSION:
        expect(encode_greeting(kind, said.identity, said.to) == frame, "a greeting can be written again")


def encoded(message: NodeMessage) -> bytes:
    """The frame of a message."""
    parts: list[Buffer] = []
    size = Encoder().encode(message, parts)
    frame = b"".join(parts)
    expect(size == len(frame), "the encoder knows the size of what it made")
    return frame
