"""Plays a scenario: its commands in order, and what each of them said."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

from tests.scenarios.commands import run_command
from tests.scenarios.language import Mistake, Script, ScriptError
from tests.scenarios.stage import Stage


def play(script: Script) -> list[list[str]]:
    """What each block says. Raises ScriptError for a command that makes no sense."""
    stage = Stage()
    outputs: list[list[str]] = []
    for block in script.blocks:
        stage.lines = []
        try:
            run_command(stage, block.command)
        except Mistake as mistake:
            raise ScriptError(f"{script.path.name}:{block.line}: {mistake}") from mistake
        except AssertionError as error:
            error.add_note(f"in {script.path.name}, line {block.line}: {block.command}")
            raise
        outputs.append(stage.lines)
    return outputs


def difference(path: Path, expected: str, seen: str) -> str:
    """A diff for people, or an empty string when there is none."""
    diff = unified_diff(expected.splitlines(), seen.splitlines(), "expected", "seen", lineterm="", n=6)
    text = "\n".join(diff)
    if not text:
        return ""
    advice = "If that is how it should go, run pytest with --rewrite and read the diff."
    return f"{path.name} does not go as written:\n{text}\n{advice}"
