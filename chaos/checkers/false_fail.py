"""False fail: an error said that the operation certainly did not happen, and it did."""

from __future__ import annotations

from quorate.chaos.checkers.api import Anomaly, Checker, Found
from quorate.chaos.history import Action, History


def check(history: History) -> Found:
    failed = {value: operation for value, operation in history.produced.items() if operation.outcome == "fail"}
    created = {one.topic: one for one in history.of(Action.CREATE) if one.outcome == "fail"}
    seen: dict[str, tuple[str, int]] = {}
    for read in history.reads:
        for record in read.records:
            if record.value in failed:
                seen.setdefault(record.value, (f"{read.place} offset {record.offset}", read.number))
    anomalies = [
        Anomaly(f"{value} was refused ({failed[value].error}), and is at {where}", (failed[value].number, number))
        for value, (where, number) in seen.items()
    ]
    for listed in history.of(Action.TOPICS):
        for topic in created.keys() & listed.topics.keys():
            text = f"creating {topic} was refused ({created[topic].error}), and it is there"
            anomalies.append(Anomaly(text, (created.pop(topic).number, listed.number)))
    return Found(len(failed) + len(created), anomalies)


CHECKER = Checker(name="false-fail", summary="an error called definite, and the operation happened", check=check, live=True)
