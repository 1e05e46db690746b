"""`python -m tests.sim`: run many seeds, or look closely at one. `make sim SEEDS=n SEED0=k` calls this."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.sim.bugs import BUGS
from tests.sim.run import Outcome, last_words, reproduce, run_seeds

ENOUGH = 5
"""After so many failing seeds there is enough to look at."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.sim",
        description="Run the consensus core through hostile simulated runs, one per seed. The same seed is the same run.",
        epilog="Exit code 0: no promise was broken (or, with --bug, the planted bug was found); 1: otherwise.",
    )
    parser.add_argument("--seeds", type=int, default=300, metavar="N", help="how many seeds to run (default 300)")
    parser.add_argument("--seed0", type=int, default=0, metavar="K", help="the first seed (default 0)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (default: a core each)"
    )
    parser.add_argument("--bug", choices=sorted(BUGS), help="plant this bug, and stop when it is found")
    parser.add_argument("--trace", type=int, default=0, metavar="LINES", help="print the last events of a failing seed")
    arguments = parser.parse_args()
    if arguments.seeds < 1 or arguments.seed0 < 0 or arguments.jobs < 1 or arguments.trace < 0:
        parser.error("--seeds and --jobs must be at least 1, --seed0 and --trace at least 0")
    return arguments


def _complain(outcome: Outcome, bug: str | None, trace: int) -> None:
    print(f"seed {outcome.seed}: {outcome.violation}")
    for line in last_words(outcome.seed, bug, trace) if trace else ():
        print(f"  {line}")
    print(f"  again: {reproduce(outcome.seed, bug)}")


def main() -> int:
    """Run what the command line asks for; the exit code."""
    arguments = _arguments()
    console = Console(stderr=True)
    counts: Counter[str] = Counter()
    failed: list[Outcome] = []
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=arguments.seeds)
        done = 0
        for outcome in run_seeds(arguments.seed0, arguments.seeds, bug=arguments.bug, jobs=arguments.jobs):
            progress.advance(task)
            done += 1
            counts += outcome.counts
            if outcome.violation is not None:
                failed.append(outcome)
                if arguments.bug or len(failed) == ENOUGH:
                    break
    for outcome in failed:
        _complain(outcome, arguments.bug, arguments.trace)
    if arguments.bug:
        print(f"{arguments.bug}: {'found' if failed else 'NOT found'}")
        return 0 if failed else 1
    print(f"{done} seeds, {len(failed)} failed")
    print("  " + ", ".join(f"{number:,} {what}" for what, number in counts.most_common()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
