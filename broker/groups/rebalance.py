"""From one generation to the next: gathering the members, announcing the generation, and whoever falls out on the way."""

from __future__ import annotations

from quorate.broker.groups.answers import join_error, joined, sync_error
from quorate.broker.groups.desk import Desk
from quorate.broker.groups.group import Group, Member
from quorate.broker.groups.phases import Event, Phase
from quorate.broker.groups.values import GroupStored
from quorate.broker.protocol.kafka.errors import Error
from quorate.consensus.core.types import FAR, Millis


class Rebalancer:
    """Moves groups from generation to generation."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def prepare(self, group: Group) -> None:
        """Ask all members to join again, unless that is being done already; go on at once if all have."""
        desk = self._desk
        if group.phase is not Phase.PREPARING:
            self._refuse_syncs(group, Error.REBALANCE_IN_PROGRESS)
            was_empty = group.phase is Phase.EMPTY
            group.move(Event.REBALANCE)
            group.sync_deadline, group.storing = FAR, False
            group.grew = False
            if was_empty and desk.settings.initial_delay_ms:
                group.initial_until = Millis(desk.now + desk.settings.initial_delay_max_ms)
                group.join_deadline = Millis(desk.now + desk.settings.initial_delay_ms)
            else:
                group.join_deadline = Millis(desk.now + group.rebalance_timeout_ms())
        self.proceed(group)

    def proceed(self, group: Group) -> None:
        """Complete the join phase if nobody is missing. A group's first members wait for the delay instead."""
        if group.phase is Phase.PREPARING and group.initial_until is None and group.all_joined():
            self._complete(group)

    def remove(self, group: Group, member: Member, code: Error = Error.UNKNOWN_MEMBER_ID) -> None:
        """A member left, or is given up. The others share its work."""
        self.dismiss(member, code)
        group.drop(member)
        if group.phase in (Phase.STABLE, Phase.COMPLETING):
            self.prepare(group)
        else:
            self.proceed(group)

    def dismiss(self, member: Member, code: Error) -> None:
        """Answer whatever a member waits for with an error."""
        join_done, sync_done = member.join_done, member.sync_done
        member.join_done = member.sync_done = None
        member.touch(self._desk.now)
        if join_done is not None:
            self._desk.answer(join_done, join_error(code))
        if sync_done is not None:
            self._desk.answer(sync_done, sync_error(code))

    def expire(self, group: Group) -> None:
        """Do what the time demands."""
        now = self._desk.now
        for pending in [pending for pending, at in group.pending.items() if at <= now]:
            del group.pending[pending]
        for member in [m for m in group.members.values() if m.deadline() <= now]:
            self.remove(group, member)
        if group.sync_deadline <= now:
            group.sync_deadline = FAR
            for member in [m for m in group.members.values() if m.must_sync]:
                if group.members.get(member.id) is member:
                    self.remove(group, member)
        if group.join_deadline <= now:
            self._waited(group)
        self.proceed(group)

    def _waited(self, group: Group) -> None:
        desk, settings = self._desk, self._desk.settings
        until = group.initial_until
        if until is not None and (group.grew or group.pending) and desk.now < until:
            group.grew = False
            group.join_deadline = Millis(min(desk.now + settings.initial_delay_ms, until))
        else:
            self._complete(group)

    def _complete(self, group: Group) -> None:
        """The join phase is over: whoever did not join is out, except for static members, whose sessions go on."""
        group.join_deadline, group.initial_until = FAR, None
        for member in [m for m in group.members.values() if m.join_done is None and m.instance_id is None]:
            group.drop(member)
        if not group.members:
            return self._emptied(group)
        joiners = list(group.joined())
        if not joiners:
            # All that is left are static members that are away: nobody could divide the work.
            group.join_deadline = Millis(self._desk.now + group.rebalance_timeout_ms())
            return None
        if all(m.id != group.leader for m in joiners):
            group.leader = joiners[0].id
        group.move(Event.JOINED)
        group.generation += 1
        group.protocol = group.vote()
        group.announced = False
        generation = group.generation
        # Written before anybody hears of it: a new coordinator can then never give out the same generation again.
        self._desk.append(
            group, [GroupStored(group.name, group.info(assigned=False))], lambda code: self._stored(group, generation, code)
        )
        return None

    def _emptied(self, group: Group) -> None:
        group.move(Event.EMPTIED)
        group.generation += 1
        group.protocol = group.leader = ""
        if self._desk.state.info(group.name) is not None or group.appends:
            # Nobody waits for this one. If it is lost, the members that the log still has will expire.
            self._desk.append(group, [GroupStored(group.name, group.info(assigned=False))], lambda _: None)

    def _stored(self, group: Group, generation: int, code: Error) -> None:
        if group.phase is not Phase.COMPLETING or group.generation != generation:
            return  # The next rebalance has begun, and has the waiting members already.
        if code:
            for member in list(group.members.values()):
                self.dismiss(member, code)
            return self.prepare(group)
        group.announced = True
        now = self._desk.now
        group.sync_deadline = Millis(now + group.rebalance_timeout_ms())
        for member in group.members.values():
            member.must_sync = False
            if member.join_done is not None:
                self._desk.answer(member.join_done, joined(group, member))
                member.join_done, member.is_new, member.must_sync = None, False, True
                member.touch(now)
        return None

    def _refuse_syncs(self, group: Group, code: Error) -> None:
        for member in group.members.values():
            member.must_sync = False
            if member.sync_done is not None:
                self._desk.answer(member.sync_done, sync_error(code))
                member.sync_done = None
                member.touch(self._desk.now)
