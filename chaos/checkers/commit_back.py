"""Commit back: a group's committed offset is not the last one that was acknowledged, nor any that may have followed it.

A commit that timed out may take effect at any later time, so it excuses what it wrote for good. What is flagged has no
excuse: an older acknowledged commit, none at all, or an offset that nobody committed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from itertools import accumulate

from quorate.chaos.checkers.api import Anomaly, Checker, Found
from quorate.chaos.history import UNKNOWN, Action, History, Operation, Place

Key = tuple[str, Place]


def check(history: History) -> Found:
    commits: dict[Key, list[Operation]] = defaultdict(list)
    for operation in history.of(Action.COMMIT):
        if operation.outcome != "fail":
            commits[operation.group, operation.place].append(operation)
    commits_of = {key: _Commits(found) for key, found in commits.items()}
    anomalies, looked_at = [], 0
    for asked in history.of(Action.COMMITTED):
        if asked.outcome != "ok":
            continue
        looked_at += 1
        known = commits_of.get((asked.group, asked.place))
        anomaly = known.judge(asked) if known is not None else None
        if anomaly is not None:
            anomalies.append(anomaly)
    return Found(looked_at, anomalies)


class _Commits:
    """All commits of one group to one partition that did happen, or may have."""

    def __init__(self, commits: list[Operation]) -> None:
        self._by_offset: dict[int, list[Operation]] = defaultdict(list)
        for commit in commits:
            self._by_offset[commit.offset].append(commit)
        acknowledged = sorted((one for one in commits if one.outcome == "ok"), key=lambda one: one.ended_ns or 0)
        self._ends = [one.ended_ns or 0 for one in acknowledged]
        # For each prefix, the acknowledged commit that began last: everything that ended before it is superseded.
        self._newest = list(accumulate(acknowledged, _newer))

    def judge(self, asked: Operation) -> Anomaly | None:
        """What is wrong with an answer."""
        done = bisect_left(self._ends, asked.began_ns)
        newest = self._newest[done - 1] if done else None
        where = f"{asked.group} at {asked.place}"
        if asked.offset == UNKNOWN:
            if newest is None:
                return None
            return Anomaly(f"{where} has no offset, and {newest.offset} was committed", (newest.number, asked.number))
        written = [one for one in self._by_offset.get(asked.offset, ()) if one.began_ns < (asked.ended_ns or 0)]
        if not written:
            return Anomaly(f"{where} is at {asked.offset}, which nobody committed", (asked.number,))
        if newest is None or any(one.maybe or (one.ended_ns or 0) >= newest.began_ns for one in written):
            return None
        text = f"{where} is at {asked.offset}, and {newest.offset} was committed after that"
        return Anomaly(text, (written[-1].number, newest.number, asked.number))


def _newer(one: Operation, other: Operation) -> Operation:
    return one if one.began_ns > other.began_ns else other


CHECKER = Checker(name="commit-back", summary="a group's committed offset went back or vanished", check=check, live=True)
