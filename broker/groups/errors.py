"""The Kafka error codes that a group coordinator answers with, and what can go wrong with something it wants durable."""

from __future__ import annotations

from enum import Enum, IntEnum


class Code(IntEnum):
    """Kafka's error codes, as far as groups use them."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    GROUP_SUBSCRIBED_TO_TOPIC = 86


class Failure(Enum):
    """Why an effect was not carried out, or is not known to have been. Each has the code that clients are told."""

    NOT_LEADER = "not leader"
    """This replica does not lead: nothing was appended. Clients look for the new coordinator."""
    UNCERTAIN = "uncertain"
    """It may still happen. Every request here may be repeated."""
    REFUSED = "refused"
    """Nothing was appended, and a later try may succeed."""
    TOO_LARGE = "too large"
    """Nothing was appended, and no retry helps."""

    @property
    def code(self) -> Code:
        """What the client is told."""
        return _CODES[self]


_CODES = {
    Failure.NOT_LEADER: Code.NOT_COORDINATOR,
    Failure.UNCERTAIN: Code.COORDINATOR_NOT_AVAILABLE,
    Failure.REFUSED: Code.COORDINATOR_NOT_AVAILABLE,
    Failure.TOO_LARGE: Code.UNKNOWN_SERVER_ERROR,
}
