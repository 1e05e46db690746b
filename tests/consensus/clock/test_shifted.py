"""A clock that is wrong on purpose: it jumps, drifts, and is right again, as its file says."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.consensus.clock.hybrid import HybridClock
from quorate.consensus.clock.shifted import Shift, ShiftedTime, write_shift
from quorate.consensus.core import Millis


class Still:
    """A clock that a test moves."""

    time = 1_000_000

    def now(self) -> Millis:
        return Millis(self.time)

    def uncertainty_ms(self) -> int | None:
        return 3


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_shift(tmp_path / "clock", Shift())
    return tmp_path / "clock"


def test_it_follows_its_file(file: Path) -> None:
    true = Still()
    clock = ShiftedTime(file, true)
    assert clock.now() == 1_000_000
    write_shift(file, Shift(offset_ms=-60_000))
    assert clock.now() == 940_000
    write_shift(file, Shift(offset_ms=5, drift_ppm=10_000, since_ms=1_000_000))
    assert clock.now() == 1_000_005
    true.time += 2_000
    assert clock.now() == 1_002_000 + 5 + 20
    write_shift(file, Shift())
    assert clock.now() == 1_002_000
    assert clock.uncertainty_ms() == 3


def test_log_time_does_not_follow_it_back(file: Path) -> None:
    clock = HybridClock(ShiftedTime(file, Still()))
    before = clock.stamp()
    write_shift(file, Shift(offset_ms=-60_000))
    assert clock.stamp() >= before
    write_shift(file, Shift(offset_ms=60_000))
    assert clock.stamp() == 1_060_000


def test_a_file_that_is_no_shift_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match=r"size|empty"):
        ShiftedTime(tmp_path / "empty")
