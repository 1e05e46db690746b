"""`quorate chaos` as a user meets it. What it does to a real cluster is in tests/chaos."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from quorate.chaos.checkers import CHECKERS
from quorate.chaos.history import FILE, Action, Record, Recorder
from quorate.chaos.workloads import WORKLOADS
from quorate.cli.main import main


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["chaos", *args])


def _history(folder: Path, *, kept: bool) -> None:
    with Recorder(folder / FILE) as recorder:
        recorder.note("run", workload="log", seed=7, seconds=1, nemesis=["kill"], command="quorate chaos run --seed 7")
        recorder.ok(recorder.invoke("p", Action.PRODUCE, topic="t", partition=0, value="a", once=True), offset=1)
        records = [Record(1, "a" if kept else "b", 1)]
        recorder.ok(recorder.invoke("end", Action.FINAL, topic="t", partition=0), records=records, offset=2)


def test_help_teaches() -> None:
    for args in (["--help"], ["run", "--help"]):
        result = run(*args)
        assert result.exit_code == 0
        assert "quorate chaos run" in result.output
    assert "Exit codes" in run("--help").output


def test_list_names_every_part_with_a_line_about_it() -> None:
    output = run("list").output
    for name in (*WORKLOADS, *CHECKERS, "none"):
        assert f"  {name} " in output


def test_check_says_that_a_history_is_good(tmp_path: Path) -> None:
    _history(tmp_path, kept=True)
    result = run("check", str(tmp_path))
    assert result.exit_code == 0
    assert "no anomaly" in result.output
    assert (tmp_path / "report.html").is_file()


def test_check_says_what_is_wrong_and_ends_with_1(tmp_path: Path) -> None:
    _history(tmp_path, kept=False)
    result = run("check", str(tmp_path))
    assert result.exit_code == 1
    assert "a was acknowledged at t/0 offset 1 and is nowhere in the end" in result.output
    assert "quorate chaos run --seed 7" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("text", [None, "nonsense\nmore\n"])
def test_check_refuses_a_folder_without_a_history(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / FILE).write_text(text)
    result = run("check", str(tmp_path))
    assert result.exit_code == 1
    assert "no history to check" in result.stderr


def test_run_refuses_what_there_is_not_and_a_folder_in_use(tmp_path: Path) -> None:
    _history(tmp_path, kept=True)
    for args, complaint in (
        (["--workload", "dance"], "there is no workload 'dance'"),
        (["--seconds", "0"], "0"),
        (["--dir", str(tmp_path)], "is not empty"),
        (["--sabotage", "typos"], "there is no bug 'typos' to plant; there are no-fsync"),
        (["--sabotage", "no-fsync", "--against", "127.0.0.1:1"], "a cluster that chaos starts itself"),
    ):
        result = run("run", *args)
        assert result.exit_code == 2
        assert complaint in result.stderr
