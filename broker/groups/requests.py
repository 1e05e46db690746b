"""What clients ask of a coordinator, as frozen values: the fields of Kafka's requests that matter here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from quorate.broker.groups.group import Protocols


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """JoinGroup. In version 0 the rebalance timeout is the session timeout: the caller fills it in."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    require_member_id: bool = False
    """From version 4 on: a member without an id is given one first, and joins with it."""
    can_skip_assignment: bool = False
    """From version 9 on."""


class Identity(NamedTuple):
    """Who speaks, and of which generation. A consumer that never joins has an empty id and generation -1."""

    member_id: str = ""
    generation_id: int = -1
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """SyncGroup. `assignments` come from the group's leader only. Versions before 5 leave the protocol out."""

    group_id: str
    member: Identity
    assignments: dict[str, bytes]
    protocol_type: str | None = None
    protocol_name: str | None = None


class Leaver(NamedTuple):
    """One member that leaves: by its id, by its instance id, or by both."""

    member_id: str
    group_instance_id: str | None = None


class OffsetToCommit(NamedTuple):
    """Where to go on reading one partition."""

    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
