"""Chaos finds bugs: whole runs of `quorate chaos run` against clusters with a planted one, and the same without it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from quorate.broker.node.under_test import SABOTAGES
from quorate.chaos.history import FILE, load
from quorate.chaos.runner import check_again

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("toxiproxy_binary", "disk_library"),
    pytest.mark.xdist_group("chaos-proof"),
]
WITHIN_S = 120.0
"""So long a run may take, from the start of the cluster to the verdict."""
_GIVEN_UP_S = 400


class Way(NamedTuple):
    """How a bug is found, and by whom."""

    workload: str
    nemesis: str
    seconds: int
    seed: int
    checker: str
    early: bool = True
    """Whether to stop at the first anomaly."""


WAYS = {
    # Loses everything of the last second at once. One power failure is enough, and later ones only take longer.
    "no-fsync": Way("log", "power", 6, 2, "lost"),
    # Before anything breaks a node may not know yet of what it has acknowledged: that is seen first, and not the worst.
    "ack-before-commit": Way("log", "partition", 14, 1, "lost", early=False),
    "reads-beyond-commit": Way("log", "partition", 40, 1, "uncommitted"),
    "offsets-in-memory": Way("groups", "kill", 40, 1, "commit-back"),
    # A leader that hears nobody still sends: what it gave up is in the log all the same, and is tried again elsewhere.
    "dedup-off": Way("log", "asymmetric", 40, 1, "duplicate"),
    "stale-reads": Way("log", "partition", 40, 1, "stale"),
}


def run(way: Way, folder: Path, *more: str) -> tuple[int, str]:
    """A run as a user starts it; its exit code, and all that it said."""
    command = [sys.executable, "-m", "quorate.cli", "chaos", "run", "--workload", way.workload]
    command += ["--nemesis", way.nemesis, "--seconds", str(way.seconds), "--seed", str(way.seed), "--dir", str(folder)]
    done = subprocess.run(
        [*command, *more],
        capture_output=True,
        text=True,
        timeout=_GIVEN_UP_S,
        check=False,
        env=os.environ | {"TERM": "dumb"},
    )
    return done.returncode, done.stdout + done.stderr


def test_there_is_a_way_to_find_each_bug() -> None:
    assert WAYS.keys() == set(SABOTAGES)


@pytest.mark.parametrize("mode", WAYS)
def test_a_planted_bug_is_found(tmp_path: Path, mode: str) -> None:
    way, begun = WAYS[mode], time.monotonic()
    code, said = run(way, tmp_path / "run", "--sabotage", mode, *(["--fail-fast"] if way.early else []))
    took_s = time.monotonic() - begun
    assert code == 1, said
    found = {verdict.name for verdict in check_again(load(tmp_path / "run" / FILE)).verdicts if not verdict.good}
    assert way.checker in found, said
    assert took_s < WITHIN_S, said
    assert f"--sabotage {mode}" in (tmp_path / "run" / "report.html").read_text(), "how to run it again"
    first = re.search(r"([\d.]+) s: \d+ anomalies so far, such as", said)
    seen = f"first seen after {first[1]} s" if first else "seen in the end"
    print(f"{mode}: {seen}, {took_s:.0f} s in all, found by {', '.join(sorted(found))}")


def test_without_a_bug_nothing_is_found(tmp_path: Path, way: Way) -> None:
    code, said = run(way, tmp_path / "run")
    assert code == 0, said


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The same runs without a bug last as long as they were asked to: all of them only on demand."""
    if "way" in metafunc.fixturenames:
        ways = sorted({way._replace(checker="", early=False) for way in WAYS.values()}, key=lambda way: way.seconds)
        everything = metafunc.config.getoption("--sabotage-all")
        chosen = ways if everything else ways[:1]
        metafunc.parametrize("way", chosen, ids=[f"{way.workload}-{way.nemesis}" for way in chosen])
