"""What can go wrong with something that a group coordinator wants durable, and what its clients are told."""

from __future__ import annotations

from enum import Enum

from quorate.broker.protocol.kafka.errors import Error


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
    def code(self) -> Error:
        """What the client is told."""
        return _CODES[self]


_CODES = {
    Failure.NOT_LEADER: Error.NOT_COORDINATOR,
    Failure.UNCERTAIN: Error.COORDINATOR_NOT_AVAILABLE,
    Failure.REFUSED: Error.COORDINATOR_NOT_AVAILABLE,
    Failure.TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
}
