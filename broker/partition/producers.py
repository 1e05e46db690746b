"""Idempotent producers on a leader: which batch is new, which is a duplicate, which is out of order.

Judged by the replicated state and by what this leader has appended that is not applied yet. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from quorate.broker.partition.stages import SEQUENCE_MASK
from quorate.broker.partition.state import Kept, PartitionState, last_sequence
from quorate.broker.partition.values import KafkaFailure, failure_of
from quorate.broker.protocol.kafka.errors import Error
from quorate.consensus.batch.header import Header
from quorate.consensus.core import Offset
from quorate.consensus.runtime import OperationFailed, Outcome

Settled = Callable[[Outcome], None]
NOT_YET: Final = -1
_MAX_REFUSED: Final = 10_000


class InFlight:
    """A producer's batch that was given to the log. It counts until it is applied, or until it has failed."""

    __slots__ = ("base", "epoch", "first", "last", "producer", "settled")

    def __init__(self, producer: int, epoch: int, first: int, last: int, settled: Settled) -> None:
        self.producer = producer
        self.epoch = epoch
        self.first = first
        self.last = last
        self.settled: list[Settled] = [settled]
        """Who waits for the outcome: the producer, and its retries."""
        self.base = NOT_YET
        """Its offset once it is committed."""


class _Refused(NamedTuple):
    """The first batch of a producer that this leader sent away to be tried again, and the reason."""

    epoch: int
    first: int
    error: int


class Producers:
    """The verdicts. `state` is the partition's; it is replaced when a snapshot is loaded."""

    __slots__ = ("_flying", "_refused", "state")

    # _flying: per producer in the order of appends; committed ones before those that are not.
    # _refused: what a producer will send again before it goes on.
    def __init__(self, state: PartitionState) -> None:
        self.state = state
        self._flying: dict[int, list[InFlight]] = {}
        self._refused: dict[int, _Refused] = {}

    def judge(self, header: Header) -> InFlight | Kept | None:
        """None for a batch that may be appended; what it repeats, if it does. Raises KafkaFailure."""
        producer, epoch, first = header.producer_id, header.producer_epoch, header.base_sequence
        known, flying = self.state.producers.get(producer), self._flying.get(producer)
        if flying:
            current, last = flying[-1].epoch, flying[-1].last
        elif known is not None:
            current, last = known.epoch, known.batches[-1].last
        else:
            return None  # it may begin anywhere: perhaps it was forgotten
        if epoch != current:
            _check_epoch(producer, epoch, first, current)
            return None
        if first == (last + 1) & SEQUENCE_MASK:
            return None
        end = last_sequence(first, header.last_delta)
        for entry in flying or ():
            if entry.epoch == epoch and entry.first == first and entry.last == end:
                return entry
        if known is not None and known.epoch == epoch:
            for kept in known.batches:
                if kept.first == first and kept.last == end:
                    return kept
        refused = self._refused.get(producer)
        if refused is not None and refused.epoch == epoch and _follows(first, refused.first):
            raise KafkaFailure(refused.error, f"sequence {refused.first} of producer {producer} has to come again first")
        raise KafkaFailure(
            Error.OUT_OF_ORDER_SEQUENCE_NUMBER, f"producer {producer} sends sequence {first}, and {last} was its last"
        )

    def refused(self, producer: int, epoch: int, first: int, error: int) -> None:
        """This leader did not take a batch, and the producer will send it again. What it sent behind it must wait likewise.

        That is no gap of the producer's making. Told that it were one, clients begin a new epoch, and then nobody recognizes
        the batches before it that are in doubt: they would be appended twice.
        """
        known = self._refused.get(producer)
        if known is not None and known.epoch == epoch and _follows(first, known.first):
            return
        if len(self._refused) >= _MAX_REFUSED:
            self._refused.clear()
        self._refused[producer] = _Refused(epoch, first, error)

    def deposed(self) -> None:
        """This replica does not lead: whatever it refused, the next leader knows nothing of it."""
        self._refused.clear()

    def appended(self, header: Header, settled: Settled) -> InFlight:
        """The batch is about to be given to the log; tell `decided` what became of it."""
        producer, first = header.producer_id, header.base_sequence
        entry = InFlight(producer, header.producer_epoch, first, last_sequence(first, header.last_delta), settled)
        refused = self._refused.get(producer)
        if refused is not None and (refused.epoch, refused.first) == (entry.epoch, first):
            del self._refused[producer]
        self._flying.setdefault(producer, []).append(entry)
        return entry

    def decided(self, entry: InFlight, outcome: Outcome) -> None:
        """The log's verdict on a batch."""
        if isinstance(outcome, OperationFailed):
            self.forget(entry)
            self.failed(entry, outcome)
        else:
            entry.base = outcome.offset
        settled, entry.settled = entry.settled, []
        for waiter in settled:
            waiter(outcome)

    def failed(self, entry: InFlight, failure: OperationFailed) -> None:
        """The log did not take a batch, or its fate is not known. If the producer will send it again, it comes first."""
        if failure.retriable:
            # What stands behind one whose fate is not known has certainly not happened.
            error = failure_of(failure).error if failure.definite else Error.NOT_LEADER_OR_FOLLOWER
            self.refused(entry.producer, entry.epoch, entry.first, error)

    def forget(self, entry: InFlight) -> None:
        """It did not happen, or nobody here knows: the log will tell the next leader."""
        flying = self._flying.get(entry.producer)
        if flying is not None and entry in flying:
            flying.remove(entry)
            if not flying:
                del self._flying[entry.producer]

    def applied(self, appended: list[tuple[int, int]]) -> None:
        """The state has these now, so they need not be remembered here."""
        if not self._flying:
            return
        for producer, base in appended:
            flying = self._flying.get(producer)
            while flying and NOT_YET != flying[0].base <= base:
                del flying[0]
            if flying is not None and not flying:
                del self._flying[producer]

    def replaced(self, state: PartitionState, offset: Offset) -> None:
        """A snapshot took the state's place. What it jumped over will never be applied here one by one."""
        self.state = state
        for flying in list(self._flying.values()):
            for entry in [entry for entry in flying if NOT_YET != entry.base <= offset]:
                self.forget(entry)

    @property
    def in_flight(self) -> int:
        """How many batches are remembered beside the state."""
        return sum(map(len, self._flying.values()))


def _follows(sequence: int, other: int) -> bool:
    """Whether a sequence number is the other one or comes after it; they wrap."""
    return (sequence - other) & SEQUENCE_MASK <= SEQUENCE_MASK >> 1


def _check_epoch(producer: int, epoch: int, first: int, current: int) -> None:
    """Whether a producer may go on, or begin, with another epoch than its last."""
    if epoch < current:
        raise KafkaFailure(
            Error.INVALID_PRODUCER_EPOCH, f"producer {producer} has epoch {current} already, and sends {epoch}"
        )
    if first != 0:
        raise KafkaFailure(
            Error.OUT_OF_ORDER_SEQUENCE_NUMBER, f"producer {producer} begins epoch {epoch} with sequence {first}"
        )
