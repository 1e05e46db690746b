"""Time back: within a partition, a message has a lower log time than one at a lower offset."""

from __future__ import annotations

from collections import defaultdict

from quorate.chaos.checkers.api import Anomaly, Checker, Found
from quorate.chaos.history import UNKNOWN, History, Place


def check(history: History) -> Found:
    stamps: dict[Place, dict[int, tuple[int, int]]] = defaultdict(dict)
    for read in history.reads:
        here = stamps[read.place]
        for record in read.records:
            if record.stamp != UNKNOWN:
                here.setdefault(record.offset, (record.stamp, read.number))
    anomalies, looked_at = [], 0
    for place, here in stamps.items():
        latest, at, witness = UNKNOWN, UNKNOWN, UNKNOWN
        for offset in sorted(here):
            stamp, number = here[offset]
            looked_at += 1
            if stamp < latest:
                text = f"{place} offset {offset} has time {stamp}, {latest - stamp} ms before that of offset {at}"
                anomalies.append(Anomaly(text, tuple(sorted({number, witness}))))
            else:
                latest, at, witness = stamp, offset, number
    return Found(looked_at, anomalies)


CHECKER = Checker(name="time-back", summary="log time goes back within a partition", check=check, live=True)
