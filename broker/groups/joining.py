"""JoinGroup: new members, members that come again, and static members that come back under a new id."""

from __future__ import annotations

from quorate.broker.groups.answers import join_error, joined
from quorate.broker.groups.desk import Desk
from quorate.broker.groups.effects import Done
from quorate.broker.groups.group import Group, Member
from quorate.broker.groups.phases import Phase
from quorate.broker.groups.rebalance import Rebalancer
from quorate.broker.groups.requests import JoinRequest
from quorate.broker.groups.values import GroupStored, MemberInfo
from quorate.broker.protocol.kafka.errors import Error
from quorate.consensus.core.types import Millis


class Joining:
    """Decides what a JoinGroup means."""

    def __init__(self, desk: Desk, rebalancer: Rebalancer) -> None:
        self._desk = desk
        self._rebalancer = rebalancer

    def join(self, request: JoinRequest, done: Done) -> None:
        desk = self._desk
        settings = desk.settings
        if not settings.min_session_ms <= request.session_timeout_ms <= settings.max_session_ms:
            return desk.answer(done, join_error(Error.INVALID_SESSION_TIMEOUT, request.member_id))
        group = desk.find(request.group_id)
        if group is None:
            if request.member_id:
                return desk.answer(done, join_error(Error.UNKNOWN_MEMBER_ID, request.member_id))
            group = desk.make(request.group_id)
        code = self._refusal(group, request)
        if code:
            desk.answer(done, join_error(code, request.member_id))
        elif not request.member_id:
            self._newcomer(group, request, done)
        else:
            self._again(group, request, done)
        return None

    def _refusal(self, group: Group, request: JoinRequest) -> Error:
        if group.phase is Phase.DEAD:
            return Error.COORDINATOR_NOT_AVAILABLE
        if not self._has_room(group, request):
            group.pending.pop(request.member_id, None)
            return Error.GROUP_MAX_SIZE_REACHED
        if not group.accepts(request.protocol_type, request.protocols):
            return Error.INCONSISTENT_GROUP_PROTOCOL
        return Error.NONE

    def _has_room(self, group: Group, request: JoinRequest) -> bool:
        if request.member_id in group.members or request.group_instance_id in group.instances:
            return True
        if group.phase is Phase.PREPARING:
            # Members that do not come again make room.
            return sum(1 for _ in group.joined()) < self._desk.settings.max_group_size
        return len(group.members) < self._desk.settings.max_group_size

    def _newcomer(self, group: Group, request: JoinRequest, done: Done) -> None:
        instance = request.group_instance_id
        member_id = f"{instance or request.client_id}-{self._desk.new_id()}"
        if instance is not None and instance in group.instances:
            return self._come_back(group, group.members[group.instances[instance]], member_id, request, done)
        if instance is None and request.require_member_id:
            group.pending[member_id] = Millis(self._desk.now + request.session_timeout_ms)
            return self._desk.answer(done, join_error(Error.MEMBER_ID_REQUIRED, member_id))
        return self._add(group, member_id, request, done)

    def _again(self, group: Group, request: JoinRequest, done: Done) -> None:
        if request.member_id in group.pending and request.group_instance_id is None:
            return self._add(group, request.member_id, request, done)
        code = group.check(request.member_id, request.group_instance_id)
        if code:
            return self._desk.answer(done, join_error(code, request.member_id))
        member = group.members[request.member_id]
        same = member.says_the_same(request.protocols, group.protocol)
        if group.phase is Phase.COMPLETING and same:
            if group.announced:
                # Its answer was lost.
                member.touch(self._desk.now)
                self._update(member, request)
                return self._desk.answer(done, joined(group, member))
            return self._wait(member, request, done)
        if group.phase is Phase.STABLE and same and member.id != group.leader:
            member.touch(self._desk.now)
            self._update(member, request)
            return self._desk.answer(done, joined(group, member))
        self._wait(member, request, done)
        return self._rebalancer.prepare(group)

    def _add(self, group: Group, member_id: str, request: JoinRequest, done: Done) -> None:
        member = _new_member(member_id, request)
        if not group.members:
            group.protocol_type = request.protocol_type
        group.add(member)
        group.grew = True
        self._wait(member, request, done, is_new=True)
        self._rebalancer.prepare(group)

    def _wait(self, member: Member, request: JoinRequest, done: Done, *, is_new: bool = False) -> None:
        """The answer comes with the next generation."""
        # A client that asks twice has lost its first connection.
        self._rebalancer.dismiss(member, Error.REBALANCE_IN_PROGRESS)
        self._update(member, request)
        member.join_done = done
        member.is_new = member.is_new or is_new
        if member.is_new:
            member.expires = Millis(self._desk.now + self._desk.settings.new_member_join_ms)

    def _update(self, member: Member, request: JoinRequest) -> None:
        member.protocols, member.recalled = request.protocols, False
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.client_id, member.client_host = request.client_id, request.client_host

    def _come_back(self, group: Group, old: Member, member_id: str, request: JoinRequest, done: Done) -> None:
        """A static member has started anew: its new id takes the old one's place, with all its work."""
        same = old.says_the_same(request.protocols, group.protocol)
        led_before = group.leader
        new = _new_member(member_id, request)
        new.assignment = old.assignment
        self._rebalancer.dismiss(old, Error.FENCED_INSTANCE_ID)
        group.swap(old, new)
        new.touch(self._desk.now)
        if group.phase is Phase.STABLE and same and group.vote() == group.protocol:
            generation = group.generation
            self._desk.append(
                group,
                [GroupStored(group.name, group.info(assigned=True))],
                lambda code: self._came_back(group, new, generation, led_before, request, done, code),
            )
        else:
            self._wait(new, request, done, is_new=True)
            self._rebalancer.prepare(group)

    def _came_back(
        self, group: Group, member: Member, generation: int, led_before: str, request: JoinRequest, done: Done, code: Error
    ) -> None:
        if not code and group.members.get(member.id) is not member:
            code = Error.UNKNOWN_MEMBER_ID
        elif not code and group.generation != generation:
            code = Error.REBALANCE_IN_PROGRESS
        if code:
            return self._desk.answer(done, join_error(code))
        member.touch(self._desk.now)
        leads = member.id == group.leader
        if leads and not request.can_skip_assignment:
            # The old id is named as the leader, so that this client does not divide the work once more.
            return self._desk.answer(done, joined(group, member, leader=led_before))
        return self._desk.answer(done, joined(group, member, skip_assignment=leads))


def _new_member(member_id: str, request: JoinRequest) -> Member:
    info = MemberInfo(
        member_id,
        request.group_instance_id,
        request.client_id,
        request.client_host,
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
        b"",
        b"",
    )
    return Member(info, request.protocols)
