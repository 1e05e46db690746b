"""Staged batches, as a partition's replicated state has them: kept in the log and shown to nobody until they are published.

A stage is what one producer id has staged here. It ends when all of it is published, or when it is dropped; what ended is
remembered for a while, so that a late request of a client does not begin it again. No I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from quorate.consensus.batch.control import ControlType, build_control, read_control
from quorate.consensus.batch.errors import BadBatch, Reason
from quorate.consensus.batch.header import CONTROL, attributes, base_offset, leader_epoch
from quorate.consensus.core.types import Buffer

SEQUENCE_MASK: Final = 0x7FFF_FFFF
ENDED_MS: Final = 6 * 60 * 60 * 1000
"""How long, in log time, it is remembered that a stage has ended. Far longer than clients repeat a request."""

_COUNTS: Final = Struct(">qii")
_STAGE: Final = Struct(">qqii")
_BATCH: Final = Struct(">qii")
_ENDED: Final = Struct(">qq")
_PRODUCER: Final = Struct(">q")


class StagedBatch(NamedTuple):
    """One batch of a stage: where the control batch stands that holds it, and its sequence numbers."""

    offset: int
    first: int
    last: int

    @property
    def records(self) -> int:
        return ((self.last - self.first) & SEQUENCE_MASK) + 1


class Stage:
    """Invariant: at least one batch, in order and without gaps from sequence 0 on; `published` of them, fewer than all."""

    __slots__ = ("batches", "published", "stamp")

    def __init__(self, stamp: int, batches: list[StagedBatch], published: int = 0) -> None:
        self.stamp = stamp
        """The log time of the last batch."""
        self.batches = batches
        self.published = published
        """How many of them, from the first on, stand in the log as records."""

    @property
    def records(self) -> int:
        """Of all batches together."""
        return sum(batch.records for batch in self.batches)

    @property
    def following(self) -> int:
        """The sequence number that comes after the last batch."""
        return (self.batches[-1].last + 1) & SEQUENCE_MASK


class Stages:
    """All stages of a partition. Invariant: no producer is in `open` and in `ended`; `ended` is in the order of log time."""

    __slots__ = ("ended", "last", "open")

    def __init__(self) -> None:
        self.open: dict[int, Stage] = {}
        self.ended: dict[int, int] = {}
        self.last = -1
        """The offset of the last control batch that holds a staged one."""

    def staged(self, producer: int, batch: StagedBatch, stamp: int, *, may_begin: bool = True) -> None:
        """A batch was staged. One that does not follow is passed over: the stage then never becomes whole."""
        self._forget(stamp)
        self.last = batch.offset
        stage = self.open.get(producer)
        if stage is None:
            if may_begin and batch.first == 0 and producer not in self.ended:
                self.open[producer] = Stage(stamp, [batch])
        elif batch.first == stage.following and not stage.published:
            stage.batches.append(batch)
            stage.stamp = stamp

    def produced(self, producer: int, first: int, stamp: int) -> bool:
        """A batch of records was appended by a producer that has a stage; whether that was the next one of the stage."""
        stage = self.open[producer]
        if stage.batches[stage.published].first != first:
            return False
        stage.published += 1
        if stage.published == len(stage.batches):
            self._end(producer, stamp)
        return True

    def dropped(self, producers: Sequence[int], stamp: int) -> None:
        """These were dropped. Of what has begun to be published nothing is dropped any more."""
        for producer in producers:
            stage = self.open.get(producer)
            if stage is None or not stage.published:
                self._end(producer, stamp)

    def _end(self, producer: int, stamp: int) -> None:
        self._forget(stamp)
        self.open.pop(producer, None)
        self.ended.pop(producer, None)
        self.ended[producer] = stamp

    def _forget(self, now: int) -> None:
        ended = self.ended
        while ended:
            oldest = next(iter(ended))
            if ended[oldest] >= now - ENDED_MS:
                return
            del ended[oldest]

    @property
    def pin(self) -> int | None:
        """The first offset that is still needed to publish something; None if there is none."""
        return min((stage.batches[stage.published].offset for stage in self.open.values()), default=None)

    def expired(self, before: int) -> list[int]:
        """The producers whose stages nobody has added to since, and of which nothing is published."""
        return [producer for producer, stage in self.open.items() if stage.stamp < before and not stage.published]

    def save(self) -> bytes:
        """Everything, in bytes."""
        parts = [_COUNTS.pack(self.last, len(self.open), len(self.ended))]
        for producer, stage in self.open.items():
            parts.append(_STAGE.pack(producer, stage.stamp, stage.published, len(stage.batches)))
            parts += [_BATCH.pack(*batch) for batch in stage.batches]
        parts += [_ENDED.pack(*one) for one in self.ended.items()]
        return b"".join(parts)

    @classmethod
    def load(cls, data: bytes, at: int) -> tuple[Stages, int]:
        """The inverse, and where it ends. Raises ValueError, or struct's error if there is too little."""
        stages = cls()
        stages.last, count, ended = _COUNTS.unpack_from(data, at)
        at += _COUNTS.size
        for _ in range(count):
            producer, stamp, published, size = _STAGE.unpack_from(data, at)
            at += _STAGE.size
            batches = [StagedBatch._make(_BATCH.unpack_from(data, at + n * _BATCH.size)) for n in range(size)]
            if not 0 <= published < size or not _follow(batches):
                raise ValueError(f"a partition's state has {published} of {size} staged batches of producer {producer}")
            stages.open[producer] = Stage(stamp, batches, published)
            at += size * _BATCH.size
        for _ in range(ended):
            producer, stamp = _ENDED.unpack_from(data, at)
            stages.ended[producer] = stamp
            at += _ENDED.size
        if len(stages.open) != count or len(stages.ended) != ended or stages.open.keys() & stages.ended.keys():
            raise ValueError("a partition's state has a stage twice")
        return stages, at


def _follow(batches: Sequence[StagedBatch]) -> bool:
    """Whether sequence numbers begin with 0 and have no gaps."""
    begins = (0, *((batch.last + 1) & SEQUENCE_MASK for batch in batches))
    return all(batch.first == begin for batch, begin in zip(batches, begins, strict=False))


def stage_batch(data: Buffer) -> bytearray:
    """The control batch that keeps a batch of records for later."""
    return bytearray(build_control(0, 0, ControlType.STAGE, data))


def as_consumers_see(data: Buffer) -> Buffer:
    """A stored batch as consumers get it: they skip control batches, so of one with a staged batch they get the shell."""
    if not attributes(data) & CONTROL:
        return data
    control, _ = read_control(data)
    return build_control(base_offset(data), leader_epoch(data), control, b"") if control == ControlType.STAGE else data


def stage_drop_batch(producers: Sequence[int]) -> bytearray:
    """The control batch that drops stages."""
    return bytearray(build_control(0, 0, ControlType.STAGE_DROP, b"".join(map(_PRODUCER.pack, producers))))


def dropped_producers(value: Buffer) -> list[int]:
    """What `stage_drop_batch` names. Raises BadBatch."""
    if len(value) % _PRODUCER.size:
        raise BadBatch(Reason.CONTROL, 0, f"{len(value)} bytes are no producers whose stages are dropped")
    return [producer for (producer,) in _PRODUCER.iter_unpack(value)]
