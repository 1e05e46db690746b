"""A partition's replicated state: its snapshots, and what committed batches do to it."""

from __future__ import annotations

from quorate.broker.partition.state import KEPT, PartitionState
from quorate.consensus.batch.control import build_control, decode_batch
from quorate.consensus.batch.errors import BadBatch
from quorate.consensus.batch.validate import check_stored
from quorate.consensus.core import Batch
from tests.fuzz.targets.batches import repaired
from tests.fuzz.targets.expect import expect

_EXPIRY_MS = 1_000


def partition(data: bytes) -> None:
    """The first byte: a snapshot; batches, each after its length in 16 bits; or the value of a control batch."""
    if not data:
        return
    if data[0] % 3 == 0:
        _snapshot(data[1:])
    elif data[0] % 3 == 1:
        _batches(data[1:])
    else:
        _apply(PartitionState(), build_control(5, 1, 0x5100 + (data[0] >> 4), data[1:]))


def _snapshot(data: bytes) -> None:
    try:
        state = PartitionState.load(data)
    except ValueError:
        return
    if data and data[0] > 1:
        expect(state.save() == data, "a state that can be read is the one that is written")
    expect(all(1 <= len(one.batches) <= KEPT for one in state.producers.values()), "one to five batches")


def _batches(data: bytes) -> None:
    state = PartitionState()
    while len(data) >= 2:
        size = int.from_bytes(data[:2], "big")
        value = repaired(bytearray(data[2 : 2 + size]))
        data = data[2 + size :]
        _apply(state, bytes(value))


def _apply(state: PartitionState, value: bytes) -> None:
    """As the log hands a batch over: its checksum is right, and it is what the core takes it for."""
    try:
        check_stored(value)
        batch: Batch = decode_batch(value)
        before = state.log_start
        state.apply([batch], _EXPIRY_MS)
    except BadBatch:
        return
    expect(before <= state.log_start <= max(before, batch.base), "a log's start never falls")
    saved = state.save()
    expect(PartitionState.load(saved).save() == saved, "what was applied can be saved and loaded")
