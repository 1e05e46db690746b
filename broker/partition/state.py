"""A partition's replicated state: where its log begins for clients, what its idempotent producers appended last, and what
is staged.

Rebuilt by applying the headers of committed batches; equal on all replicas that have applied the same log. No I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class, whatever its name
from typing import Final, NamedTuple

from quorate.broker.partition.stages import SEQUENCE_MASK, StagedBatch, Stages, dropped_producers
from quorate.consensus.batch.control import ControlType, build_control, read_control
from quorate.consensus.batch.errors import BadBatch, Reason
from quorate.consensus.batch.header import CONTROL, HEADER_BYTES
from quorate.consensus.core import Batch, BatchKind
from quorate.consensus.core.types import Buffer

KEPT: Final = 5
"""Batches remembered per producer: clients have at most so many in flight."""

_HEADER: Final = Struct(">21xhi8xqqhi")
"""attributes, last offset delta, maxTimestamp, producer id, epoch, first sequence."""
_OFFSET: Final = Struct(">q")
_STATE: Final = Struct(">bqqqi")
_PRODUCER: Final = Struct(">qhqb")
_KEPT: Final = Struct(">iiqq")
_VERSION: Final = 2
"""1 had no stages."""


class Kept(NamedTuple):
    """A batch that a producer appended."""

    first: int
    last: int
    base: int
    stamp: int


class Producer:
    """What is remembered of one producer. Invariant: 1 to `KEPT` batches, oldest first, all of `epoch`."""

    __slots__ = ("batches", "epoch", "stamp")

    def __init__(self, epoch: int, stamp: int, batches: list[Kept]) -> None:
        self.epoch = epoch
        self.stamp = stamp
        self.batches = batches


def last_sequence(first: int, last_delta: int) -> int:
    """The sequence of a batch's last record: after 2^31-1 comes 0."""
    return (first + last_delta) & SEQUENCE_MASK


def log_start_batch(offset: int) -> bytearray:
    """The control batch that moves the log's start."""
    return bytearray(build_control(0, 0, ControlType.LOG_START, _OFFSET.pack(offset)))


class PartitionState:
    """Invariant: `producers` is in the order of their last appends, and log time never falls, so the oldest are first."""

    __slots__ = ("data_end", "log_start", "producers", "stages", "stamp")

    def __init__(self) -> None:
        self.log_start = 0
        """The first offset that clients may read."""
        self.data_end = 0
        """The offset after the last batch of records: there is nothing for clients between it and the log's end."""
        self.stamp = -1
        """The log time of the last batch of records."""
        self.producers: dict[int, Producer] = {}
        self.stages = Stages()

    def apply(self, batches: Sequence[Batch], expiry_ms: int) -> list[tuple[int, int]]:
        """Take committed batches in. Returns (producer, base) of those that an idempotent producer appended."""
        unpack, data_kind, appended = _HEADER.unpack_from, BatchKind.DATA, list[tuple[int, int]]()
        staging = self.stages.open
        for base, last, _, kind, data in batches:
            if kind is not data_kind:
                continue
            attributes, last_delta, stamp, producer, epoch, first = unpack(data)
            if self.producers:
                # Batch by batch: how many are handed over at once differs between replicas.
                self._expire(stamp - expiry_ms)
            if attributes & CONTROL:
                self._control(base, data, stamp)
            else:
                self.data_end = last + 1
                self.stamp = stamp
                if producer >= 0:
                    if staging and producer in staging and self.stages.produced(producer, first, stamp):
                        continue  # the stage itself knows what of it is published
                    self._remember(producer, epoch, Kept(first, last_sequence(first, last_delta), base, stamp))
                    appended.append((producer, base))
        return appended

    def _control(self, base: int, data: Buffer, stamp: int) -> None:
        control, value = read_control(data)
        if control == ControlType.LOG_START:
            if len(value) != _OFFSET.size:
                raise BadBatch(Reason.CONTROL, 0, f"a log start of {len(value)} bytes, not {_OFFSET.size}")
            # Never above the batch that says so, whatever it says.
            self.log_start = max(self.log_start, min(_OFFSET.unpack(value)[0], base))
        elif control == ControlType.STAGE:
            if len(value) < HEADER_BYTES:
                raise BadBatch(Reason.CONTROL, 0, f"a staged batch of {len(value)} bytes is shorter than its header")
            _, last_delta, _, producer, _, first = _HEADER.unpack_from(value)
            self.stages.staged(
                producer,
                StagedBatch(base, first, last_sequence(first, last_delta)),
                stamp,
                may_begin=producer not in self.producers,
            )
        elif control == ControlType.STAGE_DROP:
            self.stages.dropped(dropped_producers(value), stamp)

    def _remember(self, producer: int, epoch: int, kept: Kept) -> None:
        known = self.producers.pop(producer, None)
        if known is None or epoch != known.epoch:
            known = Producer(epoch, kept.stamp, [kept])
        else:
            known.stamp = kept.stamp
            known.batches.append(kept)
            if len(known.batches) > KEPT:
                del known.batches[0]
        self.producers[producer] = known

    def _expire(self, before: int) -> None:
        """Forget producers whose last append is older. By log time, so that all replicas forget the same ones."""
        producers = self.producers
        while producers:
            oldest = next(iter(producers))
            if producers[oldest].stamp >= before:
                return
            del producers[oldest]

    def save(self) -> bytes:
        """Everything, in bytes."""
        parts = [_STATE.pack(_VERSION, self.log_start, self.data_end, self.stamp, len(self.producers))]
        for number, producer in self.producers.items():
            parts.append(_PRODUCER.pack(number, producer.epoch, producer.stamp, len(producer.batches)))
            parts += [_KEPT.pack(*kept) for kept in producer.batches]
        parts.append(self.stages.save())
        return b"".join(parts)

    @classmethod
    def load(cls, data: bytes) -> PartitionState:
        """The inverse; nothing at all is the state of an empty log. Raises ValueError for what `save` did not write."""
        state = cls()
        if not data:
            return state
        if not 1 <= data[0] <= _VERSION:
            raise ValueError(f"a partition's state of version {data[0]}; this release knows 1 to {_VERSION}")
        try:
            _, state.log_start, state.data_end, state.stamp, count = _STATE.unpack_from(data)
            at = _STATE.size
            for _ in range(count):
                number, epoch, stamp, kept = _PRODUCER.unpack_from(data, at)
                at += _PRODUCER.size
                if not 1 <= kept <= KEPT or number in state.producers:
                    raise ValueError(f"a partition's state has {kept} batches of producer {number}")
                batches = [Kept._make(_KEPT.unpack_from(data, at + n * _KEPT.size)) for n in range(kept)]
                state.producers[number] = Producer(epoch, stamp, batches)
                at += kept * _KEPT.size
            if data[0] > 1:
                state.stages, at = Stages.load(data, at)
        except StructError as error:
            raise ValueError(f"a partition's state of {len(data)} bytes ends too early") from error
        if at != len(data) or count != len(state.producers):
            raise ValueError(f"a partition's state has {len(data)} bytes, and {at} are accounted for")
        return state
