"""What a node may choose about its runtime. Validated here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, fields

from quorate.consensus.core.settings import KIB, MIB


@dataclass(frozen=True, kw_only=True)
class RuntimeSettings:
    """Limits of one node's runtime."""

    beat_ms: int = 50
    """How often a node shows itself to the nodes whose groups it leads."""
    turn_bytes: int = 1 * MIB
    """The most bytes of proposals that one group may add in one turn of the loop, so that no other group waits long."""
    turn_batches: int = 512
    """The most proposals that one group may add in one turn."""
    window_bytes: int = 4 * MIB
    """How much of one group may wait for a quorum. What is proposed beyond it waits in the group's queue."""
    queue_bytes: int = 64 * MIB
    """The most bytes in one group's queue; above it proposals are refused as busy."""
    queue_batches: int = 16_384
    """The most proposals in one group's queue."""
    apply_bytes: int = 1 * MIB
    """The most bytes that are handed to a state machine at once."""
    write_here_bytes: int = 16 * KIB
    """The only write under way, up to this size, is carried out on the loop's thread, while the disk is quick."""
    writer_threads: int = 4
    reader_threads: int = 2
    full_retry_ms: int = 250
    """How often a write is tried again while the disk is full."""
    learner_bytes_per_s: int = 64 * MIB
    """How fast all new replicas together are fed with what is no longer in memory; they are no voters yet, nobody waits."""
    uncertain_ms: int = 1_000
    """How long proposals of a leader that lost its place wait for the new leader's verdict before they are uncertain."""
    shutdown_ms: int = 3_000
    """How long a shutdown waits for leadership to be handed over."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
                raise ValueError(f"{field.name} must be a positive whole number, not {value!r}")
