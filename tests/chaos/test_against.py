"""`quorate chaos run --against` on a cluster of `quorate up`: it is used, approached badly, and left as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.peers.quorate_up import QuorateUp
from quorate.chaos.history import FILE, load
from quorate.cli.main import main

pytestmark = pytest.mark.timeout(300)


@pytest.mark.usefixtures("toxiproxy_binary")
def test_a_running_cluster(tmp_path: Path) -> None:
    up = QuorateUp(tmp_path / "up")
    up.start()
    try:
        pids = dict(up.pids)
        command = ["chaos", "run", "--nemesis", "slow-net", "--seconds", "8", "--seed", "3", "--dir", str(tmp_path / "run")]
        result = CliRunner().invoke(main, [*command, "--against", up.bootstrap])
        assert result.exit_code == 0, result.output
        history = load(tmp_path / "run" / FILE)
        assert [note.facts["phase"] for note in history.notes if note.what == "fault"] == ["begin", "end"]
        assert len(history.acknowledged) > 100
        assert up.pids == pids, "nothing of it was stopped"
    finally:
        up.stop()
