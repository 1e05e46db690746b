"""What clients asked of the system and what they were told, in the order of one monotonic clock.

An operation is invoked once and completed at most once: `ok` (it happened), `fail` (it certainly did not), `info` (it may
have). What was never completed is `open`, and may have happened too. Notes stand between the operations: faults, and who
leads. A history is streamed to `history.jsonl` as it grows and can be loaded again; nothing in it is ever changed.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

from quorate.broker.json_text import BadJson, read_json

FILE = "history.jsonl"
UNKNOWN = -1
"""An offset or a stamp that is not known, or a group that has committed nothing."""

Outcome = Literal["open", "ok", "fail", "info"]


class BadHistory(ValueError):
    """A file that is no history. The text names the line."""


class Action(StrEnum):
    """What an operation does, and which fields it uses besides topic and partition."""

    PRODUCE = "produce"  # value, once; ok: offset
    READ = "read"  # stream, group, offset: where from; ok: records
    LATEST = "latest"  # node; ok: offset, the end of what can be read
    FINAL = "final"  # after healing, the whole partition from its leader. ok: records, offset: its end
    REPLICA = "replica"  # node; ok: records are (first offset, digest, last offset) of batches, offset: committed up to
    COMMIT = "commit"  # group, offset
    COMMITTED = "committed"  # group; ok: offset
    CREATE = "create"  # count: of partitions
    GROW = "grow"  # count: of partitions
    DELETE = "delete"
    TOPICS = "topics"  # ok: topics, each with its number of partitions


class Record(NamedTuple):
    """One message as a reader saw it. The stamp is its log time in milliseconds."""

    offset: int
    value: str
    stamp: int = UNKNOWN


class Place(NamedTuple):
    """One partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation, as far as it is known."""

    number: int
    process: str
    action: Action
    began_ns: int
    ended_ns: int | None = None
    outcome: Outcome = "open"
    topic: str = ""
    partition: int = UNKNOWN
    offset: int = UNKNOWN
    value: str = ""
    once: bool = False
    """Whether the value may be in the log at most once: it was sent once, or by an idempotent producer."""
    stream: str = ""
    """Reads of one stream follow each other; after a rebalance or a seek another stream begins."""
    group: str = ""
    node: int = 0
    count: int = 0
    records: tuple[Record, ...] = ()
    topics: dict[str, int] = field(default_factory=dict)
    error: str = ""

    @property
    def place(self) -> Place:
        return Place(self.topic, self.partition)

    @property
    def maybe(self) -> bool:
        """Whether it is unknown if it happened."""
        return self.outcome in ("info", "open")


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something that happened beside the operations: `what` is `fault`, `leader` or `run`."""

    time_ns: int
    what: str
    facts: dict[str, Any]


class History:
    """All operations and notes so far. Grows by `apply` only."""

    def __init__(self, operations: Iterable[Operation] = (), notes: Iterable[Note] = ()) -> None:
        self.operations = list(operations)
        """In the order of their invocation; `operations[n].number == n`."""
        self.notes = list(notes)

    def apply(self, event: dict[str, Any]) -> None:
        """Take one line of the file in. Raises BadHistory."""
        try:
            self._apply(dict(event))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise BadHistory(f"{type(error).__name__} {error} in {str(event)[:200]}") from error

    def _apply(self, event: dict[str, Any]) -> None:
        kind, time_ns = event.pop("kind"), int(event.pop("time"))
        if kind == "note":
            self.notes.append(Note(time_ns=time_ns, what=event["what"], facts=event["facts"]))
            return
        number = event.pop("op")
        if "records" in event:
            event["records"] = tuple(
                Record(int(offset), str(value), int(stamp)) for offset, value, stamp in event["records"]
            )
        if kind == "invoke":
            if number != len(self.operations):
                raise ValueError(f"operation {number} comes after {len(self.operations)} others")
            action = Action(event.pop("do"))
            self.operations.append(Operation(number=number, action=action, began_ns=time_ns, **event))
            return
        if kind not in ("ok", "fail", "info"):
            raise ValueError(f"an event cannot be {kind!r}")
        operation = self.operations[number]
        if operation.outcome != "open":
            raise ValueError(f"operation {number} is completed twice")
        self.operations[number] = replace(operation, outcome=kind, ended_ns=time_ns, **event)

    def snapshot(self) -> History:
        """As it is now; later operations do not show up in it."""
        return History(self.operations, self.notes)

    def of(self, *actions: Action) -> list[Operation]:
        """The operations that do one of these, in order of invocation."""
        return [operation for operation in self.operations if operation.action in actions]

    # What several checkers need. Computed once: ask only a history that has stopped growing, such as a snapshot.

    @cached_property
    def final(self) -> dict[Place, dict[int, Record]]:
        """Each partition's log as it was read in the end. A partition is missing if that read did not come to its end."""
        logs: dict[Place, dict[int, Record]] = {}
        for operation in self.of(Action.FINAL):
            if operation.outcome == "ok":
                logs.setdefault(operation.place, {}).update((record.offset, record) for record in operation.records)
        return logs

    @cached_property
    def final_reads(self) -> dict[Place, int]:
        """The operation that read a partition in the end."""
        return {operation.place: operation.number for operation in self.of(Action.FINAL) if operation.outcome == "ok"}

    @cached_property
    def produced(self) -> dict[str, Operation]:
        """Every produce operation by its value: values are unique."""
        return {operation.value: operation for operation in self.of(Action.PRODUCE)}

    @cached_property
    def acknowledged(self) -> list[Operation]:
        """Every produce operation that was acknowledged with its offset. Some are acknowledged without one."""
        return [one for one in self.of(Action.PRODUCE) if one.outcome == "ok" and one.offset != UNKNOWN]

    @cached_property
    def reads(self) -> list[Operation]:
        """Every read that returned something, during the run and in the end."""
        return [one for one in self.of(Action.READ, Action.FINAL) if one.outcome == "ok" and one.records]


def load(path: Path) -> History:
    """Read a history from its file. A last line that was cut off is left out. Raises BadHistory and OSError."""
    history = History()
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            if line:
                history.apply(read_json(line))
        except BadJson as error:
            if number == len(lines):
                break
            raise BadHistory(f"{path}, line {number}: {error}") from error
        except BadHistory as error:
            raise BadHistory(f"{path}, line {number}: {error}") from error
    return history


class Recorder:
    """Appends to a history and to its file, from any thread. Times are taken here, so that their order is the file's."""

    def __init__(self, path: Path | None = None, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._history = History()
        self._clock = clock
        self._lock = threading.Lock()
        self._file = path.open("w") if path is not None else None
        self.counts: Counter[tuple[Action, str]] = Counter()
        """How many operations of each kind had which outcome so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def invoke(self, process: str, action: Action, **what: Any) -> int:
        """An operation begins; the number with which it is completed."""
        with self._lock:
            number = len(self._history.operations)
            self._put(
                {"kind": "invoke", "op": number, "time": self._clock(), "process": process, "do": action.value, **what}
            )
            return number

    def ok(self, number: int, **what: Any) -> None:
        """It happened."""
        self._complete("ok", number, what)

    def fail(self, number: int, error: str) -> None:
        """It certainly did not happen, and will not."""
        self._complete("fail", number, {"error": error})

    def info(self, number: int, error: str) -> None:
        """It may have happened, or may happen yet."""
        self._complete("info", number, {"error": error})

    def note(self, what: str, time_ns: int | None = None, **facts: Any) -> None:
        """Something beside the operations."""
        with self._lock:
            now = self._clock() if time_ns is None else time_ns
            self._put({"kind": "note", "time": now, "what": what, "facts": facts})

    def snapshot(self) -> History:
        """The history so far."""
        with self._lock:
            return self._history.snapshot()

    def close(self) -> None:
        """Let go of the file. What is recorded later is kept in memory only."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _complete(self, kind: str, number: int, what: dict[str, Any]) -> None:
        with self._lock:
            self._put({"kind": kind, "op": number, "time": self._clock(), **what})
            self.counts[self._history.operations[number].action, kind] += 1

    def _put(self, event: dict[str, Any]) -> None:
        self._history.apply(event)
        if self._file is not None:
            self._file.write(json.dumps(event, separators=(",", ":")) + "\n")
