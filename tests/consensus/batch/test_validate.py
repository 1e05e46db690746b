"""A client's batch is accepted only if it is one whole batch that a client may send; everything else is BadBatch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.consensus.batch.errors import BadBatch, Reason
from quorate.consensus.batch.header import CONTROL, DELETE_HORIZON, HEADER_BYTES, LOG_APPEND_TIME, TRANSACTIONAL
from quorate.consensus.batch.validate import MAX_RECORDS, MAX_TIMESTAMP_MS, check_stored, validate
from quorate.consensus.core.types import Buffer
from tests.consensus.batch.samples import RECORD, batch

I32, I64 = (1 << 31) - 1, (1 << 63) - 1


def refusal(data: Buffer) -> Reason:
    with pytest.raises(BadBatch) as caught:
        validate(data)
    assert 0 <= caught.value.at <= max(len(data), HEADER_BYTES)
    return caught.value.reason


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_good_batch_passes(kind: type[Buffer]) -> None:
    assert validate(kind(batch())).records == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"base": I64, "epoch": 12345},  # both are ours to write
        {"attributes": 4},
        {"attributes": TRANSACTIONAL, "producer_id": 0, "producer_epoch": 0, "sequence": 0},
        {"producer_id": I64, "producer_epoch": (1 << 15) - 1, "sequence": I32},
        {"producer_id": -1, "producer_epoch": 0, "sequence": 0},  # as some clients leave it
        {"base_timestamp": -1, "max_timestamp": -1},
        {"base_timestamp": -1, "max_timestamp": MAX_TIMESTAMP_MS},
    ],
)
def test_what_clients_may_send(changes: dict[str, int]) -> None:
    validate(batch(**changes))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"length": 0}, Reason.LENGTH),
        ({"length": -1}, Reason.LENGTH),
        ({"length": 48}, Reason.LENGTH),
        ({"length": 56}, Reason.TRAILING),
        ({"length": 58}, Reason.TRUNCATED),
        ({"length": I32}, Reason.TRUNCATED),
        ({"magic": 0}, Reason.MAGIC),
        ({"magic": 1}, Reason.MAGIC),
        ({"magic": 3}, Reason.MAGIC),
        ({"magic": -2}, Reason.MAGIC),
        ({"crc": 1}, Reason.CRC),
        ({"attributes": 5}, Reason.COMPRESSION),
        ({"attributes": 7}, Reason.COMPRESSION),
        ({"attributes": CONTROL}, Reason.ATTRIBUTES),
        ({"attributes": LOG_APPEND_TIME}, Reason.ATTRIBUTES),
        ({"attributes": DELETE_HORIZON}, Reason.ATTRIBUTES),
        ({"attributes": -1}, Reason.ATTRIBUTES),
        ({"attributes": TRANSACTIONAL}, Reason.PRODUCER),
        ({"producer_id": -2}, Reason.PRODUCER),
        ({"producer_id": 1, "producer_epoch": -1, "sequence": 0}, Reason.PRODUCER),
        ({"producer_id": 1, "producer_epoch": 0, "sequence": -1}, Reason.PRODUCER),
        ({"count": 0, "last_delta": -1}, Reason.COUNT),
        ({"count": 0}, Reason.COUNT),
        ({"count": -1}, Reason.COUNT),
        ({"count": 2}, Reason.COUNT),
        ({"last_delta": 1}, Reason.COUNT),
        ({"last_delta": -1}, Reason.COUNT),
        ({"count": 2, "last_delta": 1}, Reason.COUNT),  # two records do not fit eight bytes
        ({"count": -(1 << 31), "last_delta": I32}, Reason.COUNT),
        ({"attributes": 1, "count": MAX_RECORDS + 1, "last_delta": MAX_RECORDS}, Reason.COUNT),
        ({"base_timestamp": -2}, Reason.TIMESTAMP),
        ({"base_timestamp": 1001}, Reason.TIMESTAMP),
        ({"max_timestamp": MAX_TIMESTAMP_MS + 1}, Reason.TIMESTAMP),
        ({"base_timestamp": -(1 << 63), "max_timestamp": I64}, Reason.TIMESTAMP),
    ],
)
def test_what_they_may_not(changes: dict[str, int], reason: Reason) -> None:
    assert refusal(batch(**changes)) is reason


def test_a_batch_without_records() -> None:
    assert refusal(batch(b"")) is Reason.COUNT
    assert refusal(batch(b"", attributes=4)) is Reason.COUNT


@pytest.mark.parametrize("size", range(HEADER_BYTES + len(RECORD)))
def test_cut_off_anywhere(size: int) -> None:
    assert refusal(batch()[:size]) is Reason.TRUNCATED


def test_an_old_message_set_is_called_that_even_when_short() -> None:
    old = batch(magic=1)[:34]
    assert refusal(old) is Reason.MAGIC


@pytest.mark.parametrize("tail", [b"\0", bytes(batch()), b"x" * 61])
def test_anything_after_the_batch(tail: bytes) -> None:
    assert refusal(bytes(batch()) + tail) is Reason.TRAILING


@pytest.mark.parametrize("at", range(HEADER_BYTES + len(RECORD)))
def test_a_flipped_bit_is_found_unless_it_is_outside_of_the_checksum(at: int) -> None:
    for bit in range(8):
        data = batch()
        data[at] ^= 1 << bit
        if at < 8 or 12 <= at < 16:
            check_stored(data)
        else:
            with pytest.raises(BadBatch):
                check_stored(data)
            refusal(data)


def test_the_disk_may_hold_what_a_client_may_not_send() -> None:
    for changes in ({"attributes": CONTROL}, {"attributes": LOG_APPEND_TIME}, {"last_delta": 9}, {"max_timestamp": I64}):
        check_stored(batch(**changes))
    with pytest.raises(BadBatch):
        check_stored(batch(last_delta=-1))


@given(st.binary(max_size=200))
def test_noise_is_refused(noise: bytes) -> None:
    refusal(noise)


@given(
    st.dictionaries(st.sampled_from(["attributes", "producer_epoch"]), st.integers(-(1 << 15), (1 << 15) - 1)),
    st.dictionaries(st.sampled_from(["length", "last_delta", "sequence", "count"]), st.integers(-(1 << 31), I32)),
    st.dictionaries(st.sampled_from(["base_timestamp", "max_timestamp", "producer_id"]), st.integers(-(1 << 63), I64)),
    st.binary(max_size=40),
)
def test_any_header_over_any_body(shorts: dict[str, int], ints: dict[str, int], longs: dict[str, int], body: bytes) -> None:
    """Whatever passes has a length, a count and an offset range that agree."""
    data = batch(body, **shorts, **ints, **longs)
    try:
        header = validate(data)
    except BadBatch:
        return
    assert header.size == len(data)
    assert header.last_delta + 1 == header.records >= 1
