"""What a checker is: a pure function of a history that looks for one anomaly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from quorate.chaos.history import History


class Anomaly(NamedTuple):
    """One thing that must not happen, and the operations that show it."""

    text: str
    operations: tuple[int, ...]


class Found(NamedTuple):
    """What a checker found. `looked_at` says how many things it judged: a checker that saw nothing proves nothing."""

    looked_at: int
    anomalies: list[Anomaly]


@dataclass(frozen=True, kw_only=True)
class Checker:
    """One anomaly. A checker that is not `live` needs the final reads; the others can judge a history that still grows."""

    name: str
    summary: str
    check: Callable[[History], Found]
    live: bool = False


class Verdict(NamedTuple):
    """One checker's word on one history."""

    name: str
    summary: str
    found: Found

    @property
    def good(self) -> bool:
        return not self.found.anomalies

    @property
    def word(self) -> str:
        """For people: `ok`, `nothing to judge`, or how many anomalies."""
        count = len(self.found.anomalies)
        if count:
            return f"{count} anomal{'y' if count == 1 else 'ies'}"
        return "ok" if self.found.looked_at else "nothing to judge"


def judge(history: History, checkers: Iterable[Checker]) -> list[Verdict]:
    """Every checker's verdict."""
    return [Verdict(one.name, one.summary, one.check(history)) for one in checkers]
