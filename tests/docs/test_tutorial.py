"""The code of docs/tutorial.md, block after block, against a cluster of real processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.broker.node.test_local_cluster import PATIENCE_S, ask, free_base, up

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
START = 'make run ARGS="--nodes 4"\n'
KILL = "pkill -9 -f node-2/node.toml\n"
NODES = 4


class Reader:
    """Somebody who types the tutorial in: one Python session, one shell, and the addresses of this cluster."""

    def __init__(self, cluster: dict[str, Any], folder: Path, keep: Callable[[subprocess.Popen[bytes]], None]) -> None:
        self._cluster = cluster
        self._folder = folder
        self._keep = keep
        self._names: dict[str, Any] = {}
        self.ran: list[str] = []

    def python(self, text: str) -> None:
        addresses = ",".join(self._cluster["bootstrap"].split(",")[:3])
        text = re.sub(r'^BOOTSTRAP = ".*"$', f'BOOTSTRAP = "{addresses}"', text, flags=re.MULTILINE)
        exec(compile(text, str(PAGE), "exec"), self._names)

    def sh(self, text: str) -> None:
        if text == KILL:
            return self._kill()
        assert text.startswith("quorate "), f"the test does not know how to run {text!r}"
        words = text.replace(".quorate/", f"{self._folder}/").split()[1:]
        command, environment = [sys.executable, "-m", "quorate.cli", *words], os.environ | {"QUORATE_HTTP": self._http}
        if words[0] == "node":
            self._keep(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            return self._until_alive(2)
        subprocess.run(command, env=environment, check=True, timeout=PATIENCE_S * 3, stdout=subprocess.DEVNULL)
        return None

    @property
    def _http(self) -> str:
        return str(self._cluster["http"])

    def _kill(self) -> None:
        """What the tutorial's `pkill` does, to our node 2 and to no other cluster's."""
        [pid] = [int(node["pid"]) for node in self._cluster["nodes"] if node["id"] == 2]
        assert "node-2/node.toml" in Path(f"/proc/{pid}/cmdline").read_text(), "pkill would find it"
        os.kill(pid, signal.SIGKILL)

    def _until_alive(self, node: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while {one["id"]: one["state"] for one in ask(self._http, "/v1/nodes")["nodes"]}[node] != "alive":
            assert time.monotonic() < deadline, f"waited in vain until node {node} is alive"
            time.sleep(0.1)


@contextmanager
def processes() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Ends what was started beside the cluster."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        yield started.append
    finally:
        for process in started:
            process.terminate()
            process.wait(PATIENCE_S)


@pytest.mark.timeout(600)
def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    with up(tmp_path / "c", free_base(NODES), NODES) as cluster, processes() as keep:
        reader = Reader(cluster, tmp_path / "c", keep)
        for language, text in BLOCKS:
            if text != START:
                {"python": reader.python, "sh": reader.sh}[language](text)


def test_the_tutorial_begins_with_its_cluster() -> None:
    assert BLOCKS[0] == ("sh", START)
    assert ("sh", KILL) in BLOCKS
