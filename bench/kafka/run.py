"""Running one job: a client process, and what the servers spent meanwhile."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.kafka.job import PATIENCE_S, Spec
from bench.kafka.systems import System

_END_S = 3 * PATIENCE_S


class ClientFailed(RuntimeError):
    """The client process did not do what it was told; the text has its last words."""


def run_job(system: System, spec: Spec) -> dict[str, Any]:
    """The client's figures, and `broker_cpu_s`: processor time of all servers from the go to the result."""
    # Dirty pages of what was written before would be written out during this reading, and slow it.
    os.sync()
    with client(system, spec) as process:
        before = system.peer.cpu_seconds()
        tell(process)
        said = hear(process, _END_S)
        spent = system.peer.cpu_seconds() - before
    figures: dict[str, Any] = json.loads(said)
    return {**figures, "broker_cpu_s": spent}


@contextmanager
def client(system: System, spec: Spec) -> Iterator[subprocess.Popen[str]]:
    """A client that is ready to begin; ended at the end, whatever happens."""
    command = [sys.executable, "-m", system.client, spec.encode()]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=0
    )
    try:
        if (line := hear(process, _END_S)) != "ready":
            raise ClientFailed(f"the client said {line!r} where it should be ready")
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate()


def tell(process: subprocess.Popen[str], line: str = "go") -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def hear(process: subprocess.Popen[str], patience_s: float) -> str:
    """The next line that the client prints."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], patience_s)
    if not ready:
        raise ClientFailed(f"the client said nothing for {patience_s:.0f} s")
    line = process.stdout.readline()
    if not line:
        _, words = process.communicate()
        raise ClientFailed("the client ended without a result: " + " | ".join(words.strip().splitlines()[-3:]))
    return line.strip()
