"""Histories of chaos runs: a file that was cut off, or edited, is read or refused."""

from __future__ import annotations

import tempfile
from pathlib import Path

from quorate.chaos.history import BadHistory, load
from tests.fuzz.targets.expect import expect


def history(data: bytes) -> None:
    """The file of a history."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as file:
        file.write(data)
        file.flush()
        try:
            found = load(Path(file.name))
        except BadHistory:
            return
    expect(len(found.operations) + len(found.notes) <= data.count(b"\n") + 1, "a line is one event")
    expect([one.number for one in found.operations] == list(range(len(found.operations))), "operations are numbered")
