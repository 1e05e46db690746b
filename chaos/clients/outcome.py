"""Which errors say that an operation certainly did not happen. Everything that is not named here may have happened."""

from __future__ import annotations

from typing import Final

from quorate.broker.protocol.kafka.errors import Error

_REFUSED: Final = frozenset(
    {
        Error.CORRUPT_MESSAGE,
        Error.INVALID_RECORD,
        Error.INVALID_REQUIRED_ACKS,
        Error.INVALID_TIMESTAMP,
        Error.KAFKA_STORAGE_ERROR,
        Error.LEADER_NOT_AVAILABLE,
        Error.MESSAGE_TOO_LARGE,
        Error.NOT_ENOUGH_REPLICAS,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.OUT_OF_ORDER_SEQUENCE_NUMBER,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""A produce request that got one of these has changed nothing, and will not."""

_COMMIT_REFUSED: Final = frozenset(
    {
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.FENCED_INSTANCE_ID,
        Error.GROUP_ID_NOT_FOUND,
        Error.ILLEGAL_GENERATION,
        Error.NOT_COORDINATOR,
        Error.REBALANCE_IN_PROGRESS,
        Error.UNKNOWN_MEMBER_ID,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""The same for a commit of a group. COORDINATOR_NOT_AVAILABLE is none of them: it stands for unknown outcomes too."""


def produce_failed(code: int) -> bool:
    """Whether a produce request with this error certainly did nothing."""
    return code in _REFUSED


def commit_failed(code: int) -> bool:
    """Whether a commit with this error certainly did nothing."""
    return code in _COMMIT_REFUSED


def name_of(code: int) -> str:
    """An error's name, for people."""
    try:
        return Error(code).name
    except ValueError:
        return f"error {code}"
