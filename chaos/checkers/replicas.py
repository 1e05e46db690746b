"""Replicas: after the end, two replicas of a partition differ in what both of them know to be committed."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations, zip_longest

from quorate.chaos.checkers.api import Anomaly, Checker, Found
from quorate.chaos.history import Action, History, Operation, Place, Record


def check(history: History) -> Found:
    replicas: dict[Place, list[Operation]] = defaultdict(list)
    for operation in history.of(Action.REPLICA):
        if operation.outcome == "ok":
            replicas[operation.place].append(operation)
    anomalies, looked_at = [], 0
    for place, found in replicas.items():
        for one, other in combinations(found, 2):
            looked_at += len(_shared(one, other))
            anomaly = _compare(place, one, other)
            if anomaly is not None:
                anomalies.append(anomaly)
    return Found(looked_at, anomalies)


def _shared(replica: Operation, other: Operation) -> list[Record]:
    """The batches that both should have: kept by both, and committed as far as both know."""
    first = max((one.records[0].offset if one.records else one.offset + 1) for one in (replica, other))
    end = min(replica.offset, other.offset)
    # The stamp of a replica's record is the last offset of its batch.
    return [record for record in replica.records if record.offset >= first and record.stamp <= end]


def _compare(place: Place, one: Operation, other: Operation) -> Anomaly | None:
    for left, right in zip_longest(_shared(one, other), _shared(other, one)):
        if left != right:
            text = f"{place}: node {one.node} has {_text(left)}, node {other.node} has {_text(right)}"
            return Anomaly(text, (one.number, other.number))
    return None


def _text(batch: Record | None) -> str:
    return "nothing more" if batch is None else f"batch {batch.offset}-{batch.stamp} ({batch.value})"


CHECKER = Checker(name="replicas", summary="replicas differ in what is committed", check=check)
