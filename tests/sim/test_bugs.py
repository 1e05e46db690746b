"""The simulator can fail: it finds every planted bug within 2,000 seeds."""

from __future__ import annotations

import pytest

from tests.sim.bugs import BUGS
from tests.sim.run import run_seed, run_seeds

LIMIT = 2_000

# Where each bug was found when this was last looked at, so that the quick suite need not search for the rare ones. A change
# of the core or of the simulator moves them: then the search begins at seed 0, and this table should be brought up to date.
FOUND_AT = {
    "commit-old-term": 15,
    "stale-ack-counted": 40,
    "configuration-not-rolled-back": 11,
    "change-without-guard": 409,
    "commit-beyond-validated": 16,
    "late-completion": 132,
    "snapshot-trusted-early": 248,
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    hint = FOUND_AT.get(bug)
    if hint is not None and run_seed(hint, bug).violation is not None:
        return
    found = next((outcome.seed for outcome in run_seeds(0, LIMIT, bug=bug) if outcome.violation is not None), None)
    assert found is not None, f"{bug} was not found within {LIMIT} seeds"


@pytest.mark.parametrize("bug", FOUND_AT)
def test_without_the_bug_the_same_seed_is_fine(bug: str) -> None:
    """So it is the bug that was found, and nothing else."""
    assert run_seed(FOUND_AT[bug]).violation is None
