"""Who belongs to a group: voters, learners, and the two voter sets of a joint change.

A configuration is a value. It takes effect when the batch that holds it is appended, and is rolled back when that batch is
truncated; `History` remembers which configuration is in force at which offset.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from quorate.consensus.core import quorum
from quorate.consensus.core.errors import BadRequest
from quorate.consensus.core.types import Buffer, Offset, ReplicaId, incarnation_of, show_replica

_HEAD = struct.Struct("<BIIIII")
_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """The members of a group. Frozen, and checked when it is made.

    While `outgoing` is not empty the change is joint: every decision needs a majority of `voters` and of `outgoing`.
    `learners_next` are voters of the outgoing set that become learners when the change is left.
    `generation` is the highest incarnation that was ever a member: a new replica must have a higher one, so an id whose
    disk may have been lost is never trusted again.
    """

    voters: frozenset[ReplicaId]
    outgoing: frozenset[ReplicaId] = frozenset()
    learners: frozenset[ReplicaId] = frozenset()
    learners_next: frozenset[ReplicaId] = frozenset()
    generation: int = 0

    def __post_init__(self) -> None:
        if self.learners & (self.voters | self.outgoing):
            raise ValueError("a replica cannot be a voter and a learner at once")
        if not self.learners_next <= self.outgoing - self.voters:
            raise ValueError("only a leaving voter can become a learner next")
        highest = max((incarnation_of(replica) for replica in self.members), default=0)
        if self.generation < highest:
            object.__setattr__(self, "generation", highest)

    @cached_property
    def members(self) -> frozenset[ReplicaId]:
        """Everybody who gets the log."""
        return self.voters | self.outgoing | self.learners

    @cached_property
    def electors(self) -> frozenset[ReplicaId]:
        """Everybody whose vote counts in either set."""
        return self.voters | self.outgoing

    @property
    def joint(self) -> bool:
        """Whether a change is half done."""
        return bool(self.outgoing)

    def reached(self, value_of: Callable[[ReplicaId], int], floor: int) -> int:
        """The highest value that a quorum has reached."""
        return quorum.joint_reached(self.voters, self.outgoing, value_of, floor)

    def tally(self, votes: Mapping[ReplicaId, bool]) -> quorum.Outcome:
        """How an election stands."""
        return quorum.joint_tally(self.voters, self.outgoing, votes)

    def change(self, voters: Collection[ReplicaId], learners: Collection[ReplicaId]) -> Configuration:
        """The configuration that begins the change to these members: joint if the voters differ.

        Raises BadRequest for a change that can never be made.
        """
        new_voters, new_learners = frozenset(voters), frozenset(learners)
        if self.joint:
            raise BadRequest("a joint change has to be left before the next one")
        if not new_voters:
            raise BadRequest("a group needs at least one voter")
        if new_voters & new_learners:
            raise BadRequest("a replica cannot be a voter and a learner at once")
        strangers = new_voters - self.members
        if strangers:
            names = ", ".join(map(show_replica, sorted(strangers)))
            raise BadRequest(f"new replicas start as learners; not members yet: {names}")
        for replica in sorted(new_learners - self.members):
            if incarnation_of(replica) <= self.generation:
                raise BadRequest(
                    f"replica {show_replica(replica)} may have been used before: a new one needs an incarnation "
                    f"above {self.generation}"
                )
        if new_voters == self.voters:
            return Configuration(voters=new_voters, learners=new_learners, generation=self.generation)
        demoted = new_learners & self.voters
        return Configuration(
            voters=new_voters,
            outgoing=self.voters,
            learners=new_learners - demoted,
            learners_next=demoted,
            generation=self.generation,
        )

    def leave(self) -> Configuration:
        """The configuration that ends a joint change."""
        return Configuration(voters=self.voters, learners=self.learners | self.learners_next, generation=self.generation)

    def encode(self) -> bytes:
        """The bytes of a configuration batch: a head with counts, then the ids in order."""
        sets = (self.voters, self.outgoing, self.learners, self.learners_next)
        ids = [replica for members in sets for replica in sorted(members)]
        return _HEAD.pack(_FORMAT, self.generation, *map(len, sets)) + struct.pack(f"<{len(ids)}Q", *ids)

    @classmethod
    def decode(cls, data: Buffer) -> Configuration:
        """The inverse of `encode`. Raises ValueError for anything that `encode` cannot have written."""
        if len(data) < _HEAD.size:
            raise ValueError("a configuration is shorter than its head")
        version, generation, *counts = _HEAD.unpack_from(data)
        if version != _FORMAT:
            raise ValueError(f"configuration format {version} is not known")
        if len(data) != _HEAD.size + 8 * sum(counts):
            raise ValueError("a configuration's length does not fit its counts")
        ids = iter(struct.unpack_from(f"<{sum(counts)}Q", data, _HEAD.size))
        sets = [frozenset(ReplicaId(next(ids)) for _ in range(count)) for count in counts]
        if [len(members) for members in sets] != counts:
            raise ValueError("a configuration names a replica twice")
        voters, outgoing, learners, learners_next = sets
        return cls(voters=voters, outgoing=outgoing, learners=learners, learners_next=learners_next, generation=generation)

    def __str__(self) -> str:
        def names(members: Iterable[ReplicaId]) -> str:
            return " ".join(map(show_replica, sorted(members)))

        text = f"voters({names(self.voters)})"
        if self.outgoing:
            text += f" outgoing({names(self.outgoing)})"
        if self.learners:
            text += f" learners({names(self.learners)})"
        if self.learners_next:
            text += f" learners-next({names(self.learners_next)})"
        return text


class History:
    """Which configuration is in force from which offset on. Follows the log: append, truncate, compact."""

    __slots__ = ("_configurations", "_offsets")

    # Parallel lists, offsets rise strictly. The first entry is the one in force at the log's start.
    def __init__(self, start: Offset, configuration: Configuration) -> None:
        self._offsets: list[Offset] = [start]
        self._configurations: list[Configuration] = [configuration]

    @property
    def current(self) -> Configuration:
        """The last one in the log, committed or not: the one that counts."""
        return self._configurations[-1]

    @property
    def current_offset(self) -> Offset:
        """Where the current one was appended."""
        return self._offsets[-1]

    def at(self, offset: Offset) -> Configuration:
        """The one in force after the batch that ends at `offset`."""
        return self._configurations[max(0, bisect_right(self._offsets, offset) - 1)]

    def append(self, offset: Offset, configuration: Configuration) -> None:
        self._offsets.append(offset)
        self._configurations.append(configuration)

    def truncate(self, last: Offset) -> bool:
        """Roll back configurations after `last`; whether the current one changed."""
        keep = max(1, bisect_right(self._offsets, last))
        changed = keep < len(self._offsets)
        del self._offsets[keep:]
        del self._configurations[keep:]
        return changed

    def compact(self, start: Offset) -> None:
        drop = max(0, bisect_right(self._offsets, start) - 1)
        del self._offsets[:drop]
        del self._configurations[:drop]
