"""Messages to bytes and back, and what becomes of bytes that nobody wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.consensus.core import Batch, BatchKind, GroupId, NodeId, NodeMessage, Offset, ReplicaId, Term, replica_id
from quorate.consensus.core.messages import Append, Beat, BeatAnswer, Claim, TimeoutNow
from quorate.consensus.core.types import Buffer
from quorate.consensus.transport import BadFrame
from quorate.consensus.transport.decode import decode
from quorate.consensus.transport.encode import SMALL, Encoder, gather
from quorate.consensus.transport.frames import HEAD, LENGTH
from quorate.consensus.transport.handshake import decode_handshake
from tests.consensus.transport.messages import messages

KINDS = (1, 2, 3, *range(16, 26))


def encoded(message: NodeMessage) -> bytes:
    parts: list[Buffer] = []
    size = Encoder().encode(message, parts)
    frame = b"".join(parts)
    assert len(frame) == size
    return frame


def append(to: int, *batches: Batch) -> Append:
    me = replica_id(1)
    return Append(GroupId(1), me, replica_id(to), Term(1), Offset(0), Term(1), Offset(0), batches)


@given(messages)
def test_every_message_comes_back_as_it_was(message: NodeMessage) -> None:
    frame = encoded(message)
    assert LENGTH.unpack_from(frame)[0] == len(frame) - LENGTH.size
    back = decode(memoryview(frame))
    assert back == message
    assert type(back) is type(message)


@given(messages, st.data())
def test_a_frame_cut_short_or_drawn_out_is_refused(message: NodeMessage, data: st.DataObject) -> None:
    frame = encoded(message)
    cut = data.draw(st.integers(0, len(frame) - 1))
    longer = frame + data.draw(st.binary(min_size=1, max_size=9))
    for bad in (frame[:cut], longer):
        try:
            assert decode(memoryview(bad)) != message
        except BadFrame:
            continue


@given(messages, st.data())
def test_a_frame_with_changed_bytes_is_refused_or_another_message(message: NodeMessage, data: st.DataObject) -> None:
    frame = bytearray(encoded(message))
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode(memoryview(bytes(frame)))
    except BadFrame:
        return


@given(st.sampled_from(KINDS), st.binary(max_size=400))
def test_random_bytes_are_refused_or_a_message(kind: int, body: bytes) -> None:
    frame = memoryview(HEAD.pack(len(body) + 1, kind) + body)
    for read in (decode, decode_handshake):
        try:
            read(frame)
        except BadFrame:
            continue


def test_an_absurd_count_costs_nothing() -> None:
    frame = bytearray(encoded(append(2)))
    frame[-4:] = b"\xff\xff\xff\xff"
    with pytest.raises(BadFrame, match="4294967295 batches"):
        decode(memoryview(frame))


@pytest.mark.parametrize(
    "message",
    [
        TimeoutNow(GroupId(1), ReplicaId(2), ReplicaId(3), Term(1 << 31)),
        Beat(NodeId(1), NodeId(2), 1, 1, 1, (Claim(GroupId(1), ReplicaId(2), ReplicaId(3), Term(1 << 31)),)),
        BeatAnswer(NodeId(1), NodeId(2), 1, 1, 1, True, ((GroupId(1), Term(1 << 31)),), 1),
    ],
)
def test_a_term_that_no_batch_can_hold_is_refused(message: NodeMessage) -> None:
    """A replica that took it over could never write again."""
    parts: list[Buffer] = []
    Encoder().encode(message, parts)
    with pytest.raises(BadFrame, match="there is no term 2147483648"):
        decode(memoryview(b"".join(parts)))


def test_large_batches_are_not_copied_and_a_body_is_made_once() -> None:
    large = Batch(Offset(1), Offset(1), Term(1), BatchKind.DATA, bytearray(b"x" * (2 * SMALL)))
    small = [Batch(Offset(n), Offset(n), Term(1), BatchKind.DATA, b"y" * 10) for n in range(2, 12)]
    encoder, first, second = Encoder(), list[Buffer](), list[Buffer]()
    encoder.encode(append(2, large, *small), first)
    encoder.encode(append(3, large, *small), second)
    assert any(part is large.data for part in first)
    # Only the heads differ: the rest of the parts are the same objects.
    assert len(first) == len(second)
    assert [one is other for one, other in zip(first, second, strict=True)] == [False] + [True] * (len(first) - 1)
    assert len(first) < 5
    encoder.forget()
    third: list[Buffer] = []
    encoder.encode(append(3, large, *small), third)
    assert b"".join(third) == b"".join(second)


@given(st.lists(st.integers(0, 3 * SMALL), max_size=12))
def test_gathering_keeps_every_byte(sizes: list[int]) -> None:
    parts: list[Buffer] = [bytes([n % 256]) * size for n, size in enumerate(sizes)]
    gathered = gather(parts)
    assert b"".join(gathered) == b"".join(parts)
    assert sum(len(part) < SMALL for part in gathered) <= 1 + sum(size >= SMALL for size in sizes)


def test_decoded_batches_are_views_of_the_frame() -> None:
    frame = bytearray(encoded(append(2, Batch(Offset(1), Offset(1), Term(1), BatchKind.DATA, b"abc"))))
    message = decode(memoryview(frame))
    assert isinstance(message, Append)
    frame[-3:] = b"xyz"
    assert bytes(message.batches[0].data) == b"xyz"
