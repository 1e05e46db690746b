"""What a client process is told and what it says, whichever system it loads. It says "ready", waits for a line, does its
work and prints its figures as one line of JSON. Not here: any client library.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

PATIENCE_S = 90.0
"""How long a client waits for what should take a moment, before it gives up."""


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What to do."""

    do: str
    bootstrap: str
    topic: str
    partitions: int = 1
    size: int = 100
    seconds: float = 5.0
    count: int = 0
    """How many messages are there to be consumed."""
    rate: int = 0
    """Messages per second; 0: as many as go."""
    connections: int = 1
    window: int = 4_000
    """Publishes that wait for their acknowledgement, where the client library keeps no queue of its own (NATS)."""
    settings: dict[str, Any] = field(default_factory=dict)

    def encode(self) -> str:
        return json.dumps(asdict(self))


def percentile(sorted_values: list[float], share: float) -> float:
    """NaN of nothing."""
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))] if sorted_values else float("nan")


def latencies(seconds: list[float], prefix: str = "") -> dict[str, float]:
    """Median and 99th percentile in ms."""
    ordered = sorted(seconds)
    return {f"{prefix}p50_ms": percentile(ordered, 0.5) * 1e3, f"{prefix}p99_ms": percentile(ordered, 0.99) * 1e3}


def gap_ms(moments: list[float], killed: float) -> float:
    """The longest silence that ended after the kill; NaN if nothing was heard after it."""
    return max((later - earlier for earlier, later in pairwise(moments) if later >= killed), default=float("nan")) * 1e3


def wait_for_go() -> None:
    """Everything is prepared; begin when told. The client's own processor time is counted from here."""
    print("ready", flush=True)
    sys.stdin.readline()
    _Cpu.began = time.process_time()


class _Cpu:
    began = 0.0


Job = Callable[[Spec], dict[str, Any]]


def main(jobs: Mapping[str, Job]) -> None:
    """The outermost part of a client process."""
    spec = Spec(**json.loads(sys.argv[1]))
    said = jobs[spec.do](spec)
    print(json.dumps({**said, "client_cpu_s": time.process_time() - _Cpu.began}), flush=True)
