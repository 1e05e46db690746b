"""Histories of chaos runs: a file that was cut off, or edited, is read or refused."""

from __future__ import annotations

from quorate.chaos.history import BadHistory, load
from tests.fuzz.targets.expect import expect
from tests.fuzz.targets.scratch import scratch


def history(data: bytes) -> None:
    """The file of a history."""
    path = scratch() / "history.jsonl"
    path.write_bytes(data)
    try:
        found = load(path)
    except BadHistory:
        return
    expect(len(found.operations) + len(found.notes) <= data.count(b"\n") + 1, "a line is one event")
    expect([one.number for one in found.operations] == list(range(len(found.operations))), "operations are numbered")
