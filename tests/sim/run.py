"""Running seeds: one, many over several processes, and what to tell a person about a seed that failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from multiprocessing import get_context
from typing import NamedTuple

from quorate.consensus.core import Raft
from tests.sim.bugs import BUGS
from tests.sim.oracle import Violation
from tests.sim.plan import Plan
from tests.sim.world import World

CHUNK = 10


class Outcome(NamedTuple):
    """What became of one seed."""

    seed: int
    violation: str | None
    counts: Counter[str]


def run_seed(seed: int, bug: str | None = None) -> Outcome:
    """One run; a broken promise is an outcome, anything else that is raised is a bug of the simulator or the core."""
    world = World(Plan.draw(seed), BUGS[bug] if bug else Raft)
    try:
        world.run()
    except Violation as violation:
        return Outcome(seed, str(violation), world.counts)
    except (AssertionError, ArithmeticError, LookupError, TypeError, ValueError) as wrong:
        # "Nothing raises": a core that trips over its own state has broken a promise too.
        return Outcome(seed, f"at {world.now} ms: {type(wrong).__name__}: {wrong}", world.counts)
    return Outcome(seed, None, world.counts)


def run_seeds(first: int, count: int, *, bug: str | None = None, jobs: int = 1) -> Iterator[Outcome]:
    """Many runs, in the order of their seeds."""
    work = [(seed, bug) for seed in range(first, first + count)]
    if jobs <= 1:
        for seed, name in work:
            yield run_seed(seed, name)
        return
    with get_context("forkserver").Pool(jobs) as pool:
        yield from pool.imap(_run, work, CHUNK)


def _run(work: tuple[int, str | None]) -> Outcome:
    return run_seed(*work)


def last_words(seed: int, bug: str | None = None, lines: int = 40) -> list[str]:
    """Run a failing seed again, and return the last lines of what happened in it."""
    world = World(Plan.draw(seed), BUGS[bug] if bug else Raft, tracing=True)
    try:
        world.run()
    except (Violation, AssertionError, ArithmeticError, LookupError, TypeError, ValueError) as wrong:
        world.trace("%s", wrong)
    assert world.lines is not None
    return world.lines[-lines:]


def reproduce(seed: int, bug: str | None = None) -> str:
    """The command that runs one seed again, with its last events."""
    planted = f" --bug {bug}" if bug else ""
    return f'make sim SEEDS=1 SEED0={seed} ARGS="--trace 60{planted}"'
