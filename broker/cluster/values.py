"""What `@cluster` replicates: nodes, queues, replica sets. Frozen values, and their JSON form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from quorate.consensus.core import GroupId, NodeId, ReplicaId, node_of, replica_id

CLUSTER_GROUP: Final = GroupId(0)
"""`@cluster` itself."""
GROUPS_QUEUE: Final = "@groups"
"""The internal queue that holds consumer groups."""
FOUNDER: Final = 1
"""The incarnation that each of a cluster's first nodes has in `@cluster`."""
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Refused(Exception):
    """A command that cannot be carried out: it changed nothing. `code` is for programs."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Membership(StrEnum):
    """Whether a node may hold replicas. Whether it is alive is not replicated: see `directory`."""

    JOINED = "joined"
    DRAINING = "draining"
    """Everything is moved off it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """A node, where it listens, and what it may hold."""

    id: NodeId
    host: str
    """The host that clients and nodes are told."""
    kafka_port: int
    http_port: int
    peer_host: str
    peer_port: int
    rack: str = ""
    membership: Membership = Membership.JOINED
    storage: str = ""
    """The id of its folder, in hex; empty: it was never said. A node that comes with another one has lost its disk."""
    incarnation: int = FOUNDER
    """Of its replica of `@cluster`. A node that asks to be let in says 0, and is given one that was never used."""

    @property
    def replica(self) -> ReplicaId:
        """Its replica of `@cluster`."""
        return replica_id(self.id, self.incarnation)

    def facts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_facts(cls, said: dict[str, Any]) -> NodeInfo:
        return cls(**said | {"id": NodeId(said["id"]), "membership": Membership(said.get("membership", "joined"))})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    """One partition: its Raft group, the replicas that it has, and those that it shall have.

    Invariant: no two of `replicas` and no two of `target` are on one node. `target` is None unless a move is under way; then
    the new ones of it begin as learners. Only a move that is under way can be cancelled.
    """

    group: GroupId
    replicas: tuple[ReplicaId, ...]
    """The first is preferred as leader."""
    target: tuple[ReplicaId, ...] | None = None
    first: tuple[ReplicaId, ...] = ()
    """The voters that the group began with. Only they begin with its configuration; all others learn it."""
    cancelled: bool = False
    """The move shall be called off, if the group's members are not the target yet."""

    @property
    def members(self) -> tuple[ReplicaId, ...]:
        """Every replica that there should be now, those that are coming and those that are going too."""
        return tuple(dict.fromkeys((*self.replicas, *(self.target or ()))))

    @property
    def coming(self) -> tuple[ReplicaId, ...]:
        """Replicas that a move brings."""
        return tuple(one for one in self.target or () if one not in self.replicas)

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """Where its replicas are."""
        return tuple(node_of(replica) for replica in self.replicas)

    def facts(self) -> list[Any]:
        return [self.group, self.replicas, self.target, self.first, self.cancelled]

    @classmethod
    def from_facts(cls, said: list[Any]) -> PartitionInfo:
        group, replicas, target, first, *later = said
        return cls(
            group=GroupId(group),
            replicas=tuple(map(ReplicaId, replicas)),
            target=None if target is None else tuple(map(ReplicaId, target)),
            first=tuple(map(ReplicaId, first)),
            cancelled=bool(later and later[0]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInfo:
    """A queue. `settings` holds only what was set for it."""

    name: str
    id: bytes
    partitions: tuple[PartitionInfo, ...]
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def internal(self) -> bool:
        return self.name.startswith("@")

    def with_partition(self, index: int, partition: PartitionInfo) -> QueueInfo:
        """The same queue with one partition replaced."""
        partitions = (*self.partitions[:index], partition, *self.partitions[index + 1 :])
        return replace(self, partitions=partitions)

    def facts(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "id": self.id.hex(),
            "partitions": [one.facts() for one in self.partitions],
            "settings": dict(sorted(self.settings.items())),
        }

    @classmethod
    def from_facts(cls, said: dict[str, Any]) -> QueueInfo:
        return cls(
            name=said["name"],
            id=bytes.fromhex(said["id"]),
            partitions=tuple(map(PartitionInfo.from_facts, said["partitions"])),
            settings=MappingProxyType(dict(said["settings"])),
        )


def valid_queue_name(name: str) -> bool:
    """Whether clients may name a queue so: Kafka's rule."""
    return _NAME.fullmatch(name) is not None and name not in (".", "..")
