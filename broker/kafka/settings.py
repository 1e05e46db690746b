"""What a node may choose about its Kafka listener. Validated here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, fields

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, kw_only=True)
class ListenerSettings:
    """Limits of one node's Kafka listener. More of anything serves larger or more clients, and costs memory."""

    max_request_bytes: int = 100 * MIB
    """A larger request ends its connection. Kafka's default; messages are limited by their queue, this is the outer one."""
    max_command_bytes: int = 4 * MIB
    """The same for everything but Produce. Such a request is taken apart into small objects, some two hundred bytes for each
    one that it holds, so a large one would cost memory many times its size, and time in which nobody else is served."""
    max_connections: int = 4096
    max_connections_per_ip: int = 1024
    max_in_flight: int = 512
    """Requests of one connection that wait for their answer; no more are read from it meanwhile."""
    max_in_flight_bytes: int = 32 * MIB
    """The same in bytes. A single larger request is still taken, alone."""
    node_in_flight_bytes: int = 256 * MIB
    """Requests of all connections together, those that are arriving too. Above it nobody begins a new request until some are
    answered, and large ones that are arriving wait; but one at a time goes on, or all could wait for each other."""
    write_buffer_bytes: int = 1 * MIB
    """Answers that a client has not taken yet; above it nothing more is read from it."""
    idle_ms: int = 600_000
    """A connection with nothing under way is closed after this time. Clients reconnect by themselves."""
    frame_ms: int = 30_000
    """A request that has begun to arrive must be here after this time; while it waits for room, its time stands still."""
    fetch_max_bytes: int = 55 * MIB
    """The most that one Fetch answers, whatever the client asks for (a single larger batch excepted). Less when clients are
    slow to take their answers: what is read for all of them together stays within `node_in_flight_bytes`, and each Fetch
    gets at most a quarter of what is left of that, but always one batch."""
    fetch_max_wait_ms: int = 300_000
    """The longest that a Fetch may wait."""
    election_wait_ms: int = 500
    """How long the answer to who leads may wait for an election that is under way. Clients that are told "nobody" look again
    only after a pause of their own, which is longer than most elections. What follows on the same connection waits too."""
    news_ms: int = 5
    """How long every such answer waits for news. A client whose node has died asks at once, and may be quicker than the
    word that the node is gone; if it is told the old leader again, it may not ask again for a second."""
    auto_create: bool = False
    """Create an unknown queue when a client asks for its metadata. Handy, and a typing error then makes a queue."""
    close_ms: int = 5_000
    """How long a closing listener waits for what is under way."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "auto_create":
                if not isinstance(value, bool):
                    raise ValueError(f"{field.name} must be true or false, not {value!r}")
            elif not isinstance(value, int) or isinstance(value, bool) or value <= 0:
                raise ValueError(f"{field.name} must be a positive whole number, not {value!r}")
