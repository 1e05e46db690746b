"""Group skipped: a group has committed past a message that none of its members was given."""

from __future__ import annotations

from collections import defaultdict

from quorate.chaos.checkers.api import Anomaly, Checker, Found
from quorate.chaos.history import UNKNOWN, Action, History, Operation, Place

_NAMED = 5


def check(history: History) -> Found:
    reached: dict[tuple[str, Place], Operation] = {}
    for operation in history.of(Action.COMMITTED, Action.COMMIT):
        key = (operation.group, operation.place)
        if operation.outcome == "ok" and operation.offset > (reached[key].offset if key in reached else UNKNOWN):
            reached[key] = operation
    given: dict[tuple[str, Place], set[int]] = defaultdict(set)
    for read in history.of(Action.READ):
        if read.group:
            given[read.group, read.place].update(record.offset for record in read.records)
    anomalies, looked_at = [], 0
    for (group, place), operation in reached.items():
        if (group, place) not in given:
            continue  # one that only commits, and reads nothing
        below = [offset for offset in history.final.get(place, ()) if offset < operation.offset]
        looked_at += len(below)
        missing = sorted(set(below) - given[group, place])
        if missing:
            named = ", ".join(map(str, missing[:_NAMED])) + (", ..." if len(missing) > _NAMED else "")
            text = f"{group} committed {operation.offset} at {place}; {len(missing)} before it were given to nobody: {named}"
            anomalies.append(Anomaly(text, (operation.number,)))
    return Found(looked_at, anomalies)


CHECKER = Checker(name="group-skipped", summary="a group went past a message that no member was given", check=check)
