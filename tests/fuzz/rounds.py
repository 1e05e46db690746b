"""`python -m tests.fuzz.rounds [--minutes 1] [NAME ...]`: fuzz one target after the other, each in a process of its own.

Minutes are the processor's, so that a busy machine is no excuse. A line per target says what was tried. A target that finds
something does not keep the next ones from their turn; the exit code is 1 in the end.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import time

from tests.fuzz.targets import TARGETS

_TRIES = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_GRACE_S = 120
_SHORTEST_TURN_S = 1
_PATIENCE = 10
"""Times what was asked for, by the wall clock, after which a target counts as stuck."""


def _turn(name: str, seconds: float) -> tuple[int | None, str]:
    """How many inputs were tried, or None if something was found; and all that the fuzzer said."""
    command = [sys.executable, "-m", "tests.fuzz", name, f"-max_total_time={max(_SHORTEST_TURN_S, round(seconds))}"]
    command += ["-print_final_stats=1", "-timeout=20", "-rss_limit_mb=1500"]
    most = seconds + _GRACE_S
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=most, check=False)
    except subprocess.TimeoutExpired:
        return None, f"it did not end within {most:.0f} s"
    tries = _TRIES.search(done.stderr)
    return (int(tries[1]) if done.returncode == 0 and tries is not None else None), done.stdout + done.stderr


def _processor_s() -> float:
    """What the children that have ended took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fuzz(name: str, seconds: float) -> tuple[int | None, float, str]:
    """How many inputs were tried, or None if something was found; the processor's seconds; what the fuzzer said last."""
    before, patient_until = _processor_s(), time.monotonic() + _PATIENCE * seconds + _GRACE_S
    tries, used = 0, 0.0
    # The fuzzer itself knows the wall clock only: where others had the processor too, it gets another turn.
    while seconds - used >= _SHORTEST_TURN_S or not tries:
        more, said = _turn(name, seconds - used)
        used = _processor_s() - before
        if more is None:
            return None, used, said
        tries += more
        if time.monotonic() > patient_until:
            return None, used, f"it hardly used the processor: {used:.0f} s of it"
    return tries, used, ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.rounds", description="Fuzz targets one after the other.")
    parser.add_argument("--minutes", type=float, default=1.0, help="of the processor's time for each target (default 1)")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TARGETS)} (default: all)")
    asked = parser.parse_args()
    names = asked.names or list(TARGETS)
    unknown = sorted(set(names) - TARGETS.keys())
    if unknown:
        parser.error(f"there is no target {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    found = []
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] {name}: {asked.minutes:g} minutes ...", end="", flush=True)
        tries, used, said = fuzz(name, 60 * asked.minutes)
        if tries is None:
            found.append(name)
            print(f" FOUND something after {used:.0f} s:\n{said[-4_000:]}", flush=True)
        else:
            print(f" {tries:,} inputs in {used:.0f} s of the processor, nothing found", flush=True)
    if found:
        print(f"found something: {', '.join(found)}; the inputs are in .fuzz/, under the names above")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
