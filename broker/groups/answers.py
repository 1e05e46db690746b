"""Responses that several parts of a coordinator give."""

from __future__ import annotations

from quorate.broker.groups.effects import Response
from quorate.broker.groups.group import Group, Member
from quorate.broker.protocol.kafka.errors import Error

NO_GENERATION = -1


def join_error(code: Error, member_id: str = "") -> Response:
    """A JoinGroup that did not work out."""
    return {
        "error_code": code,
        "generation_id": NO_GENERATION,
        "protocol_type": None,
        "protocol_name": "",
        "leader": "",
        "skip_assignment": False,
        "member_id": member_id,
        "members": [],
    }


def joined(group: Group, member: Member, *, leader: str | None = None, skip_assignment: bool = False) -> Response:
    """A JoinGroup that did. The group's leader hears of all members; `leader` overrides who that is said to be."""
    leads = member.id == group.leader and leader is None
    return {
        "error_code": Error.NONE,
        "generation_id": group.generation,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol,
        "leader": group.leader if leader is None else leader,
        "skip_assignment": skip_assignment,
        "member_id": member.id,
        "members": [
            {"member_id": m.id, "group_instance_id": m.instance_id, "metadata": m.metadata(group.protocol)}
            for m in group.members.values()
        ]
        if leads
        else [],
    }


def sync_error(code: Error) -> Response:
    """A SyncGroup that did not work out."""
    return {"error_code": code, "protocol_type": None, "protocol_name": None, "assignment": b""}


def synced(group: Group, member: Member) -> Response:
    """A SyncGroup that did."""
    return {
        "error_code": Error.NONE,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol,
        "assignment": member.assignment,
    }
