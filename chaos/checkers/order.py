"""Order: a message that was acknowledged before another one was sent has the higher offset of the two."""

from __future__ import annotations

from collections import defaultdict

from quorate.chaos.checkers.api import Anomaly, Checker, Found
from quorate.chaos.history import UNKNOWN, Action, History, Operation, Place


def check(history: History) -> Found:
    placed: dict[Place, list[tuple[int, Operation]]] = defaultdict(list)
    offsets = {record.value: record.offset for log in history.final.values() for record in log.values()}
    for operation in history.of(Action.PRODUCE):
        # One that was not acknowledged counts too, if it is there: it was sent after everything acknowledged before.
        offset = operation.offset if operation.offset != UNKNOWN else offsets.get(operation.value)
        if offset is not None:
            placed[operation.place].append((offset, operation))
    anomalies = []
    for place, produced in placed.items():
        anomalies += _compare(place, produced)
    return Found(sum(map(len, placed.values())), anomalies)


def _compare(place: Place, produced: list[tuple[int, Operation]]) -> list[Anomaly]:
    acknowledged = sorted(
        (one.ended_ns or 0, offset, one.number, one.value) for offset, one in produced if one.outcome == "ok"
    )
    anomalies, at = [], 0
    highest, holder, value = -1, -1, ""
    for offset, operation in sorted(produced, key=lambda pair: pair[1].began_ns):
        while at < len(acknowledged) and acknowledged[at][0] < operation.began_ns:
            if acknowledged[at][1] > highest:
                _, highest, holder, value = acknowledged[at]
            at += 1
        if offset < highest:
            text = f"{operation.value} at {place} offset {offset} was sent after {value} at {highest} was acknowledged"
            anomalies.append(Anomaly(text, (holder, operation.number)))
    return anomalies


CHECKER = Checker(name="order", summary="a later message has the lower offset", check=check, live=True)
