"""Lost: a message was acknowledged and is not in the log at its offset in the end."""

from __future__ import annotations

from quorate.chaos.checkers.api import Anomaly, Checker, Found
from quorate.chaos.history import UNKNOWN, Action, History


def check(history: History) -> Found:
    anomalies, looked_at = [], 0
    offsets = {(place, record.value): record.offset for place, log in history.final.items() for record in log.values()}
    for operation in history.of(Action.PRODUCE):
        log = history.final.get(operation.place)
        if operation.outcome != "ok" or log is None:
            continue
        looked_at += 1
        there = log.get(operation.offset)
        elsewhere = offsets.get((operation.place, operation.value))
        if there is not None and there.value == operation.value:
            continue
        if operation.offset == UNKNOWN and elsewhere is not None:
            continue  # its producer was not told where it is
        fate = "is nowhere" if elsewhere is None else f"was moved to {elsewhere}"
        anomalies.append(
            Anomaly(
                f"{operation.value} was acknowledged at {operation.place} offset {operation.offset} and {fate} in the end",
                (operation.number, history.final_reads[operation.place]),
            )
        )
    return Found(looked_at, anomalies)


CHECKER = Checker(name="lost", summary="an acknowledged message is gone, or has moved to another offset", check=check)
