"""Requests that are cut off, that lie about lengths, or that are noise: BadMessage, at once, and no memory set aside.

Every length in a request is turned, by turning every byte of it, into the ones that hurt others: huge, negative, and
varints without end.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.protocol.kafka.apis import Api
from quorate.broker.protocol.kafka.codec import decode_request, decode_response_frame
from quorate.broker.protocol.kafka.errors import BadMessage
from quorate.broker.protocol.kafka.fetch import decode_fetch
from quorate.broker.protocol.kafka.header import decode_request_header
from quorate.broker.protocol.kafka.produce import decode_produce
from tests.broker.protocol.kafka.test_agreement import encode
from tests.broker.protocol.kafka.values import REQUESTS, Case, draw

LIES = [
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xfe",
    b"\x80\x00\x00\x00",
    b"\x7f\xff",
    b"\xff\xfe",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\x80" * 12,
]
Decode = Callable[[memoryview], object]


def decoders(case: Case) -> Iterator[Decode]:
    yield lambda body: decode_request(case.api, case.version, body)
    if case.api == Api.PRODUCE:
        yield lambda body: decode_produce(case.version, body)
    if case.api == Api.FETCH:
        yield lambda body: decode_fetch(case.version, body)


@pytest.mark.parametrize("case", REQUESTS, ids=str)
def test_a_request_that_is_cut_off_anywhere(case: Case) -> None:
    random = Random(str(case))
    for body in (encode(case, {}), encode(case, draw(case, random))):
        for decode in decoders(case):
            decode(memoryview(body))
            taken = [end for end in range(min(len(body), 400)) if not refused(decode, body[:end])]
            assert taken == []


def refused(decode: Decode, body: bytes) -> bool:
    """Whether it is no message. Nothing but BadMessage may say so."""
    try:
        decode(memoryview(body))
    except BadMessage:
        return True
    return False


@pytest.mark.parametrize("case", REQUESTS, ids=str)
def test_lengths_that_lie(case: Case) -> None:
    for decode, body in lying(case):
        refused(decode, body)


def lying(case: Case) -> Iterator[tuple[Decode, bytes]]:
    body = encode(case, draw(case, Random(f"lies {case}")))[:100]
    for decode in decoders(case):
        for at in range(len(body)):
            for lie in LIES:
                yield decode, body[:at] + lie + body[at + len(lie) :]


@pytest.mark.parametrize("case", REQUESTS[:: len(REQUESTS) // 12], ids=str)
def test_memory_goes_with_what_is_there_not_with_what_is_said(case: Case) -> None:
    tracemalloc.start()
    try:
        for decode, body in lying(case):
            refused(decode, body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


@given(st.sampled_from(REQUESTS), st.binary(max_size=200))
def test_noise(case: Case, body: bytes) -> None:
    for decode in decoders(case):
        refused(decode, body)


@given(st.binary(max_size=60))
def test_noise_for_a_header(frame: bytes) -> None:
    refused(decode_request_header, frame)


@given(st.sampled_from(REQUESTS), st.binary(max_size=100))
def test_noise_for_a_client(case: Case, frame: bytes) -> None:
    refused(lambda view: decode_response_frame(case.api, case.version, view), frame)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00\x03",
        b"\x00\x03\x00\x0c\x00\x00\x00\x01",
        b"\x00\x03\x00\x0c\x00\x00\x00\x01\x7f\xffme",
        b"\x00\x03\x00\x0c\x00\x00\x00\x01\xff\xfeme",
        b"\x00\x03\x00\x0c\x00\x00\x00\x01\x00\x02me\x01\x00\xff\xff\xff\xff\x0f",
        b"\x00\x03\x00\x0c\x00\x00\x00\x01\x00\x02\xff\xff\x00",
        b"\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff",
        b"\x00\x03\xff\xff\x00\x00\x00\x01\xff\xff",
    ],
    ids=[
        "nothing",
        "half",
        "no id",
        "long id",
        "negative id",
        "tag too long",
        "not UTF-8",
        "unknown api",
        "negative version",
    ],
)
def test_headers_that_are_none(frame: bytes) -> None:
    with pytest.raises(BadMessage):
        decode_request_header(memoryview(frame))


@pytest.mark.parametrize(("api", "version"), [(Api.METADATA, 13), (Api.METADATA, -1), (999, 0), (Api.FETCH, 3)])
def test_what_is_not_spoken(api: int, version: int) -> None:
    with pytest.raises(BadMessage, match=r"no API"):
        decode_request(api, version, memoryview(bytes(50)))


@pytest.mark.parametrize("decode", [lambda body: decode_produce(9, body), lambda body: decode_fetch(12, body)])
def test_nothing_follows_what_is_written_by_hand(decode: Decode) -> None:
    for api, version in ((Api.PRODUCE, 9), (Api.FETCH, 12)):
        body = encode(Case(api, version, "request"), {})
        with pytest.raises(BadMessage):
            decode(memoryview(body + b"\0"))
