"""What a group's replicas may be tuned with. Validated here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, fields

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, kw_only=True)
class RaftSettings:
    """Timing and limits of one group. The times must be the same on all its replicas."""

    heartbeat_ms: int = 50
    """How often a leader shows itself. Lower finds dead leaders sooner and costs more wake-ups."""
    election_ms: int = 300
    """How long a follower waits for a sign of its leader: between this and twice this, drawn anew each time."""
    commit_news_ms: int = 5
    """How long the news of a commit waits for an append to carry it, before a heartbeat of its own does; 0: not at all.
    Lower lets idle followers apply sooner; higher leaves more of the machine to a producer that sends batches singly."""
    max_append_bytes: int = 1 * MIB
    """The most bytes in one append message. One batch is always sent, however large it is."""
    max_inflight: int = 64
    """The most unanswered appends per follower."""
    max_inflight_bytes: int = 16 * MIB
    """The most unanswered bytes per follower. One append is always sent, however large it is."""
    max_uncommitted_bytes: int = 64 * MIB
    """The most bytes that wait for a quorum before proposals are refused as overloaded."""
    tail_bytes: int = 8 * MIB
    """How much of the log's end stays in memory for followers that are a little behind."""
    snapshot_retry_ms: int = 5_000
    """How long an unanswered snapshot is waited for before it is sent again."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name == "commit_news_ms" else 1
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(f"{field.name} must be a whole number from {least} on, not {value!r}")
        if self.election_ms < 2 * self.heartbeat_ms:
            raise ValueError(
                f"election_ms ({self.election_ms}) must be at least twice heartbeat_ms ({self.heartbeat_ms}), "
                "or one late heartbeat starts an election"
            )
