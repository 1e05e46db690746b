"""Replays every scenario beside this file and compares what happens with what is written there."""

from pathlib import Path

import pytest

from tests.scenarios.language import parse
from tests.scenarios.runner import difference, play

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path, rewrite: bool) -> None:
    written = path.read_text(encoding="utf-8")
    script = parse(path, written)
    seen = script.render(play(script))
    if rewrite:
        if seen != written:
            path.write_text(seen, encoding="utf-8")
        return
    problem = difference(path, written, seen)
    if problem:
        pytest.fail(problem, pytrace=False)
