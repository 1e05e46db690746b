"""What happened on a node since its start, for metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """All of them only rise."""

    turns: int = 0
    messages_in: int = 0
    messages_out: int = 0
    proposals: int = 0
    committed: int = 0
    failed: int = 0
    writes: int = 0
    disk_full: int = 0
    replicas_stopped: int = 0
