"""False fail: an error said that the operation certainly did not happen, and it did."""

from __future__ import annotations

from quorate.chaos.checkers.api import Anomaly, Checker, Found
from quorate.chaos.history import Action, History, Operation, Place


def check(history: History) -> Found:
    failed = {value: operation for value, operation in history.produced.items() if operation.outcome == "fail"}
    created = {one.topic: one for one in history.of(Action.CREATE) if one.outcome == "fail"}
    looked_at = len(failed) + len(created)
    seen: dict[str, tuple[str, int]] = {}
    for read in history.reads:
        for record in read.records:
            if record.value in failed:
                seen.setdefault(record.value, (f"{read.place} offset {record.offset}", read.number))
    anomalies = [
        Anomaly(f"{value} was refused ({failed[value].error}), and is at {where}", (failed[value].number, number))
        for value, (where, number) in seen.items()
    ]
    commits, refused = _refused_commits(history)
    anomalies += commits
    for listed in history.of(Action.TOPICS):
        for topic in created.keys() & listed.topics.keys():
            text = f"creating {topic} was refused ({created[topic].error}), and it is there"
            anomalies.append(Anomaly(text, (created.pop(topic).number, listed.number)))
    return Found(looked_at + refused, anomalies)


def _refused_commits(history: History) -> tuple[list[Anomaly], int]:
    """Offsets that only refused commits have asked for; and how many were refused."""
    refused: dict[tuple[str, Place, int], Operation] = {}
    others = set()
    for one in history.of(Action.COMMIT):
        key = (one.group, one.place, one.offset)
        if one.outcome == "fail":
            refused.setdefault(key, one)
        else:
            others.add(key)
    anomalies = []
    for asked in history.of(Action.COMMITTED):
        commit = refused.get((asked.group, asked.place, asked.offset))
        if commit is not None and asked.outcome == "ok" and (asked.group, asked.place, asked.offset) not in others:
            text = f"{asked.group} was refused {asked.offset} at {asked.place} ({commit.error}), and is there"
            anomalies.append(Anomaly(text, (commit.number, asked.number)))
    return anomalies, len(refused)


CHECKER = Checker(name="false-fail", summary="an error called definite, and the operation happened", check=check, live=True)
