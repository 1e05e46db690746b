"""Duplicate: a message that may be in the log once (an idempotent producer's, or sent once) is there twice."""

from __future__ import annotations

from collections import defaultdict

from quorate.chaos.checkers.api import Anomaly, Checker, Found
from quorate.chaos.history import History


def check(history: History) -> Found:
    once = {value: operation for value, operation in history.produced.items() if operation.once}
    seen: dict[str, dict[tuple[object, int], int]] = defaultdict(dict)
    for operation in history.acknowledged:
        if operation.once:
            seen[operation.value].setdefault((operation.place, operation.offset), operation.number)
    for read in history.reads:
        for record in read.records:
            if record.value in once:
                seen[record.value].setdefault((read.place, record.offset), read.number)
    anomalies = []
    for value, places in seen.items():
        if len(places) > 1:
            where = " and ".join(f"{place} offset {offset}" for place, offset in sorted(places, key=str))
            evidence = tuple(sorted({once[value].number, *places.values()}))
            anomalies.append(Anomaly(f"{value} is at {where}", evidence))
    return Found(len(seen), anomalies)


CHECKER = Checker(
    name="duplicate", summary="an idempotent producer's message is in the log more than once", check=check, live=True
)
