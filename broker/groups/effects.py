"""What the coordinator wants done. It never does any of it itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from quorate.broker.groups.errors import Failure
from quorate.broker.groups.records import KeyValue
from quorate.consensus.core.types import Millis, Offset

Response = dict[str, Any]
"""A Kafka response body: field names as in Kafka's schemas, in snake case."""
Done = Callable[[Response], None]
Outcome = Offset | Failure
Report = Callable[[Outcome, Millis], None]
"""Takes the outcome of an effect and the time at which it is told."""


class Append(NamedTuple):
    """Append these records as one batch, in the order in which appends are taken.

    `done` takes the last offset of the batch once it is committed, or why it is not. What depends on it goes on when the
    state has come to that offset: call `applied` after every `apply`.
    """

    records: tuple[KeyValue, ...]
    done: Report


class Confirm(NamedTuple):
    """Make sure that this replica still leads (a read index). `done` takes the offset that the state must have applied."""

    done: Report


class Answer(NamedTuple):
    """Call `done(response)`: a client's request is answered."""

    done: Done
    response: Response


class Effects:
    """Everything that follows from the inputs since the last `take`. Answers may leave at once."""

    __slots__ = ("answers", "appends", "confirms")

    def __init__(self) -> None:
        self.appends: list[Append] = []
        self.confirms: list[Confirm] = []
        self.answers: list[Answer] = []

    def __bool__(self) -> bool:
        return bool(self.answers or self.appends or self.confirms)
