"""Stale: a leader that was asked for its end did not know of a message that had been acknowledged before.

An old leader may not have noticed that it was deposed. It must find that out before it answers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from itertools import accumulate

from quorate.chaos.checkers.api import Anomaly, Checker, Found
from quorate.chaos.history import Action, History, Operation, Place


def check(history: History) -> Found:
    acknowledged: dict[Place, list[Operation]] = defaultdict(list)
    for operation in history.acknowledged:
        acknowledged[operation.place].append(operation)
    ends: dict[Place, list[int]] = {}
    highest: dict[Place, list[Operation]] = {}
    for place, found in acknowledged.items():
        found.sort(key=lambda one: one.ended_ns or 0)
        ends[place] = [one.ended_ns or 0 for one in found]
        highest[place] = list(accumulate(found, _higher))
    anomalies, looked_at = [], 0
    for asked in history.of(Action.LATEST):
        if asked.outcome != "ok" or asked.place not in ends:
            continue
        looked_at += 1
        done = bisect_left(ends[asked.place], asked.began_ns)
        known = highest[asked.place][done - 1] if done else None
        if known is not None and asked.offset <= known.offset:
            late_s = (asked.began_ns - (known.ended_ns or 0)) / 1e9
            text = (
                f"node {asked.node} said that {asked.place} ends at {asked.offset}, "
                f"and offset {known.offset} had been acknowledged {late_s:.1f} s before"
            )
            anomalies.append(Anomaly(text, (known.number, asked.number)))
    return Found(looked_at, anomalies)


def _higher(one: Operation, other: Operation) -> Operation:
    return one if one.offset > other.offset else other


CHECKER = Checker(name="stale", summary="a deposed leader went on answering readers", check=check, live=True)
