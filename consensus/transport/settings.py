"""What a node may choose about its peer connections. Validated here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, fields

from quorate.consensus.core.settings import MIB


@dataclass(frozen=True, kw_only=True)
class TransportSettings:
    """Limits and times of the peer connections of one node."""

    max_frame_bytes: int = 128 * MIB
    """The largest frame that is sent or accepted: one batch, or a state machine's snapshot, has to fit."""
    max_outgoing_bytes: int = 64 * MIB
    """What may wait for one slow peer. Above it new messages to that peer are dropped, which Raft tolerates."""
    handshake_ms: int = 3_000
    """How long a new connection has to say who it is."""
    max_strangers: int = 64
    """How many connections may be in their handshake at once; more are closed at the door."""
    reconnect_ms: int = 20
    """The first pause before dialing again; it doubles, with jitter, up to `max_reconnect_ms`."""
    max_reconnect_ms: int = 1_000
    silence_ms: int = 10_000
    """A connection on which nothing was heard for this long, while we had something to say, is dead: dial anew."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
                raise ValueError(f"{field.name} must be a positive whole number, not {value!r}")
        if self.max_frame_bytes < 1 * MIB:
            raise ValueError("max_frame_bytes must be at least one MiB")
