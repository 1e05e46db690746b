"""Consumer groups: from Kafka's messages, in all their versions, to the coordinator of the group and back.

Coordinators answer by callback, so nothing here is a coroutine. Requests that name several groups go to the coordinator of
each and are answered when the last one has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quorate.broker.groups import Identity, JoinRequest, Leaver, SyncRequest
from quorate.broker.groups.admin import describe_error
from quorate.broker.groups.answers import join_error, sync_error
from quorate.broker.kafka.backend import KafkaFailure
from quorate.broker.kafka.context import NO_OPERATIONS, Call, Context, Message
from quorate.broker.protocol.kafka.errors import Error

Reply = Callable[[Message], None]

_MEMBER_IDS_FROM, _SKIP_FROM, _BATCHED_LEAVE_FROM = 4, 9, 3


# Membership.


def join_group(context: Context, call: Call, message: Message, reply: Reply) -> None:
    """JoinGroup. The answer comes when the group has gathered."""
    request = JoinRequest(
        group_id=message["group_id"],
        session_timeout_ms=message["session_timeout_ms"],
        rebalance_timeout_ms=message["rebalance_timeout_ms"] if call.version >= 1 else message["session_timeout_ms"],
        protocol_type=message["protocol_type"],
        protocols=tuple((protocol["name"], bytes(protocol["metadata"])) for protocol in message["protocols"]),
        member_id=message["member_id"],
        group_instance_id=message.get("group_instance_id"),
        client_id=call.client_id,
        client_host=f"/{call.host}",
        require_member_id=call.version >= _MEMBER_IDS_FROM,
        can_skip_assignment=call.version >= _SKIP_FROM,
    )
    try:
        context.backend.groups(request.group_id).join(request, reply)
    except KafkaFailure as failure:
        reply(join_error(Error(failure.error), request.member_id))


def sync_group(context: Context, call: Call, message: Message, reply: Reply) -> None:
    """SyncGroup. The answer comes when the leader has divided the work."""
    request = SyncRequest(
        group_id=message["group_id"],
        member=_identity(message),
        assignments={one["member_id"]: bytes(one["assignment"]) for one in message["assignments"]},
        protocol_type=message.get("protocol_type"),
        protocol_name=message.get("protocol_name"),
    )
    try:
        context.backend.groups(request.group_id).sync(request, reply)
    except KafkaFailure as failure:
        reply(sync_error(Error(failure.error)))


def heartbeat(context: Context, call: Call, message: Message, reply: Reply) -> None:
    """Heartbeat."""
    try:
        context.backend.groups(message["group_id"]).heartbeat(message["group_id"], _identity(message), reply)
    except KafkaFailure as failure:
        reply({"error_code": int(failure.error)})


def leave_group(context: Context, call: Call, message: Message, reply: Reply) -> None:
    """LeaveGroup: one member, from version 3 on several."""
    batched = call.version >= _BATCHED_LEAVE_FROM
    members = message["members"] if batched else [message]
    leavers = [Leaver(member["member_id"], member.get("group_instance_id")) for member in members]
    try:
        context.backend.groups(message["group_id"]).leave(message["group_id"], leavers, reply, batched=batched)
    except KafkaFailure as failure:
        reply({"error_code": int(failure.error), "members": []})


def _identity(message: Message) -> Identity:
    return Identity(message["member_id"], message["generation_id"], message.get("group_instance_id"))


# Looking at groups, and deleting them.


def describe_groups(context: Context, call: Call, message: Message, reply: Reply) -> None:
    """DescribeGroups."""

    def answer(groups: Sequence[Message]) -> None:
        reply({"groups": [{**group, "authorized_operations": NO_OPERATIONS} for group in groups]})

    names = message["groups"]
    gathering = Gathering(len(names), answer)
    for place, name in enumerate(names):
        try:
            context.backend.groups(name).describe_group(name, gathering.slot(place))
        except KafkaFailure as failure:
            gathering.slot(place)(describe_error(name, Error(failure.error)))


def list_groups(context: Context, call: Call, message: Message, reply: Reply) -> None:
    """ListGroups: those that are coordinated here, in some states or in all."""

    def answer(parts: Sequence[Message]) -> None:
        errors = [part["error_code"] for part in parts if part["error_code"]]
        groups = [
            {"group_id": group["group_id"], "protocol_type": group["protocol_type"], "group_state": group["group_state"]}
            for part in parts
            for group in part["groups"]
        ]
        reply({"error_code": errors[0] if errors else 0, "groups": groups})

    coordinators = context.backend.all_groups()
    gathering = Gathering(len(coordinators), answer)
    for place, coordinator in enumerate(coordinators):
        coordinator.list_groups(message.get("states_filter") or (), gathering.slot(place))


def delete_groups(context: Context, call: Call, message: Message, reply: Reply) -> None:
    """DeleteGroups."""
    names = message["groups_names"]
    gathering = Gathering(len(names), lambda results: reply({"results": list(results)}))
    for place, name in enumerate(names):
        try:
            context.backend.groups(name).delete_group(name, gathering.slot(place))
        except KafkaFailure as failure:
            gathering.slot(place)({"group_id": name, "error_code": int(failure.error)})


class Gathering:
    """Several answers that come in any order, and what is done with all of them in order."""

    __slots__ = ("_answers", "_then", "_waiting")

    def __init__(self, count: int, then: Callable[[Sequence[Message]], None]) -> None:
        self._answers: list[Message] = [{}] * count
        self._waiting = count
        self._then = then
        if not count:
            then([])

    def slot(self, place: int) -> Reply:
        """The callback for one of them."""

        def put(answer: Message) -> None:
            self._answers[place] = answer
            self._waiting -= 1
            if not self._waiting:
                self._then(self._answers)

        return put
