"""The header is read and patched in place, in any kind of buffer, and the checksum follows."""

import pickle
import struct
from collections.abc import Callable

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.consensus.batch import header as h
from quorate.consensus.batch.errors import BadBatch, Reason
from quorate.consensus.batch.validate import check_stored, validate
from quorate.consensus.core.types import Buffer
from tests.consensus.batch.samples import LAYOUT, batch

VALUES = (7, 57, 3, 2, 0xFEDCBA98, 0x7C, 5, 1_000, 2_000, 99, 4, 12, 6)


def ints(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_field_is_read_from_every_kind_of_buffer(kind: type[Buffer]) -> None:
    data = kind(struct.pack(LAYOUT, *VALUES) + b"12345678")
    header = h.read_header(data)
    assert tuple(header) == VALUES
    assert (header.last, header.size) == (12, 69)
    assert (header.compression, header.log_append_time, header.transactional) == (4, True, True)
    assert (header.control, header.delete_horizon) == (True, True)
    assert (h.base_offset(data), h.last_offset(data), h.leader_epoch(data)) == (7, 12, 3)
    assert (h.attributes(data), h.base_timestamp(data), h.max_timestamp(data)) == (0x7C, 1_000, 2_000)
    assert (h.record_count(data), h.stored_crc(data), h.batch_size(data)) == (6, 0xFEDCBA98, 69)


def test_no_bit_is_taken_for_another() -> None:
    names = ("log_append_time", "transactional", "control", "delete_horizon")
    for bit, name in zip((0x08, 0x10, 0x20, 0x40), names, strict=True):
        header = h.read_header(batch(attributes=bit))
        assert [other for other in names if getattr(header, other)] == [name]
        assert header.compression == 0


@given(*(ints(bits) for bits in (64, 32)), st.booleans())
def test_stamp_leaves_the_checksum_right(base: int, epoch: int, view: bool) -> None:
    data = batch()
    before = bytes(data)
    h.stamp(memoryview(data) if view else data, base, epoch)
    header = check_stored(data)
    assert (header.base, header.leader_epoch) == (base, epoch)
    assert data[8:12] + data[16:] == before[8:12] + before[16:]


def test_append_time_touches_type_time_and_checksum_only() -> None:
    data = batch(attributes=4)
    h.stamp_append_time(data, 1_700_000_000_123)
    header = check_stored(data)
    assert (header.attributes, header.max_timestamp) == (4 | h.LOG_APPEND_TIME, 1_700_000_000_123)
    expected = batch(attributes=12, max_timestamp=1_700_000_000_123)
    assert data == expected


def test_patches_need_a_seal() -> None:
    data = batch()
    h.patch_attributes(data, 2)
    h.patch_timestamps(data, 5, 6)
    h.patch_producer(data, 1 << 40, 3, 9)
    with pytest.raises(BadBatch) as caught:
        check_stored(data)
    assert caught.value.reason is Reason.CRC
    h.seal(data)
    header = validate(data)
    assert (header.attributes, header.base_timestamp, header.max_timestamp) == (2, 5, 6)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1 << 40, 3, 9)


def test_checksum_is_the_one_of_the_library_over_bytes_from_21_on() -> None:
    data = batch()
    assert (
        h.compute_crc(data)
        == h.compute_crc(bytes(data))
        == h.compute_crc(memoryview(data))
        == crc32c.crc32c(bytes(data[21:]))
    )


def test_a_value_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    data = batch()
    before = bytes(data)
    patches: tuple[Callable[[], None], ...] = (
        lambda: h.stamp(data, 0, 1 << 31),
        lambda: h.stamp(data, 1 << 63, 0),
        lambda: h.patch_attributes(data, 1 << 15),
        lambda: h.patch_timestamps(data, 0, 1 << 63),
        lambda: h.patch_producer(data, 1, 1 << 15, 0),
        lambda: h.stamp_append_time(data, 1 << 63),
    )
    for patch in patches:
        with pytest.raises(BadBatch) as caught:
            patch()
        assert caught.value.reason is Reason.FIELD
        assert data == before


def test_a_read_only_buffer_cannot_be_patched() -> None:
    with pytest.raises(TypeError):
        h.stamp(memoryview(bytes(batch())), 1, 1)


@pytest.mark.parametrize("size", range(h.HEADER_BYTES))
def test_a_short_header_is_refused_by_everything(size: int) -> None:
    data = batch()[:size]
    functions: tuple[Callable[[bytearray], object], ...] = (
        h.read_header,
        h.base_offset,
        h.last_offset,
        h.leader_epoch,
        h.attributes,
        h.base_timestamp,
        h.max_timestamp,
        h.record_count,
        h.stored_crc,
        h.batch_size,
        h.seal,
        lambda short: h.stamp(short, 0, 0),
        lambda short: h.stamp_append_time(short, 0),
        lambda short: h.patch_producer(short, 0, 0, 0),
        lambda short: h.patch_attributes(short, 0),
        lambda short: h.patch_timestamps(short, 0, 0),
    )
    for function in functions:
        with pytest.raises(BadBatch) as caught:
            function(data)
        assert (caught.value.reason, caught.value.at) == (Reason.TRUNCATED, size)


@pytest.mark.parametrize("length", [-(1 << 31), -1, 0, 48])
def test_an_impossible_length_is_no_size(length: int) -> None:
    with pytest.raises(BadBatch) as caught:
        h.batch_size(batch(length=length))
    assert caught.value.reason is Reason.LENGTH


def test_the_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(BadBatch(Reason.CRC, 17, "wrong")))
    assert (error.reason, error.at, error.detail, str(error)) == (Reason.CRC, 17, "wrong", "wrong-crc at byte 17: wrong")
