"""Metadata: a topic that was created, grown or deleted, as acknowledged, is not so in the end."""

from __future__ import annotations

from quorate.chaos.checkers.api import Anomaly, Checker, Found
from quorate.chaos.history import Action, History, Operation


def check(history: History) -> Found:
    anomalies, looked_at = [], 0
    changes: dict[str, list[Operation]] = {}
    for change in history.of(Action.CREATE, Action.GROW, Action.DELETE):
        if change.outcome != "fail":
            changes.setdefault(change.topic, []).append(change)
    for listed in history.of(Action.TOPICS):
        if listed.outcome != "ok":
            continue
        for topic, done in changes.items():
            looked_at += 1
            anomaly = _judge(topic, done, listed)
            if anomaly is not None:
                anomalies.append(anomaly)
    return Found(looked_at, anomalies)


def _judge(topic: str, changes: list[Operation], listed: Operation) -> Anomaly | None:
    """Names are never used again, so that a topic that was once deleted stays so."""
    done = [one for one in changes if one.outcome == "ok" and (one.ended_ns or 0) < listed.began_ns]
    deleted = next((one for one in done if one.action is Action.DELETE), None)
    there = listed.topics.get(topic)
    if deleted is not None:
        text = f"{topic} was deleted, and node {listed.node} has it"
        return None if there is None else Anomaly(text, (deleted.number, listed.number))
    if not done or any(one.action is Action.DELETE and one.began_ns < (listed.ended_ns or 0) for one in changes):
        return None
    largest = max(done, key=lambda one: one.count)
    if there is None:
        return Anomaly(f"{topic} was created, and node {listed.node} does not have it", (largest.number, listed.number))
    if there < largest.count:
        text = f"{topic} has {there} partitions on node {listed.node}, and {largest.count} were acknowledged"
        return Anomaly(text, (largest.number, listed.number))
    return None


CHECKER = Checker(name="metadata", summary="an acknowledged change of topics is undone", check=check)
