"""What a coordinator has to know of queues: which log a partition has now, and which logs are gone for good."""

from __future__ import annotations

from typing import Final, Protocol

NO_LOG: Final = -1
"""Of a commit that does not say for which log it was made: those of earlier releases."""


class Logs(Protocol):
    """A queue that is deleted and made again under the same name has other logs: the number of one is never used again."""

    def log_of(self, queue: str, partition: int) -> int:
        """The number of the log that a partition has now, or NO_LOG."""

    def is_gone(self, log: int) -> bool:
        """Whether a log was deleted. One that is not known yet is not gone."""


class NoLogs:
    """Knows of none."""

    def log_of(self, queue: str, partition: int) -> int:
        """Always NO_LOG."""
        return NO_LOG

    def is_gone(self, log: int) -> bool:
        """Never."""
        return False
