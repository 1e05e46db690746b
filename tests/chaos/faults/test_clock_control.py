"""Wrong clocks, as a process sees them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.chaos.cache import NotHere
from quorate.chaos.faults.clock_control import Clock, FakeTime, FileClock

OFF_S = 3_600.0
NEAR_S = 60.0

WATCH = """
import sys, time
from pathlib import Path
now = time.time
if "--clock" in sys.argv:
    from quorate.consensus.clock.shifted import ShiftedTime
    source = ShiftedTime(Path(sys.argv[-1]))
    now = lambda: source.now() / 1000
for line in sys.stdin:
    print(now(), time.monotonic(), flush=True)
"""


@pytest.fixture(params=[FileClock, FakeTime])
def clock(request: pytest.FixtureRequest, tmp_path: Path) -> Clock:
    try:
        made: Clock = request.param(tmp_path / "clock")
    except NotHere as missing:
        pytest.skip(str(missing))
    return made


class Watch:
    """A process that tells the time."""

    def __init__(self, clock: Clock) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WATCH, *clock.arguments()],
            env={**os.environ, **clock.environment()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def look(self) -> tuple[float, float]:
        """How far its wall clock and its monotonic clock are off, in seconds."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        wall, monotonic = map(float, self.process.stdout.readline().split())
        return wall - time.time(), monotonic - time.monotonic()


@pytest.fixture
def watch(clock: Clock) -> Iterator[Watch]:
    made = Watch(clock)
    yield made
    made.process.kill()
    made.process.communicate(timeout=60)


def test_jumps_are_seen_at_once(clock: Clock, watch: Watch) -> None:
    for offset_s in (0.0, OFF_S, -OFF_S, 0.0):
        clock.set(int(offset_s * 1000))
        wall, monotonic = watch.look()
        assert abs(wall - offset_s) < NEAR_S
        assert abs(monotonic) < NEAR_S


def test_drift_grows(clock: Clock, watch: Watch) -> None:
    clock.set(0, 500_000)
    first, _ = watch.look()
    deadline = time.monotonic() + NEAR_S
    while watch.look()[0] < first + 0.1:
        assert time.monotonic() < deadline, "a clock that runs at one and a half times the speed is not ahead"
    clock.set(0)
    assert abs(watch.look()[0]) < NEAR_S
