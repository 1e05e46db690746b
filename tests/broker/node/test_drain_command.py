"""`quorate drain` against real processes: its bar, its lines, and what it says when it cannot end."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.node_processes import PATIENCE_S, Nodes, until

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


def test_a_drain_is_no_faster_than_allowed_and_clients_hardly_feel_it(tmp_path: Path) -> None:
    rate, size, count = 4 << 20, 256 << 10, 96
    with Nodes(tmp_path, founders=4, moves_at_once=1, move_bytes_per_s=rate) as nodes:
        nodes.create("orders", 1)
        producer = Producer({"bootstrap.servers": nodes.bootstrap, "linger.ms": 0})
        for number in range(count):
            producer.produce("orders", os.urandom(size))
            if number % 8 == 7:
                assert producer.flush(PATIENCE_S) == 0
        (orders,) = (one for one in nodes.ask("/v1/queues")["queues"] if one["name"] == "orders")
        (partition,) = orders["partitions"]
        leaving = next(node for node in partition["replicas"] if node != partition["leader"])
        began = time.monotonic()
        drain = subprocess.Popen(nodes.command("drain", str(leaving), "--timeout", "60"), stderr=subprocess.PIPE, text=True)

        def behind() -> list[int]:
            return [one["behind"] for one in nodes.partitions() if one["moving"] and one.get("behind")]

        until(lambda: bool(behind()), "it is said how far the new replica is behind")
        asked = time.monotonic()
        producer.produce("orders", b"meanwhile")
        assert producer.flush(PATIENCE_S) == 0
        assert time.monotonic() - asked < 2
        _, said = drain.communicate(timeout=PATIENCE_S)
        assert drain.returncode == 0, said
        assert "1 of them under way" in said
        # The end of the log comes from the leader's memory, which costs it little.
        assert time.monotonic() - began >= (size * count - (8 << 20)) / rate - 1


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
