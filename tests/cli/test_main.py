"""The `quorate` command as a user meets it: help, version, info, and mistakes."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

import quorate
from quorate.cli import info
from quorate.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
STATES = {info.READY, info.NOT_YET}


def run(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def test_help_teaches() -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert "quorate info" in result.output
    assert "Exit codes" in result.output


def test_no_command_prints_the_help() -> None:
    result = run()
    assert result.exit_code == 0
    assert result.output == run("--help").output


def test_version() -> None:
    result = run("--version")
    assert result.exit_code == 0
    assert result.output.strip() == f"quorate, version {quorate.__version__}"


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["no-such-command"], "No such command 'no-such-command'"),
        (["--no-such-option"], "No such option"),
        (["info", "--no-such-option"], "No such option"),
        (["info", "surplus"], "unexpected extra argument"),
    ],
)
def test_a_wrong_command_line_is_refused_with_exit_code_2(args: list[str], complaint: str) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert result.stdout == ""


def test_info_is_plain_when_piped() -> None:
    result = run("info")
    assert result.exit_code == 0
    assert result.output.isascii()
    assert "\x1b" not in result.output
    assert result.output.startswith(f"Quorate {quorate.__version__} on Python 3.")


def test_info_says_of_each_part_whether_it_is_ready() -> None:
    output = run("info").output
    for part in info.gather().parts:
        assert part.state in STATES
        assert re.search(rf"^  {part.name}: +{part.state} +", output, re.MULTILINE)


def test_info_claims_nothing_that_is_not_written() -> None:
    states = {part.name: part.state for part in info.gather().parts}
    assert states["consensus core"] == info.READY
    for folder in ("broker", "client", "spark", "chaos"):
        written = [file for file in (ROOT / folder).rglob("*.py") if file.name != "__init__.py"]
        assert written or states[folder] == info.NOT_YET, f"{folder} is empty and yet said to be ready"


def test_info_as_json() -> None:
    result = run("info", "--json")
    assert result.exit_code == 0
    report = json.loads(result.output)
    assert report["version"] == quorate.__version__
    assert report["python"].startswith("3.")
    assert {part["state"] for part in report["parts"]} <= STATES
    assert "make test" in [command["run"] for command in report["commands"]]


def test_info_on_a_terminal_has_colours_and_frames() -> None:
    console = Console(force_terminal=True, color_system="standard", width=100, legacy_windows=False)
    with console.capture() as capture:
        console.print(info.as_table(info.gather()))
    assert "\x1b[" in capture.get()
    assert "consensus core" in capture.get()


def test_every_make_target_that_info_names_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {words[1] for command in info.gather().commands if len(words := command.run.split()) > 1}
    assert named <= targets


def test_outside_a_checkout_info_names_no_make_targets(tmp_path: Path) -> None:
    report = info.gather(tmp_path / "site-packages" / "quorate")
    assert report.commands == ()
    assert "make" not in info.as_text(report)
