"""Seeded random runs: members, lost answers, failed appends, changes of leader. A failing seed fails again."""

from __future__ import annotations

import pytest

from tests.broker.groups.crowd import Crowd

SEEDS = 120
STEPS = 800


@pytest.mark.parametrize("block", range(10))
def test_faults_break_no_promise_and_everybody_arrives(block: int) -> None:
    generations = acknowledged = 0
    for seed in range(block * SEEDS // 10, (block + 1) * SEEDS // 10):
        crowd = Crowd(seed)
        try:
            crowd.run(STEPS)
            crowd.calm()
            assert crowd.settle(rounds=1_000), "not everybody is in one stable generation"
            crowd.check_offset()
            crowd.stage.check_replicas()
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
        generations += len(crowd.leaders)
        acknowledged += crowd.acknowledged > 0
    # Otherwise nothing was tried.
    assert generations > SEEDS // 2
    assert acknowledged > SEEDS // 20
