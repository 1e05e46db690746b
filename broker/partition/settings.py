"""What a queue may choose about its partitions. Validated here; a partition takes new ones at any time."""

from __future__ import annotations

from dataclasses import dataclass

_DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, kw_only=True)
class PartitionSettings:
    """Limits of one partition."""

    max_message_bytes: int = 1_048_588
    """The largest batch that is taken, header included."""
    retention_ms: int | None = 7 * _DAY_MS
    """How old records may become. None: any age."""
    retention_bytes: int | None = None
    """How much of the log is kept. None: all of it."""
    producer_expiry_ms: int = 7 * _DAY_MS
    """How long, in log time, an idempotent producer that appends nothing is remembered.

    A change reaches the replicas at slightly different places in the log; until then they may forget at different times.
    """
    stage_expiry_ms: int = _DAY_MS
    """How long staged batches are kept after the last one of their stage. In the second half of it they cannot be committed
    any more."""
    snapshot_batches: int = 20_000
    """After so many applied batches the state is stored, so that a restart replays no more than about that."""

    def __post_init__(self) -> None:
        for name in ("max_message_bytes", "producer_expiry_ms", "stage_expiry_ms", "snapshot_batches"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be a positive whole number, not {getattr(self, name)!r}")
        for name in ("retention_ms", "retention_bytes"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"{name} must not be negative, not {value}")
