"""What tools ask: which groups there are, what they look like, and to delete them."""

from __future__ import annotations

from collections.abc import Collection

from quorate.broker.groups.desk import Desk
from quorate.broker.groups.effects import Done, Response
from quorate.broker.groups.group import Group
from quorate.broker.groups.phases import Event, Phase
from quorate.broker.groups.values import GroupDropped
from quorate.broker.protocol.kafka.errors import Error


class Admin:
    """Answers tools."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def list(self, states: Collection[str], done: Done) -> None:
        desk = self._desk
        wanted = {state.lower() for state in states}
        groups = []
        for name in sorted(desk.groups.keys() | desk.state.groups.keys()):
            protocol_type, phase = self._outline(name)
            if not wanted or phase.value.lower() in wanted:
                groups.append(
                    {"group_id": name, "protocol_type": protocol_type, "group_state": phase.value, "group_type": "classic"}
                )
        desk.answer(done, {"error_code": Error.NONE, "groups": groups})

    def _outline(self, name: str) -> tuple[str, Phase]:
        group = self._desk.groups.get(name)
        if group is not None:
            return group.protocol_type, group.phase
        info = self._desk.state.info(name)  # Groups that are not at hand have no members.
        return (info.protocol_type if info is not None else ""), Phase.EMPTY

    def describe(self, group_id: str, done: Done) -> None:
        desk = self._desk
        group = desk.find(group_id)
        response = {**describe_error(group_id, Error.NONE), "group_state": Phase.DEAD.value}
        if group is not None and group.phase is not Phase.DEAD:
            stable = group.phase is Phase.STABLE
            response |= {
                "group_state": group.phase.value,
                "protocol_type": group.protocol_type,
                "protocol_data": group.protocol if stable else "",
                "members": _members(group, stable=stable),
            }
        desk.answer(done, response)

    def delete(self, group_id: str, done: Done) -> None:
        desk = self._desk
        group = desk.find(group_id)
        code = Error.NONE
        if group is None:
            code = Error.GROUP_ID_NOT_FOUND
        elif group.phase is Phase.DEAD:
            code = Error.COORDINATOR_NOT_AVAILABLE
        elif group.phase is not Phase.EMPTY or group.pending:
            code = Error.NON_EMPTY_GROUP
        if group is None or code:
            return desk.answer(done, {"group_id": group_id, "error_code": code})
        gone = group
        gone.move(Event.DELETE)

        def deleted(code: Error) -> None:
            gone.move(Event.KEPT)
            if not code:
                desk.groups.pop(group_id, None)
            desk.answer(done, {"group_id": group_id, "error_code": code})

        return desk.append(gone, [GroupDropped(group_id)], deleted)


def describe_error(group_id: str, code: Error) -> Response:
    """A group of which nothing can be said."""
    return {
        "error_code": code,
        "group_id": group_id,
        "group_state": "",
        "protocol_type": "",
        "protocol_data": "",
        "members": [],
    }


def _members(group: Group, *, stable: bool) -> list[Response]:
    return [
        {
            "member_id": m.id,
            "group_instance_id": m.instance_id,
            "client_id": m.client_id,
            "client_host": m.client_host,
            "member_metadata": m.metadata(group.protocol) if stable else b"",
            "member_assignment": m.assignment if stable else b"",
        }
        for m in group.members.values()
    ]
