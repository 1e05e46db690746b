"""Spark ends the process that plans a stream with SIGTERM, in whatever it does at that moment."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

_PLANNING = """
import atexit, sys
from quorate.spark.options import Use, read_options
from quorate.spark.stream_reader import StreamReader

atexit.register(print, "left as at a normal end")
options = {"bootstrap": sys.argv[1], "subscribe": "q"}
StreamReader(read_options(options, Use.STREAM)).initialOffset()
"""


def test_a_planner_that_waits_for_its_cluster_leaves_at_once() -> None:
    """The broker here takes the connection and says nothing, as one that is paused does."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        bootstrap = f"127.0.0.1:{silent.getsockname()[1]}"
        with subprocess.Popen([sys.executable, "-c", _PLANNING, bootstrap], stdout=subprocess.PIPE, text=True) as planner:
            try:
                with silent.accept()[0]:
                    planner.send_signal(signal.SIGTERM)
                    said, _ = planner.communicate(timeout=10)
            finally:
                planner.kill()
    assert (said, planner.returncode) == ("left as at a normal end\n", 128 + signal.SIGTERM)
