"""Three real node processes on LevelDB; the leader is killed with -9 under load, or goes silent, again and again."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.replicated import failover

WORST_MS = 5_000
"""Far above the aim, which the benchmark measures on a quiet machine: this test is about what is kept."""


@pytest.mark.timeout(240)
def test_nothing_acknowledged_is_lost_when_leaders_are_killed(tmp_path: Path) -> None:
    outcome = failover.measure(tmp_path, kills=3, say=lambda what: None)
    assert outcome.acknowledged > 100
    assert outcome.lost == 0
    assert outcome.worst_ms < WORST_MS


@pytest.mark.timeout(240)
def test_nothing_acknowledged_is_lost_when_leaders_go_silent(tmp_path: Path) -> None:
    """A stopped process keeps its connections. When it goes on it believes that it leads, with proposals under way."""
    outcome = failover.measure(tmp_path, kills=3, say=lambda what: None, silent=True)
    assert outcome.acknowledged > 100
    assert outcome.lost == 0
