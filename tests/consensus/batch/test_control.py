"""The core's own batches survive being stored, and what is stored becomes the same `core.Batch` again."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.consensus.batch.control import ControlType, build_control, decode_batch, encode_control, read_control
from quorate.consensus.batch.errors import BadBatch, Reason
from quorate.consensus.batch.header import CONTROL, read_header, seal
from quorate.consensus.batch.validate import check_stored, validate
from quorate.consensus.core import Batch, BatchKind, Configuration, Offset, Term, replica_id
from tests.consensus.batch.samples import batch

CONFIGURATION = Configuration(voters=frozenset(map(replica_id, (1, 2, 3))), learners=frozenset({replica_id(4, 9)}))


def control(kind: BatchKind, data: bytes = b"", base: int = 5, term: int = 3) -> Batch:
    return Batch(Offset(base), Offset(base), Term(term), kind, data)


NOOP = control(BatchKind.NOOP)
CONFIG = control(BatchKind.CONFIG, CONFIGURATION.encode())


@pytest.mark.parametrize("original", [NOOP, CONFIG], ids=["noop", "config"])
def test_stored_and_back(original: Batch) -> None:
    stored = encode_control(original)
    assert decode_batch(stored) == decode_batch(bytearray(stored)) == decode_batch(memoryview(stored)) == original
    header = check_stored(stored)
    assert (header.base, header.leader_epoch, header.last_delta, header.records) == (5, 3, 0, 1)
    assert (header.attributes, header.base_timestamp, header.max_timestamp) == (CONTROL, -1, -1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)


def test_a_configuration_comes_back() -> None:
    assert Configuration.decode(decode_batch(encode_control(CONFIG)).data) == CONFIGURATION


@given(
    st.integers(0, (1 << 63) - 2),
    st.integers(0, (1 << 31) - 1),
    st.sampled_from([BatchKind.NOOP, BatchKind.CONFIG]),
    st.binary(max_size=9000),
)
def test_any_control_batch(base: int, term: int, kind: BatchKind, data: bytes) -> None:
    original = control(kind, data, base, term)
    assert decode_batch(encode_control(original)) == original


def test_the_bytes_on_disk_do_not_change() -> None:
    """Logs that are out there hold just these bytes."""
    assert encode_control(NOOP).hex() == (
        "0000000000000005" "0000003c" "00000003" "02" "9b6ea684" "0020" "00000000" + "ff" * 30 + "00000001"
        "14" "00" "00" "00" "08" "00005100" "00" "00"
    )  # fmt: skip


def test_data_is_handed_on_without_a_copy() -> None:
    data = batch(base=7, epoch=2, last_delta=4, count=5)
    decoded = decode_batch(data)
    assert decoded == Batch(Offset(7), Offset(11), Term(2), BatchKind.DATA, data)
    assert decoded.data is data


def test_control_batches_of_the_state_machine_are_data_to_the_core() -> None:
    stored = build_control(9, 1, 0x5200, b"lease")
    decoded = decode_batch(stored)
    assert (decoded.kind, decoded.data) == (BatchKind.DATA, stored)
    kind, value = read_control(stored)
    assert (kind, bytes(value)) == (0x5200, b"lease")


def test_a_client_cannot_send_one() -> None:
    with pytest.raises(BadBatch) as caught:
        validate(encode_control(CONFIG))
    assert caught.value.reason is Reason.ATTRIBUTES


def test_what_cannot_be_stored() -> None:
    with pytest.raises(ValueError, match="stored as it is"):
        encode_control(control(BatchKind.DATA))
    wide = NOOP._replace(last=Offset(6))
    for bad in (wide, control(BatchKind.NOOP, term=1 << 31), control(BatchKind.NOOP, base=1 << 63)):
        with pytest.raises(BadBatch):
            encode_control(bad)
    with pytest.raises(BadBatch):
        build_control(0, 0, 1 << 15, b"")


def test_cut_off_anywhere() -> None:
    stored = encode_control(CONFIG)
    for size in range(len(stored)):
        with pytest.raises(BadBatch):
            decode_batch(stored[:size])
        # A length that agrees with the cut leaves the record to be found out.
        cut = bytearray(stored[:size])
        if size >= 61:
            struct.pack_into(">i", cut, 8, size - 12)
            with pytest.raises(BadBatch):
                decode_batch(cut)


@given(st.lists(st.tuples(st.integers(8, 200), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_damaged_control_batch_is_bad_or_reads_as_some_batch(changes: list[tuple[int, int]]) -> None:
    stored = bytearray(encode_control(CONFIG))
    for at, byte in changes:
        stored[at % len(stored)] = byte
    seal(stored)
    try:
        decoded = decode_batch(stored)
    except BadBatch:
        return
    assert decoded.base >= 0
    assert decoded.last >= decoded.base
    assert decoded.kind is BatchKind.DATA or len(decoded.data) < len(stored)


def test_types_are_fixed() -> None:
    assert {kind.name: kind.value for kind in ControlType} == {
        "NOOP": 0x5100,
        "CONFIG": 0x5101,
        "LOG_START": 0x5102,
        "STAGE": 0x5103,
        "STAGE_DROP": 0x5104,
    }
    assert read_header(encode_control(NOOP)).control
