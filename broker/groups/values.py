"""What is replicated about a group, as frozen values, and the changes that the log of `@groups` is made of."""

from __future__ import annotations

from typing import NamedTuple

from quorate.broker.groups.logs import NO_LOG

QueuePartition = tuple[str, int]


class CommittedOffset(NamedTuple):
    """Where a group goes on reading one partition."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_time_ms: int
    """The time of the commit in the log of `@groups`: the same on every replica."""
    log: int = NO_LOG
    """The partition's log that it means: a queue that is made again under its name has another one."""


class MemberInfo(NamedTuple):
    """One member of a generation. `metadata` is what it said under the protocol that was chosen."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    metadata: bytes
    assignment: bytes


class GroupInfo(NamedTuple):
    """One generation of a group. Without members the group is empty; `assigned`: its leader has divided the work."""

    generation: int
    protocol_type: str
    protocol: str
    leader: str
    assigned: bool
    members: tuple[MemberInfo, ...]
    since_ms: int = 0
    """The log's time of this record."""


class OffsetCommitted(NamedTuple):
    """A group goes on from here."""

    group: str
    queue: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    log: int = NO_LOG


class OffsetDropped(NamedTuple):
    """A group's place in one partition is forgotten."""

    group: str
    queue: str
    partition: int


class GroupStored(NamedTuple):
    """A group has this generation, these members."""

    group: str
    info: GroupInfo


class GroupDropped(NamedTuple):
    """A group is forgotten, and all its offsets with it."""

    group: str


class QueueForgotten(NamedTuple):
    """A queue was deleted: no group has an offset in it any more."""

    queue: str


Change = OffsetCommitted | OffsetDropped | GroupStored | GroupDropped | QueueForgotten
