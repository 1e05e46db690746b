"""What an operator may choose about groups. Times are milliseconds."""

from __future__ import annotations

from dataclasses import dataclass

_DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """The limits and delays of a coordinator."""

    min_session_ms: int = 6_000
    max_session_ms: int = 1_800_000
    initial_delay_ms: int = 100
    """How long an empty group waits for more members before it hands out its first assignment."""
    initial_delay_max_ms: int = 1_000
    """The delay is repeated while members keep coming, up to this in all."""
    new_member_join_ms: int = 300_000
    """How long a new member may wait in a rebalance: it may have gone away, and nothing else would notice."""
    max_group_size: int = 10_000
    max_metadata_bytes: int = 4_096
    """Of the text that a client puts beside a committed offset."""
    offset_retention_ms: int = 7 * _DAY_MS
    """How long an empty group keeps its offsets."""

    def __post_init__(self) -> None:
        if not 0 < self.min_session_ms <= self.max_session_ms:
            raise ValueError(f"sessions of {self.min_session_ms}..{self.max_session_ms} ms make no range")
        if not 0 <= self.initial_delay_ms <= self.initial_delay_max_ms:
            raise ValueError("initial_delay_ms must be in 0..initial_delay_max_ms")
        if self.max_group_size < 1 or self.max_metadata_bytes < 0:
            raise ValueError("max_group_size must be positive, max_metadata_bytes must not be negative")
        if self.offset_retention_ms < 1 or self.new_member_join_ms < 1:
            raise ValueError("offset_retention_ms and new_member_join_ms must be positive")
