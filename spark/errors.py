"""What the source and the sink raise. Each text stands alone: Spark shows it to people below a Java stack.

Not here: what the client raises (`quorate.client`), and batches that cannot be read (`columns`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class SparkSourceError(Exception):
    """Base of all. Each can be pickled: tasks raise them on other machines."""


class BadOption(SparkSourceError, ValueError):
    """An option that there is not, that contradicts another one, or with a value that it cannot have."""

    def __init__(self, option: str, why: str) -> None:
        super().__init__(option, why)
        self.option, self.why = option, why

    def __str__(self) -> str:
        return f"option {self.option}: {self.why}"


class Missing(NamedTuple):
    """Offsets from `first` to before `end` that are not there any more."""

    topic: str
    partition: int
    first: int
    end: int
    why: str

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} offsets {self.first} to {self.end - 1} ({self.why})"


class DataLost(SparkSourceError):
    """Offsets that should have been read are gone."""

    def __init__(self, missing: Sequence[Missing]) -> None:
        super().__init__(tuple(missing))
        self.missing = tuple(missing)

    def __str__(self) -> str:
        gone = "; ".join(map(str, self.missing))
        return (
            f"data that has not been read is gone: {gone}. Nothing of it was handed on. To go on without it, set the option "
            "failOnDataLoss to false; to keep more, raise the queue's retention.ms or retention.bytes"
        )


class NotClosed(SparkSourceError):
    """The cut that `asOf` asks for does not exist yet."""

    def __init__(self, text: str) -> None:
        super().__init__(text)


class BadRows(SparkSourceError):
    """Rows that cannot be written, or columns that no queue takes."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
