"""Every setting of a node, with what it costs and what it buys. Validated here and nowhere else.

A TOML file has one table per class below. `broker.node.toml` reads and writes such files; docs/configuration.md is made from
the same texts.
"""

from __future__ import annotations

import re
from dataclasses import Field, dataclass, field, fields
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

MAX_NODE = 2**30


class BadSettings(ValueError):
    """A setting that cannot be used. The text names it."""


class Endpoint(NamedTuple):
    """Host and port. Written `host:port`, or `[host]:port` for IPv6."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """Raises BadSettings."""
        match = re.fullmatch(r"(?:\[([^\]\s]+)\]|([^:\s]+)):([0-9]{1,5})", text)
        if match is None or not text.isprintable() or not 0 <= int(match[3]) <= 65_535:
            raise BadSettings(f"{text!r} is no address: write host:port")
        return cls(match[1] or match[2], int(match[3]))


class Member(NamedTuple):
    """One of the nodes that a new cluster begins with. Written `id@host:port`, the address of its peer listener."""

    node: int
    peer: Endpoint

    def __str__(self) -> str:
        return f"{self.node}@{self.peer}"

    @classmethod
    def parse(cls, text: str) -> Member:
        """Raises BadSettings."""
        node, at, address = text.partition("@")
        if not at or not re.fullmatch("[0-9]{1,10}", node) or not 1 <= int(node) <= MAX_NODE:
            raise BadSettings(f"{text!r} is no member: write id@host:port, such as 1@10.0.0.1:9292")
        return cls(int(node), Endpoint.parse(address))


def setting(doc: str, default: Any = ..., *, least: int | None = None, most: int | None = None, example: str = "") -> Any:
    """A field with its text, its bounds and, where there is no default, an example."""
    metadata = {"doc": doc, "least": least, "most": most, "example": example}
    if default is ...:
        return field(metadata=metadata)
    return field(default=default, metadata=metadata)


class Section:
    """One table of the file. Checks the bounds of whole numbers when it is made."""

    def __post_init__(self) -> None:
        for one in self.declared():
            value, least, most = getattr(self, one.name), one.metadata["least"], one.metadata["most"]
            name = f"{self.table()}.{one.name}"
            if least is not None and value < least:
                raise BadSettings(f"{name} must be at least {least}, not {value}")
            if most is not None and value > most:
                raise BadSettings(f"{name} must be at most {most}, not {value}")

    @classmethod
    def declared(cls) -> tuple[Field[Any], ...]:
        return fields(cls)  # type: ignore[arg-type]  # every section is a dataclass

    @classmethod
    def table(cls) -> str:
        """The table's name in the file."""
        return cls.__name__.removesuffix("Section").lower()


@dataclass(frozen=True, kw_only=True)
class NodeSection(Section):
    """Who this node is, and where it keeps its data."""

    id: int = setting(
        "The node's number, from 1 on. It is never given to another node.", least=1, most=MAX_NODE, example="1"
    )
    dir: Path = setting(
        "Where everything is stored. One local disk that honours fsync; every acknowledged message waits for it.",
        example="/var/lib/quorate",
    )
    rack: str = setting("Replicas of a partition are spread over racks, so name whatever fails together.", "")


@dataclass(frozen=True, kw_only=True)
class ClusterSection(Section):
    """Which cluster this node belongs to. Must be the same on all of its nodes, but for `join`."""

    id: str = setting(
        "The cluster's name. Nodes with another one are refused, so that two clusters never mix.", example="orders-eu"
    )
    members: tuple[Member, ...] = setting(
        "The nodes that a new cluster begins with: 1, 3 or 5. Looked at when the node's folder is empty, and never again.",
        (),
        example="1@10.0.0.1:9292",
    )
    join: tuple[Endpoint, ...] = setting(
        "HTTP addresses of nodes of a running cluster that this node should join, instead of `members`.",
        (),
        example="10.0.0.1:9192",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", self.id):
            raise BadSettings(f"cluster.id must be 1 to 64 letters, digits, '.', '_' or '-', not {self.id!r}")
        if len({member.node for member in self.members}) != len(self.members):
            raise BadSettings("cluster.members names a node twice")
        if bool(self.members) == bool(self.join):
            raise BadSettings("give either cluster.members (a new cluster) or cluster.join (a running one)")


@dataclass(frozen=True, kw_only=True)
class ListenSection(Section):
    """Addresses. Anything but loopback needs --insecure as long as there is no TLS and no authentication."""

    kafka: Endpoint = setting("For Kafka clients.", Endpoint("127.0.0.1", 9092))
    http: Endpoint = setting("For HTTP.", Endpoint("127.0.0.1", 9192))
    peer: Endpoint = setting("For the other nodes.", Endpoint("127.0.0.1", 9292))
    advertise: str = setting("The host name that clients and nodes are told; empty: the host of each listener.", "")
    advertise_kafka: Endpoint | None = setting(
        "The whole address that Kafka clients are told, where the port differs too: behind a proxy, a load balancer or a"
        " port mapping. Empty: `advertise` and the listener's port. HTTP is told with the same host.",
        None,
    )
    advertise_peer: Endpoint | None = setting(
        "The same for other nodes. Empty: `advertise` and the listener's port. It must reach this node from all of them;"
        " for a way that only one of them can go see `peers.dial`.",
        None,
    )


@dataclass(frozen=True, kw_only=True)
class PeersSection(Section):
    """How this node reaches the others. Of each pair of nodes the one with the lower id dials."""

    dial: tuple[Member, ...] = setting(
        "Where this node dials others, instead of where they say they are: through a tunnel, a proxy or NAT that only this"
        " node sees.",
        (),
        example="3@127.0.0.1:19292",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len({member.node for member in self.dial}) != len(self.dial):
            raise BadSettings("peers.dial names a node twice")


@dataclass(frozen=True, kw_only=True)
class QueuesSection(Section):
    """What queues get when their creator does not say."""

    partitions: int = setting(
        "Partitions of a new queue. More spread the load over nodes; each costs a log and a sync of its own.",
        1,
        least=1,
        most=10_000,
    )
    replication: int = setting(
        "Replicas of each partition, at most the number of nodes. 3 survive the loss of one node, 5 of two.",
        3,
        least=1,
        most=7,
    )
    auto_create: bool = setting(
        "Whether producing to a queue that does not exist creates it. Handy at a desk; in production a typing error becomes"
        " a queue.",
        False,
    )
    group_partitions: int = setting(
        "Partitions of `@groups`, which holds consumer groups. Looked at when the cluster is made, and never again.",
        8,
        least=1,
        most=100,
    )


@dataclass(frozen=True, kw_only=True)
class RaftSection(Section):
    """Timing. Must be the same on all nodes."""

    heartbeat_ms: int = setting(
        "How often a leader shows itself. Lower finds dead leaders sooner and costs CPU.", 50, least=5
    )
    election_ms: int = setting(
        "How long a silent leader is waited for, up to twice this. Lower fails over sooner; too low, and a pause of the"
        " machine costs a leader.",
        300,
        least=20,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.election_ms < 2 * self.heartbeat_ms:
            raise BadSettings(
                "raft.election_ms must be at least twice raft.heartbeat_ms, or one late beat starts an election"
            )


@dataclass(frozen=True, kw_only=True)
class ClockSection(Section):
    """The clock that stamps messages. Closed time, and with it reading as of a time, needs to know how far off it may be."""

    uncertainty_ms: int = setting(
        "How far this machine's clock may be from the true time, and so from the other nodes' clocks. A promise of yours:"
        " if it is broken while a leader changes, a message may be stamped within a time that was closed. -1: the kernel is"
        " asked, which knows if NTP runs; if it does not, time closes only where messages are appended. `quorate up`,"
        " whose nodes share one clock, sets 10.",
        -1,
        least=-1,
        most=60_000,
    )


@dataclass(frozen=True, kw_only=True)
class StorageSection(Section):
    """The disk. One LevelDB per partition replica."""

    write_buffer_bytes: int = setting(
        "What LevelDB gathers in memory before it writes a table; a busy replica holds up to twice this.",
        8 << 20,
        least=64 << 10,
    )
    reserve_bytes: int = setting(
        "Room that messages leave free, so that a full disk can still be cleaned up.", 32 << 20, least=1
    )
    writer_threads: int = setting(
        "Threads that write and sync. More help where many partitions are busy.", 4, least=1, most=64
    )
    retention_check_s: int = setting("How often old messages are looked for.", 30, least=1)


@dataclass(frozen=True, kw_only=True)
class KafkaSection(Section):
    """Limits of the Kafka listener."""

    max_connections: int = setting(
        "More are closed at the door. Each costs 64 KiB, and what it has under way.", 4_096, least=1
    )
    max_request_bytes: int = setting(
        "A longer request closes its connection. It must hold the largest batch that any queue accepts.",
        100 << 20,
        least=1 << 10,
    )
    max_command_bytes: int = setting(
        "The same for requests that carry no records. They cost memory many times their size while they are served, so this"
        " is lower.",
        4 << 20,
        least=1 << 10,
    )
    idle_s: int = setting("A connection that was silent for so long is closed.", 600, least=1)


@dataclass(frozen=True, kw_only=True)
class ManagerSection(Section):
    """The internal cluster manager, which runs where `@cluster` is led."""

    suspect_after_ms: int = setting(
        "A node that was silent for so long is suspected: no new replicas go there.", 2_000, least=100
    )
    dead_after_s: int = setting(
        "A node that was silent for so long is dead: its replicas are built anew elsewhere. Lower restores redundancy"
        " sooner; too low, and a reboot moves a node's whole data.",
        300,
        least=1,
    )
    moves_at_once: int = setting(
        "How many replicas are moved at a time. More is sooner done, and felt by clients.", 4, least=1
    )
    move_bytes_per_s: int = setting(
        "How fast a node feeds the new replicas of all that it leads, together. More is sooner done, and felt by clients;"
        " a new replica of a queue that gets more than this never catches up. What is still in memory, the last 8 MiB of a"
        " partition, is not counted.",
        64 << 20,
        least=64 << 10,
    )
    balance: bool = setting("Whether leaders are moved to where they are fewer.", True)


@dataclass(frozen=True, kw_only=True)
class NodeSettings:
    """All of it."""

    node: NodeSection
    cluster: ClusterSection
    listen: ListenSection = field(default_factory=ListenSection)
    peers: PeersSection = field(default_factory=PeersSection)
    queues: QueuesSection = field(default_factory=QueuesSection)
    raft: RaftSection = field(default_factory=RaftSection)
    clock: ClockSection = field(default_factory=ClockSection)
    storage: StorageSection = field(default_factory=StorageSection)
    kafka: KafkaSection = field(default_factory=KafkaSection)
    manager: ManagerSection = field(default_factory=ManagerSection)

    def __post_init__(self) -> None:
        members = dict(self.cluster.members)
        if members and self.node.id not in members:
            raise BadSettings(f"node.id is {self.node.id}, but cluster.members names only {sorted(members)}")

    def require_loopback(self) -> None:
        """Raise BadSettings if anything listens where others can reach it."""
        for name in ("kafka", "http", "peer"):
            endpoint: Endpoint = getattr(self.listen, name)
            if not _is_loopback(endpoint.host):
                raise BadSettings(
                    f"listen.{name} = {str(endpoint)!r} can be reached from other machines, and there is neither TLS nor"
                    " authentication: say --insecure if that is meant"
                )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


SECTIONS: dict[str, type[Section]] = {
    section.table(): section
    for section in (
        NodeSection,
        ClusterSection,
        ListenSection,
        PeersSection,
        QueuesSection,
        RaftSection,
        ClockSection,
        StorageSection,
        KafkaSection,
        ManagerSection,
    )
}
