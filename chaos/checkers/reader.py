"""Reader: within one stream of reads offsets only rise, and no committed message is left out.

A gap between offsets is legal in itself: control batches take offsets too. It is a skip if a message is known to be there:
one that was acknowledged, or that the final read found. When it was written does not matter, because a reader that has seen
a later offset has been past it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict

from quorate.chaos.checkers.api import Anomaly, Checker, Found
from quorate.chaos.history import UNKNOWN, Action, History, Operation, Place

_NAMED = 5


def check(history: History) -> Found:
    streams: dict[tuple[str, str, Place], list[Operation]] = defaultdict(list)
    for read in history.of(Action.READ):
        if read.outcome == "ok" and read.records:
            streams[read.process, read.stream, read.place].append(read)
    committed = _committed(history)
    anomalies = []
    for (_, _, place), reads in streams.items():
        anomalies += _follow(reads, place, committed.get(place, []))
    return Found(sum(len(read.records) for reads in streams.values() for read in reads), anomalies)


def _committed(history: History) -> dict[Place, list[int]]:
    found: dict[Place, set[int]] = defaultdict(set)
    for operation in history.acknowledged:
        found[operation.place].add(operation.offset)
    for place, log in history.final.items():
        found[place].update(log)
    return {place: sorted(offsets) for place, offsets in found.items()}


def _follow(reads: list[Operation], place: Place, committed: list[int]) -> list[Anomaly]:
    anomalies = []
    expected, before = reads[0].offset, reads[0].number
    for read in reads:
        for record in read.records:
            evidence = tuple(dict.fromkeys((before, read.number)))
            if record.offset < expected:
                text = f"{read.process} went back at {place}: offset {record.offset} when {expected} was next"
                anomalies.append(Anomaly(text, evidence))
            elif expected != UNKNOWN:
                skipped = committed[bisect_left(committed, expected) : bisect_left(committed, record.offset)]
                if skipped:
                    named = ", ".join(map(str, skipped[:_NAMED])) + (", ..." if len(skipped) > _NAMED else "")
                    text = (
                        f"{read.process} skipped {len(skipped)} messages at {place}: {named}; it went on at {record.offset}"
                    )
                    anomalies.append(Anomaly(text, evidence))
            expected, before = record.offset + 1, read.number
    return anomalies


CHECKER = Checker(name="reader", summary="a reader went back, or skipped a committed message", check=check, live=True)
