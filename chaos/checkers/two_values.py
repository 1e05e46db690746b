"""Two values: acknowledgements and readers, at any time, disagree about what is at one offset."""

from __future__ import annotations

from quorate.chaos.checkers.api import Anomaly, Checker, Found
from quorate.chaos.history import History, Place


def check(history: History) -> Found:
    holds: dict[tuple[Place, int], dict[str, int]] = {}
    for operation in history.acknowledged:
        holds.setdefault((operation.place, operation.offset), {}).setdefault(operation.value, operation.number)
    for read in history.reads:
        place = read.place
        for record in read.records:
            holds.setdefault((place, record.offset), {}).setdefault(record.value, read.number)
    anomalies = [
        Anomaly(f"{place} offset {offset} holds {' and '.join(sorted(values))}", tuple(sorted(values.values())))
        for (place, offset), values in holds.items()
        if len(values) > 1
    ]
    return Found(len(holds), anomalies)


CHECKER = Checker(name="two-values", summary="one offset holds two different messages", check=check, live=True)
