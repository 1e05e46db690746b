"""The handle on a node's wall clock: by an offset that the node reads from a file, or, where libfaketime is installed, by
fooling the whole process. Raft's own time is monotonic and is left alone by both."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from quorate.chaos.cache import NotHere
from quorate.consensus.clock.shifted import Shift, write_shift

_PLACES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/local/lib/faketime/libfaketimeMT.so.1")


class Clock(Protocol):
    """One node's clock."""

    def set(self, offset_ms: int, drift_ppm: int = 0) -> None:
        """Be wrong by so much from now on, and by so many millionths of what passes more."""

    def arguments(self) -> Sequence[str]:
        """What the node's command line needs."""

    def environment(self) -> dict[str, str]:
        """What its environment needs. A library to preload is added to others."""


class FileClock:
    """The node reads how wrong it has to be."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set(0)

    def set(self, offset_ms: int, drift_ppm: int = 0) -> None:
        write_shift(self._file, Shift(offset_ms, drift_ppm, time.time_ns() // 1_000_000))

    def arguments(self) -> Sequence[str]:
        return ["--clock", str(self._file)]

    def environment(self) -> dict[str, str]:
        return {}


class FakeTime:
    """libfaketime: everything in the process that asks for the time of day is told a wrong one."""

    def __init__(self, file: Path) -> None:
        """Raises NotHere."""
        self._library = find_faketime()
        self._file = file
        self.set(0)

    def set(self, offset_ms: int, drift_ppm: int = 0) -> None:
        rate = f" x{1 + drift_ppm / 1e6:.6f}" if drift_ppm else ""
        fresh = self._file.with_name(f"{self._file.name}.new")
        fresh.write_text(f"{offset_ms / 1000:+.3f}{rate}\n")
        fresh.replace(self._file)

    def arguments(self) -> Sequence[str]:
        return []

    def environment(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }


def find_faketime() -> Path:
    """The library. Raises NotHere."""
    for place in _PLACES:
        for found in Path("/").glob(place.lstrip("/")):
            return found
    raise NotHere("libfaketime is not installed (Debian and Ubuntu: sudo apt install libfaketime)")
