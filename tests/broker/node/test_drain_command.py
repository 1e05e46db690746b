"""`quorate drain` against real processes: its bar, its lines, and what it says when it cannot end."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.node_processes import PATIENCE_S, Nodes

pytestmark = pytest.mark.timeout(180)


def test_a_drain_that_cannot_end_says_so(tmp_path: Path) -> None:
    with Nodes(tmp_path) as nodes:
        ended = nodes.cli("drain", "3")
        assert ended.returncode == 1
        assert "no other node can take its last 2 replicas" in ended.stderr
        ended = nodes.cli("drain", "3", "--timeout", "0.5")
        assert ended.returncode == 1
        assert "after 0.5 s" in ended.stderr
        assert nodes.cli("undrain", "3").returncode == 0
        assert nodes.nodes()[3]["state"] == "alive"


def on_a_terminal(command: list[str]) -> tuple[int, str]:
    """The exit code of a command whose stderr is a terminal, and what it showed there."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120", "LANG": "C.UTF-8"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    try:
        while data := os.read(ours, 65_536):
            shown += data
    except OSError:
        pass  # the other side is closed: that is how a terminal ends
    os.close(ours)
    return process.wait(PATIENCE_S), shown.decode(errors="replace")


def test_on_a_terminal_there_is_a_bar(tmp_path: Path) -> None:
    with Nodes(tmp_path, founders=4) as nodes:
        nodes.create("orders", 3)
        held = nodes.nodes()[4]["replicas"]
        command = [sys.executable, "-m", "quorate.cli", "drain", "4", "--timeout", "50", "--http", nodes.http(1)]
        code, shown = on_a_terminal(command)
        assert code == 0, shown
        assert f"{held}/{held}" in shown
        assert nodes.nodes()[4]["replicas"] == 0
