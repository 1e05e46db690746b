"""Uncommitted: somebody read a message that is not in the log in the end, that was refused, or that nobody wrote."""

from __future__ import annotations

from quorate.chaos.checkers.api import Anomaly, Checker, Found
from quorate.chaos.history import Action, History, Record


def check(history: History) -> Found:
    anomalies, looked_at = [], 0
    flagged: set[tuple[object, int, str]] = set()
    for read in history.of(Action.READ):
        place, log = read.place, history.final.get(read.place)
        for record in read.records:
            looked_at += 1
            reason = _reason(history, log, record.offset, record.value)
            if reason is None or (place, record.offset, record.value) in flagged:
                continue
            flagged.add((place, record.offset, record.value))
            written = history.produced.get(record.value)
            evidence = (read.number,) if written is None else (written.number, read.number)
            anomalies.append(
                Anomaly(f"{read.process} read {record.value} at {place} offset {record.offset}: {reason}", evidence)
            )
    return Found(looked_at, anomalies)


def _reason(history: History, log: dict[int, Record] | None, offset: int, value: str) -> str | None:
    written = history.produced.get(value)
    if written is None:
        return "nobody wrote it"
    if written.outcome == "fail":
        return f"its producer was told that it is not there ({written.error})"
    if log is None:
        return None  # nobody has read this partition again
    there = log.get(offset)
    if there is None:
        return "in the end nothing is there"
    return None if there.value == value else "in the end something else is there"


CHECKER = Checker(name="uncommitted", summary="a reader saw a message that was never committed", check=check)
