"""What a client process is told on its command line, and what it says on its standard output: one JSON object per line."""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

DIGITS = 10
PATIENCE_S = 100.0


@dataclass(frozen=True, kw_only=True)
class Job:
    """One job for one client."""

    client: str
    do: str
    bootstrap: str
    topic: str
    partitions: int = 1
    count: int = 0
    first: int = 0
    size: int = 100
    group: str = ""
    instance: str = ""
    """A static member's own id."""
    acks: int = -1
    reset: str = "earliest"
    """Where a consumer goes on that has no offset, or one that is not in the log; "none": it fails."""
    compression: str = "none"
    idempotent: bool = False
    records: list[dict[str, Any]] = field(default_factory=list)
    skip: int = 0
    """How many messages of each partition a reader seeks over, from where the first one is."""

    def encode(self) -> str:
        return json.dumps(asdict(self))


class Client(Protocol):
    """A client library."""

    def produce(self, job: Job) -> None:
        """Write messages first..first+count-1, number i to partition i % partitions; say how many were acknowledged."""

    def stream(self, job: Job) -> None:
        """Write numbered messages to partition 0 until told to stop, saying now and then how many were acknowledged."""

    def write(self, job: Job) -> None:
        """Write the job's records to partition 0."""

    def read(self, job: Job) -> None:
        """Read `count` messages by assign and seek; say the numbers of each partition in the order read."""

    def records(self, job: Job) -> None:
        """Read `count` messages of partition 0 and say them whole."""

    def member(self, job: Job) -> None:
        """Join a group, say what is assigned and what is read, commit it; leave when told to stop."""

    def commit(self, job: Job) -> None:
        """Commit offset `first` of partition 0 for a group that has no members."""

    def committed(self, job: Job) -> None:
        """Say which offset of partition 0 a group has committed."""

    def seek(self, job: Job) -> None:
        """Read one message of partition 0 from offset `first` on; say its number, or what the error is called."""


def say(**what: Any) -> None:
    """One line."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def numbered(number: int, size: int) -> bytes:
    """A message that carries its number."""
    return (b"%0*d" % (DIGITS, number)).ljust(size, b".")


def number_of(value: bytes) -> int:
    return int(value[:DIGITS])


class Told:
    """Whether the other side has closed our standard input, or written a line to it."""

    def __init__(self) -> None:
        self._event = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        sys.stdin.readline()
        self._event.set()

    def __bool__(self) -> bool:
        return self._event.is_set()


def as_record(key: bytes | None, value: bytes | None, headers: Any) -> dict[str, Any]:
    """A record in JSON: bytes as Latin-1."""
    return {
        "key": None if key is None else key.decode("latin-1"),
        "value": None if value is None else value.decode("latin-1"),
        "headers": [[name, None if data is None else data.decode("latin-1")] for name, data in headers or []],
    }


def of_record(record: dict[str, Any]) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]:
    """Key, value and headers."""
    key, value = record["key"], record["value"]
    return (
        None if key is None else key.encode("latin-1"),
        None if value is None else value.encode("latin-1"),
        [(name, data.encode("latin-1")) for name, data in record["headers"]],
    )
