"""A clock that is wrong on purpose, for tests: another one, shifted and drifting as a small file says at this moment.

Production code never makes one. The file is changed from outside while the clock runs.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from quorate.consensus.clock.kernel import SystemTime, TimeSource
from quorate.consensus.core import Millis

_SHIFT: Final = Struct("<qqq")


class Shift(NamedTuple):
    """How wrong: `offset_ms` now and then, plus so many millionths of the time since `since_ms` (of the true clock)."""

    offset_ms: int = 0
    drift_ppm: int = 0
    since_ms: int = 0

    def at(self, true_ms: int) -> int:
        """What a clock that is off by this shows at a moment."""
        return true_ms + self.offset_ms + (true_ms - self.since_ms) * self.drift_ppm // 1_000_000


def write_shift(path: Path, shift: Shift) -> None:
    """Let every clock that reads this file be off by so much from now on. The file stays the same one."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.pwrite(fd, _SHIFT.pack(*shift), 0)
    finally:
        os.close(fd)


class ShiftedTime:
    """Fits `TimeSource`. It claims the uncertainty of the clock behind it: a clock that is wrong does not know that."""

    def __init__(self, path: Path, behind: TimeSource | None = None) -> None:
        """Raises OSError or ValueError for a file that `write_shift` did not write."""
        self._behind = behind if behind is not None else SystemTime()
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), _SHIFT.size, access=mmap.ACCESS_READ)

    def now(self) -> Millis:
        return Millis(Shift(*_SHIFT.unpack_from(self._map)).at(self._behind.now()))

    def uncertainty_ms(self) -> int | None:
        return self._behind.uncertainty_ms()
