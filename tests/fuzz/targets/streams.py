"""Streams into frames: what comes out of both receivers is what a look at the whole stream says, however it was cut."""

from __future__ import annotations

from quorate.broker.kafka import receive as kafka
from quorate.consensus.transport import receive as peer
from quorate.consensus.transport.errors import BadFrame
from tests.fuzz.targets.expect import expect

LIMIT = 600_000
"""Small enough for the fuzzer, and above both receivers' shared buffers."""
_MAX_CUTS = 200


def frames(data: bytes) -> None:
    """Two bytes say how the stream is cut, the rest is a stream written down shortly (`stream`)."""
    if len(data) < 3:
        return
    whole = stream(data[2:])
    most = max(1 + int.from_bytes(data[:2], "big"), len(whole) // _MAX_CUTS)
    _peer(whole, most)
    _kafka(whole, most)


def stream(data: bytes) -> bytes:
    """A byte below 128 stands for as many bytes that follow it; another one for up to 32 KiB of zeros."""
    parts, at = [], 0
    while at < len(data):
        count = data[at]
        if count < 128:
            parts.append(data[at + 1 : at + 1 + count])
            at += count
        else:
            parts.append(bytes((count - 127) * 257))
        at += 1
    return b"".join(parts)


def _peer(whole: bytes, most: int) -> None:
    expected, bad = [], False
    at = 0
    while len(whole) - at >= 5:
        size = 4 + int.from_bytes(whole[at : at + 4], "little")
        bad = not 5 <= size <= LIMIT
        if bad or at + size > len(whole):
            break
        expected.append(whole[at : at + size])
        at += size
    found: list[bytes] = []
    receiver = peer.Receiver(lambda frame, owned: found.append(bytes(frame)), LIMIT)
    try:
        _feed(receiver, whole, most)
    except BadFrame:
        expect(bad, "only a wrong length ends a peer's stream")
    else:
        expect(not bad, "a wrong length ends a peer's stream")
    expect(found == expected, "a peer's frames come out whole and in order")


def _kafka(whole: bytes, most: int) -> None:
    expected, bad = [], False
    at = 0
    while len(whole) - at >= 4:
        size = int.from_bytes(whole[at : at + 4], "big", signed=True)
        bad = not 8 <= size <= LIMIT
        if bad or at + 4 + size > len(whole):
            break
        expected.append(whole[at + 4 : at + 4 + size])
        at += 4 + size
    found: list[bytes] = []
    receiver = kafka.Receiver(lambda frame: found.append(bytes(frame)), LIMIT)
    try:
        _feed(receiver, whole, most)
    except kafka.BadFrame:
        expect(bad, "only a wrong length ends a client's stream")
    else:
        expect(not bad, "a wrong length ends a client's stream")
        expect(receiver.partial == (at < len(whole)), "whether something is left")
    expect(found == expected, "a client's requests come out whole and in order")


def _feed(receiver: peer.Receiver | kafka.Receiver, whole: bytes, most: int) -> None:
    view = memoryview(whole)
    while view:
        room = receiver.buffer()
        expect(len(room) > 0, "there is room for more")
        count = min(len(room), len(view), most)
        room[:count] = view[:count]
        view = view[count:]
        receiver.received(count)
