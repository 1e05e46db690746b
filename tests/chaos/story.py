"""Histories told by hand, for tests: one step after another, each a second after the last."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from quorate.chaos.checkers import CHECKERS, Anomaly
from quorate.chaos.history import Action, History, Operation, Recorder

T = "t"
Seen = tuple[int, str] | tuple[int, str, int]


class Story:
    """A recorder whose clock moves on a second with each event."""

    def __init__(self) -> None:
        seconds = itertools.count()
        self.recorder = Recorder(clock=lambda: next(seconds) * 1_000_000_000)

    def begin(self, value: str, *, once: bool = True, partition: int = 0) -> int:
        return self.recorder.invoke("p", Action.PRODUCE, topic=T, partition=partition, value=value, once=once)

    def wrote(self, value: str, offset: int, **more: Any) -> int:
        """A produce that was acknowledged."""
        number = self.begin(value, **more)
        self.recorder.ok(number, offset=offset)
        return number

    def refused(self, value: str) -> int:
        number = self.begin(value)
        self.recorder.fail(number, "NOT_ENOUGH_REPLICAS")
        return number

    def doubtful(self, value: str) -> int:
        number = self.begin(value)
        self.recorder.info(number, "timed out")
        return number

    def read(self, *seen: Seen, process: str = "r", stream: str = "", at: int = -1, group: str = "") -> int:
        what = {"topic": T, "partition": 0, "stream": stream, "offset": at, "group": group}
        return self._done(process, Action.READ, what, records=_whole(seen))

    def final(self, *seen: Seen) -> int:
        end = max((one[0] for one in seen), default=-1) + 1
        return self._done("end", Action.FINAL, {"topic": T, "partition": 0}, records=_whole(seen), offset=end)

    def latest(self, offset: int, node: int = 1) -> int:
        return self._done("r", Action.LATEST, {"topic": T, "partition": 0, "node": node}, offset=offset)

    def commit(self, offset: int, outcome: str = "ok", group: str = "g") -> int:
        number = self.recorder.invoke("m", Action.COMMIT, topic=T, partition=0, group=group, offset=offset)
        if outcome == "ok":
            self.recorder.ok(number)
        elif outcome == "info":
            self.recorder.info(number, "timed out")
        else:
            self.recorder.fail(number, "ILLEGAL_GENERATION")
        return number

    def committed(self, offset: int, group: str = "g") -> int:
        return self._done("m", Action.COMMITTED, {"topic": T, "partition": 0, "group": group}, offset=offset)

    def replica(self, node: int, commit: int, *batches: tuple[int, str, int]) -> int:
        what = {"topic": T, "partition": 0, "node": node}
        return self._done("end", Action.REPLICA, what, records=[list(batch) for batch in batches], offset=commit)

    def change(self, action: Action, topic: str, count: int = 0, outcome: str = "ok") -> int:
        number = self.recorder.invoke("a", action, topic=topic, count=count)
        if outcome == "ok":
            self.recorder.ok(number)
        elif outcome == "info":
            self.recorder.info(number, "timed out")
        else:
            self.recorder.fail(number, "refused")
        return number

    def topics(self, **topics: int) -> int:
        return self._done("end", Action.TOPICS, {"node": 1}, topics=topics)

    def check(self, checker: str) -> list[Anomaly]:
        return found(self.recorder.snapshot(), checker)

    def _done(self, process: str, action: Action, what: dict[str, Any], **result: Any) -> int:
        number = self.recorder.invoke(process, action, **what)
        self.recorder.ok(number, **result)
        return number


def found(history: History, checker: str) -> list[Anomaly]:
    """What a checker says, after all others have looked too: they must at least not stumble."""
    for one in CHECKERS.values():
        one.check(history.snapshot())
    return CHECKERS[checker].check(history).anomalies


def names_of(history: History) -> set[str]:
    """Every checker that finds something."""
    return {name for name, checker in CHECKERS.items() if checker.check(history).anomalies}


def replaced(history: History, changed: Iterable[Operation]) -> History:
    """The same history, but for these operations."""
    operations: Sequence[Operation] = history.operations
    by_number = {operation.number: operation for operation in changed}
    return History((by_number.get(one.number, one) for one in operations), history.notes)


def _whole(seen: Sequence[Seen]) -> list[list[Any]]:
    return [[*one, one[0]] if len(one) == 2 else list(one) for one in seen]
