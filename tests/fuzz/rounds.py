"""`python -m tests.fuzz.rounds [--minutes 1] [NAME ...]`: fuzz one target after the other, each in a process of its own.

A line per target says what was tried. A target that finds something does not keep the next ones from their turn; the exit
code is 1 in the end.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time

from tests.fuzz.targets import TARGETS

_TRIES = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_GRACE_S = 120


def fuzz(name: str, minutes: float) -> tuple[int | None, str]:
    """How many inputs were tried, or None if something was found; and all that the fuzzer said."""
    command = [sys.executable, "-m", "tests.fuzz", name, f"-max_total_time={max(1, round(60 * minutes))}"]
    command += ["-print_final_stats=1", "-timeout=20", "-rss_limit_mb=1500"]
    most = 60 * minutes + _GRACE_S
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=most, check=False)
    except subprocess.TimeoutExpired:
        return None, f"it did not end within {most:.0f} s"
    tries = _TRIES.search(done.stderr)
    return (int(tries[1]) if done.returncode == 0 and tries is not None else None), done.stdout + done.stderr


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.rounds", description="Fuzz targets one after the other.")
    parser.add_argument("--minutes", type=float, default=1.0, help="for each target (default 1)")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TARGETS)} (default: all)")
    asked = parser.parse_args()
    names = asked.names or list(TARGETS)
    unknown = sorted(set(names) - TARGETS.keys())
    if unknown:
        parser.error(f"there is no target {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    found = []
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] {name}: {asked.minutes:g} minutes ...", end="", flush=True)
        began = time.monotonic()
        tries, said = fuzz(name, asked.minutes)
        spent = time.monotonic() - began
        if tries is None:
            found.append(name)
            print(f" FOUND something after {spent:.0f} s:\n{said[-4_000:]}")
        else:
            print(f" {tries:,} inputs in {spent:.0f} s, nothing found", flush=True)
    if found:
        print(f"found something: {', '.join(found)}; the inputs are in .fuzz/, under the names above")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
