"""Where retention would move a log's start."""

from __future__ import annotations

import pytest

from quorate.consensus.core import Millis, Offset, new_group
from quorate.consensus.storage.memory import MemoryLog
from quorate.consensus.storage.retention import Retention, new_start
from tests.support.batches import THREE, append, data_batch, noop, run_of


@pytest.fixture
def log() -> MemoryLog:
    """Ten batches of 100 bytes at the times 1000 to 1009, after a no-op."""
    log = MemoryLog(new_group(THREE))
    log.write([append(noop(0), *run_of(1, 10, size=39))])
    return log


@pytest.mark.parametrize(("age", "expected"), [(0, 10), (1, 9), (5, 5), (9, 1), (10, 0), (11, 0), (5_000, 0)])
def test_by_age(log: MemoryLog, age: int, expected: int) -> None:
    assert new_start(log, Retention(max_age_ms=age), Millis(1_010), Offset(10)) == expected


@pytest.mark.parametrize(
    ("size", "expected"), [(0, 10), (99, 10), (100, 9), (199, 9), (200, 8), (999, 1), (1_000, 0), (1_050, 0), (9_999, -1)]
)
def test_by_size(log: MemoryLog, size: int, expected: int) -> None:
    found = new_start(log, Retention(max_bytes=size), Millis(0), Offset(10))
    assert found == expected
    kept = sum(map(len, log.fetch(Offset(found + 1), 1 << 30, Offset(10))))
    assert kept <= size


def test_never_above_what_was_applied(log: MemoryLog) -> None:
    assert new_start(log, Retention(max_age_ms=0, max_bytes=0), Millis(5_000), Offset(4)) == 4
    assert new_start(log, Retention(), Millis(5_000), Offset(4)) == -1


def test_a_log_without_times_is_kept() -> None:
    log = MemoryLog(new_group(THREE))
    log.write([append(noop(0), noop(1))])
    assert new_start(log, Retention(max_age_ms=0), Millis(5_000), Offset(1)) == -1


def test_an_idle_log_ages_out_whole() -> None:
    log = MemoryLog(new_group(THREE))
    log.write([append(noop(0), data_batch(1, count=5, stamp=1_000), noop(6))])
    assert new_start(log, Retention(max_age_ms=10), Millis(1_011), Offset(6)) == 6


@pytest.mark.parametrize("wrong", [{"max_age_ms": -1}, {"max_bytes": -1}])
def test_limits_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        Retention(**wrong)
