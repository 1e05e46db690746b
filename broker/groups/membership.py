"""SyncGroup, Heartbeat and LeaveGroup: what members do between two joins."""

from __future__ import annotations

from collections.abc import Sequence

from quorate.broker.groups.answers import sync_error, synced
from quorate.broker.groups.desk import Desk
from quorate.broker.groups.effects import Done, Response
from quorate.broker.groups.group import Group, Member
from quorate.broker.groups.phases import Event, Phase
from quorate.broker.groups.rebalance import Rebalancer
from quorate.broker.groups.requests import Identity, Leaver, SyncRequest
from quorate.broker.groups.values import GroupStored
from quorate.broker.protocol.kafka.errors import Error
from quorate.consensus.core.types import FAR


class Membership:
    """Decides what members' requests mean."""

    def __init__(self, desk: Desk, rebalancer: Rebalancer) -> None:
        self._desk = desk
        self._rebalancer = rebalancer

    def sync(self, request: SyncRequest, done: Done) -> None:
        desk = self._desk
        group = desk.find(request.group_id)
        code = check_member(group, request.member)
        if group is None or code:
            return desk.answer(done, sync_error(code))
        if not _same_protocol(group, request):
            return desk.answer(done, sync_error(Error.INCONSISTENT_GROUP_PROTOCOL))
        member = group.members[request.member.member_id]
        if group.phase is Phase.STABLE:
            member.must_sync = False
            member.touch(desk.now)
            desk.answer(done, synced(group, member))
        elif group.phase is Phase.COMPLETING and group.announced:
            self._await_assignment(group, member, request, done)
        else:
            desk.answer(done, sync_error(Error.REBALANCE_IN_PROGRESS))
        return None

    def _await_assignment(self, group: Group, member: Member, request: SyncRequest, done: Done) -> None:
        self._rebalancer.dismiss(member, Error.REBALANCE_IN_PROGRESS)
        member.sync_done = done
        member.must_sync = False
        if member.id != group.leader or group.storing:
            return
        group.storing = True
        generation = group.generation
        info = group.info(assigned=True, assignments=request.assignments)
        assignments = {known.id: known.assignment for known in info.members}
        self._desk.append(
            group, [GroupStored(group.name, info)], lambda code: self._assigned(group, generation, assignments, code)
        )

    def _assigned(self, group: Group, generation: int, assignments: dict[str, bytes], code: Error) -> None:
        if group.phase is not Phase.COMPLETING or group.generation != generation:
            return  # A rebalance has begun, and has told everybody.
        group.storing = False
        if code:
            # Not tried again in this generation: should the append have happened after all, there would be two assignments.
            for member in list(group.members.values()):
                self._rebalancer.dismiss(member, code)
            return self._rebalancer.prepare(group)
        group.move(Event.ASSIGNED)
        for member in group.members.values():
            member.assignment = assignments.get(member.id, b"")
            if member.sync_done is not None:
                self._desk.answer(member.sync_done, synced(group, member))
                member.sync_done = None
                member.touch(self._desk.now)
        if not any(member.must_sync for member in group.members.values()):
            group.sync_deadline = FAR
        return None

    def heartbeat(self, group_id: str, identity: Identity, done: Done) -> None:
        group = self._desk.find(group_id)
        code = check_member(group, identity)
        if group is not None and not code:
            group.members[identity.member_id].touch(self._desk.now)
            if group.phase is Phase.PREPARING:
                code = Error.REBALANCE_IN_PROGRESS
        self._desk.answer(done, {"error_code": code})

    def leave(self, group_id: str, leavers: Sequence[Leaver], done: Done, *, batched: bool) -> None:
        group = self._desk.find(group_id)
        members: list[Response] = []
        for leaver in leavers:
            code = Error.UNKNOWN_MEMBER_ID if group is None else self._leave(group, leaver)
            members.append({**leaver._asdict(), "error_code": code})
        top = Error.NONE if batched or not members else members[0]["error_code"]
        self._desk.answer(done, {"error_code": top, "members": members})

    def _leave(self, group: Group, leaver: Leaver) -> Error:
        member_id, instance_id = leaver
        if group.phase is Phase.DEAD:
            return Error.COORDINATOR_NOT_AVAILABLE
        if instance_id is None and group.pending.pop(member_id, None) is not None:
            self._rebalancer.proceed(group)
            return Error.NONE
        if instance_id is not None and not member_id:
            # An operator removes a static member without knowing its id.
            member_id = group.instances.get(instance_id, "")
        code = group.check(member_id, instance_id)
        if not code:
            self._rebalancer.remove(group, group.members[member_id])
        return code


def check_member(group: Group | None, identity: Identity) -> Error:
    """Whether it is a member of the current generation that speaks."""
    if group is None:
        return Error.UNKNOWN_MEMBER_ID
    if group.phase is Phase.DEAD:
        return Error.COORDINATOR_NOT_AVAILABLE
    code = group.check(identity.member_id, identity.group_instance_id)
    if not code and identity.generation_id != group.generation:
        code = Error.ILLEGAL_GENERATION
    return code


def _same_protocol(group: Group, request: SyncRequest) -> bool:
    return request.protocol_type in (None, group.protocol_type) and request.protocol_name in (None, group.protocol)
