"""What a partition answers, and the one error that it raises, in Kafka's terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from quorate.broker.protocol.kafka.errors import Error
from quorate.consensus.batch.errors import BadBatch, Reason
from quorate.consensus.core.types import Buffer
from quorate.consensus.runtime import (
    BadInput,
    Busy,
    NoRoom,
    NoSuchGroup,
    NotLeading,
    OperationFailed,
    ReplicaStopped,
    Superseded,
    Uncertain,
)
from quorate.consensus.runtime.errors import UncertainClock

_MAX_MESSAGE: Final = 1_000


class KafkaFailure(Exception):
    """A refusal in Kafka's terms. `definite`: it has not happened and will not happen."""

    def __init__(self, error: int, message: str = "", *, definite: bool = True) -> None:
        # It may quote what the client has sent, and an answer's strings have a limit.
        message = message[:_MAX_MESSAGE]
        super().__init__(error, message)
        self.error = error
        self.message = message
        self.definite = definite

    def __str__(self) -> str:
        return f"error {int(self.error)}: {self.message}"


class Appended(NamedTuple):
    """Where a batch now stands. For a duplicate of an idempotent producer: where it stood already."""

    base_offset: int
    """-1 with acks=0: nobody waited to learn it."""
    append_time: int
    log_start: int
    epoch: int = -1


class Fetched(NamedTuple):
    """Whole committed batches, and where the log ends."""

    records: Sequence[Buffer]
    """In order; the first may begin before the offset that was asked for. They are not copied, and must not be changed."""
    size: int
    next_offset: int
    """Where to go on: after the last batch, or the offset that was asked for."""
    high_watermark: int
    log_start: int


class ListedOffset(NamedTuple):
    """An answer to a question for an offset; -1 everywhere if there is none."""

    offset: int
    timestamp: int
    epoch: int


class Closed(NamedTuple):
    """No later append gets a stamp at or below `closed_ms` (-1: no such time is known), and every record that has one lies
    below `end_offset`."""

    closed_ms: int
    end_offset: int


class EpochEnd(NamedTuple):
    """The largest epoch not above the one that was asked for, and the first offset after it; -1 twice if unknown."""

    epoch: int
    end_offset: int


_CODES: Final[dict[type[OperationFailed], Error]] = {
    NotLeading: Error.NOT_LEADER_OR_FOLLOWER,
    Superseded: Error.NOT_LEADER_OR_FOLLOWER,
    ReplicaStopped: Error.NOT_LEADER_OR_FOLLOWER,
    NoSuchGroup: Error.NOT_LEADER_OR_FOLLOWER,
    # Clients retry this one after a pause. Quota errors are not for producers.
    Busy: Error.NOT_ENOUGH_REPLICAS,
    UncertainClock: Error.NOT_ENOUGH_REPLICAS,
    NoRoom: Error.KAFKA_STORAGE_ERROR,
    Uncertain: Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    BadInput: Error.INVALID_RECORD,
}
_REASONS: Final[dict[Reason, Error]] = {
    Reason.CRC: Error.CORRUPT_MESSAGE,
    Reason.TRUNCATED: Error.CORRUPT_MESSAGE,
    Reason.LENGTH: Error.CORRUPT_MESSAGE,
    Reason.MAGIC: Error.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    Reason.COMPRESSION: Error.UNSUPPORTED_COMPRESSION_TYPE,
    Reason.TIMESTAMP: Error.INVALID_TIMESTAMP,
}
"""Everything else that can be wrong with a batch is INVALID_RECORD."""


def failure_of(error: OperationFailed) -> KafkaFailure:
    """What the runtime says, as clients are told it."""
    code = _CODES.get(type(error), Error.NOT_ENOUGH_REPLICAS if error.definite else Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    return KafkaFailure(code, str(error), definite=error.definite)


def refusal_of(error: BadBatch) -> KafkaFailure:
    """Why a batch is not taken, as clients are told it."""
    return KafkaFailure(_REASONS.get(error.reason, Error.INVALID_RECORD), str(error))
