"""The life of a group as a table: which event leads from which phase to which."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Phase(Enum):
    """Where a group stands. The values are the names that Kafka's tools show."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    """Members are asked to join again."""
    COMPLETING = "CompletingRebalance"
    """A new generation stands; its leader has yet to divide the work."""
    STABLE = "Stable"
    DEAD = "Dead"
    """It is being deleted."""


class Event(Enum):
    """What moves a group on."""

    REBALANCE = "rebalance"
    JOINED = "joined"
    EMPTIED = "emptied"
    ASSIGNED = "assigned"
    DELETE = "delete"
    KEPT = "kept"
    """It could not be deleted."""


TRANSITIONS: Final[dict[tuple[Phase, Event], Phase]] = {
    (Phase.EMPTY, Event.REBALANCE): Phase.PREPARING,
    (Phase.COMPLETING, Event.REBALANCE): Phase.PREPARING,
    (Phase.STABLE, Event.REBALANCE): Phase.PREPARING,
    (Phase.PREPARING, Event.JOINED): Phase.COMPLETING,
    (Phase.PREPARING, Event.EMPTIED): Phase.EMPTY,
    (Phase.COMPLETING, Event.ASSIGNED): Phase.STABLE,
    (Phase.EMPTY, Event.DELETE): Phase.DEAD,
    (Phase.DEAD, Event.KEPT): Phase.EMPTY,
}


class IllegalMove(RuntimeError):
    """An event that has no place in a phase: a mistake in this package, never a client's."""


def after(phase: Phase, event: Event) -> Phase:
    """The phase that follows. Raises IllegalMove."""
    try:
        return TRANSITIONS[phase, event]
    except KeyError:
        raise IllegalMove(f"{event.name} while {phase.name}") from None
