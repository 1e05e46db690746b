"""A group as its coordinator sees it while it leads: members, their sessions and what they wait for. Not replicated.

State and small questions about it; `rebalance` and the others decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from quorate.broker.groups.effects import Done
from quorate.broker.groups.phases import Event, Phase, after
from quorate.broker.groups.values import GroupInfo, MemberInfo
from quorate.broker.protocol.kafka.errors import Error
from quorate.consensus.core.types import FAR, Millis

Protocols = tuple[tuple[str, bytes], ...]
"""Names of protocols and what the member says under each, the best liked first."""


class Member:
    """One member. It waits for at most one thing: its join's answer or its sync's."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "expires",
        "id",
        "instance_id",
        "is_new",
        "join_done",
        "must_sync",
        "protocols",
        "rebalance_timeout_ms",
        "recalled",
        "session_timeout_ms",
        "sync_done",
    )

    def __init__(self, info: MemberInfo, protocols: Protocols, *, recalled: bool = False) -> None:
        self.id = info.id
        self.instance_id = info.instance_id
        self.client_id = info.client_id
        self.client_host = info.client_host
        self.session_timeout_ms = info.session_timeout_ms
        self.rebalance_timeout_ms = info.rebalance_timeout_ms
        self.assignment = info.assignment
        self.protocols = protocols
        self.recalled = recalled
        """It comes from the log, which knows only the protocol that was chosen."""
        self.join_done: Done | None = None
        self.sync_done: Done | None = None
        self.is_new = False
        self.must_sync = False
        """It was told of the generation and has not asked for its assignment yet."""
        self.expires: Millis = FAR

    def metadata(self, protocol: str) -> bytes:
        """What it says under a protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def says_the_same(self, protocols: Protocols, chosen: str) -> bool:
        """Whether a join with these changes nothing."""
        if self.recalled:
            return self.protocols == tuple(protocol for protocol in protocols if protocol[0] == chosen)
        return self.protocols == protocols

    def touch(self, now: Millis) -> None:
        """It gave a sign of life."""
        self.expires = Millis(now + self.session_timeout_ms)

    def deadline(self) -> Millis:
        """When its session ends. A client that waits for us sends no heartbeats; but a new one must not wait for ever."""
        waits = self.join_done is not None or self.sync_done is not None
        return FAR if waits and not self.is_new else self.expires


class Group:
    """One group. Invariant: `instances` names exactly the members that have an instance id; only `move` sets the phase."""

    __slots__ = (
        "announced",
        "appends",
        "generation",
        "grew",
        "initial_until",
        "instances",
        "join_deadline",
        "leader",
        "members",
        "name",
        "pending",
        "phase",
        "protocol",
        "protocol_type",
        "scheduled",
        "storing",
        "sync_deadline",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.phase = Phase.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol = ""
        self.leader = ""
        self.members: dict[str, Member] = {}
        self.instances: dict[str, str] = {}
        self.pending: dict[str, Millis] = {}
        """Ids that were given out and have not joined yet, and when they lapse."""
        self.announced = True
        """The current generation is in the log: members may hear of it."""
        self.storing = False
        """The current generation's assignment is on its way into the log."""
        self.join_deadline: Millis = FAR
        self.initial_until: Millis | None = None
        """Set while a group that was empty waits for its first members, to the longest that it will."""
        self.grew = False
        self.sync_deadline: Millis = FAR
        self.scheduled: Millis = FAR
        """The deadline that the coordinator's heap has for this group."""
        self.appends = 0
        """How many of its appends are under way."""

    def move(self, event: Event) -> None:
        """The one way from phase to phase."""
        self.phase = after(self.phase, event)

    def recall(self, info: GroupInfo, now: Millis) -> None:
        """Take up what the log says about the group; all members get a full session."""
        self.generation, self.protocol_type, self.protocol, self.leader = info[:4]
        for known in info.members:
            member = Member(known, ((info.protocol, known.metadata),), recalled=True)
            member.touch(now)
            member.must_sync = not info.assigned and known.instance_id is None
            self.add(member)
        if info.members:
            self.phase = Phase.STABLE if info.assigned else Phase.COMPLETING
            if not info.assigned:
                self.sync_deadline = Millis(now + self.rebalance_timeout_ms())

    def info(self, *, assigned: bool, assignments: dict[str, bytes] | None = None) -> GroupInfo:
        """The current generation as it is written to the log."""
        return GroupInfo(
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader,
            assigned,
            tuple(
                MemberInfo(
                    m.id,
                    m.instance_id,
                    m.client_id,
                    m.client_host,
                    m.session_timeout_ms,
                    m.rebalance_timeout_ms,
                    m.metadata(self.protocol),
                    (m.assignment if assignments is None else assignments.get(m.id, b"")) if assigned else b"",
                )
                for m in self.members.values()
            ),
        )

    def add(self, member: Member) -> None:
        self.members[member.id] = member
        self.pending.pop(member.id, None)
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.id

    def drop(self, member: Member) -> None:
        del self.members[member.id]
        if member.instance_id is not None:
            del self.instances[member.instance_id]

    def swap(self, old: Member, new: Member) -> None:
        """A static member came back under a new id; it keeps its place, and the lead if it had it."""
        self.members = {(new.id if m is old else m.id): (new if m is old else m) for m in self.members.values()}
        if new.instance_id is not None:
            self.instances[new.instance_id] = new.id
        if self.leader == old.id:
            self.leader = new.id

    def check(self, member_id: str, instance_id: str | None) -> Error:
        """Whether this is a member, and not one that was replaced."""
        if instance_id is not None:
            known = self.instances.get(instance_id)
            if known is None:
                return Error.UNKNOWN_MEMBER_ID
            if known != member_id:
                return Error.FENCED_INSTANCE_ID
        return Error.NONE if member_id in self.members else Error.UNKNOWN_MEMBER_ID

    def common_protocols(self) -> set[str]:
        """The protocols that all members know."""
        known = [{name for name, _ in m.protocols} for m in self.members.values()]
        return set.intersection(*known) if known else set()

    def accepts(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member that speaks these could work with the others."""
        if not protocol_type or not protocols:
            return False
        if not self.members:
            return True
        return protocol_type == self.protocol_type and not self.common_protocols().isdisjoint(n for n, _ in protocols)

    def vote(self) -> str:
        """The protocol that all know and most like best."""
        common = self.common_protocols()
        votes = Counter(next(name for name, _ in m.protocols if name in common) for m in self.members.values())
        return max(sorted(votes), key=votes.__getitem__)

    def rebalance_timeout_ms(self) -> int:
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def joined(self) -> Iterator[Member]:
        """Members that wait for the next generation."""
        return (m for m in self.members.values() if m.join_done is not None)

    def all_joined(self) -> bool:
        return not self.pending and all(m.join_done is not None for m in self.members.values())

    def deadline(self) -> Millis:
        """When something has to be done about this group."""
        return min(
            self.join_deadline,
            self.sync_deadline,
            min(self.pending.values(), default=FAR),
            min((m.deadline() for m in self.members.values()), default=FAR),
        )
