"""The simulator's own tests: the core survives it, it is worth running, and it is the same run each time."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from quorate.consensus.core import Raft
from tests.sim.bugs import BUGS
from tests.sim.plan import Fault, Plan
from tests.sim.run import last_words, reproduce, run_seed
from tests.sim.world import World

ROOT = Path(__file__).resolve().parents[2]
SHARES = 6
"""The seeds are dealt out to so many tests, so that they run on every core."""

# What has to happen in the quick suite's runs, or they prove nothing.
WORTH_SEEING = (
    "acknowledgement",
    "change of members",
    "compaction",
    "election",
    "failed sync",
    "log read",
    "lost connection",
    "read",
    "snapshot",
    "struck down",
    "truncation",
    *(fault.value for fault in Fault),
)


@pytest.mark.parametrize("share", range(SHARES))
def test_the_core_keeps_its_promises(share: int, sim_seeds: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(share, sim_seeds, SHARES):
        outcome = run_seed(seed)
        assert outcome.violation is None, f"seed {seed}: {outcome.violation}\n  again: {reproduce(seed)}"
        seen += outcome.counts
    if sim_seeds >= 300:
        assert not [what for what in WORTH_SEEING if not seen[what]]


def test_the_same_seed_is_the_same_run() -> None:
    first, second = (World(Plan.draw(11), tracing=True) for _ in range(2))
    first.run()
    second.run()
    assert first.lines == second.lines
    assert first.lines != World(Plan.draw(12), tracing=True).lines


def test_a_failing_seed_prints_how_to_run_it_again() -> None:
    """The command line as `make sim` calls it, with a planted bug that the first seeds find."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.sim", "--seeds", "50", "--jobs", "1", "--bug", "vote-forgotten", "--trace", "5"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "vote-forgotten: found" in done.stdout
    assert 'again: make sim SEEDS=1 SEED0=0 ARGS="--trace 60 --bug vote-forgotten"' in done.stdout


def test_the_last_words_of_a_seed_end_with_what_broke() -> None:
    assert "vote" in last_words(0, "vote-forgotten", lines=3)[-1]


@pytest.mark.parametrize(
    "arguments", [["--seeds", "0"], ["--seed0", "-1"], ["--jobs", "0"], ["--bug", "none-such"], ["--seeds", "many"]]
)
def test_a_wrong_command_line_is_refused(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.sim", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "usage:" in done.stderr


def test_a_core_that_raises_is_a_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    class Raises(Raft):
        __slots__ = ()

        def _maybe_commit(self) -> None:
            raise KeyError("a replica that nobody knows")

    monkeypatch.setitem(BUGS, "raises", Raises)
    assert "KeyError" in (run_seed(0, "raises").violation or "")
