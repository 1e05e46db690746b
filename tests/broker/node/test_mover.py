"""Moves as groups' leaders carry them out: they end as done or as cancelled, whatever comes late."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Collection, Coroutine
from typing import Any, NamedTuple, cast

import pytest

from quorate.broker.cluster import commands as c
from quorate.broker.cluster.directory import Directory
from quorate.broker.cluster.service import Metadata
from quorate.broker.cluster.state import ClusterState, Refused
from quorate.broker.cluster.values import PartitionInfo
from quorate.broker.node.moving import Mover, caught_up
from quorate.consensus.core import Configuration, GroupId, Millis, NodeId, Offset, ReplicaId, node_of, replica_id
from quorate.consensus.core.errors import BadRequest
from quorate.consensus.core.types import incarnation_of
from quorate.consensus.runtime import BadInput, FollowerStatus, MultiRaft, OperationFailed
from tests.broker.cluster.test_state import cluster, create

GROUP = GroupId(1)
PATIENCE_MS = 500


class Commit(NamedTuple):
    commit: Offset


class Town:
    """One group as it really is, the metadata as it really is, and what was proposed and is not applied yet."""

    def __init__(self) -> None:
        self.state = cluster(6)
        self.state.judge(create("q", ((1, 2, 3),)))
        self.log: list[c.Command] = []
        self.late: deque[c.Command] = deque()
        self.group = Configuration(voters=frozenset(self.partition.replicas))
        self.leader = 0
        self.dead: set[NodeId] = set()
        self.slow: set[ReplicaId] = set()

    @property
    def partition(self) -> PartitionInfo:
        return self.state.queues["q"].partitions[0]

    def apply(self, command: c.Command) -> None:
        """What a command in the log does; those that every node applies are remembered for those that lag."""
        before = self.partition
        try:
            self.state.judge(command)
        except Refused:
            return
        self.log.append(command)
        if isinstance(command, c.EndMove):
            assert before.target is not None
            voters = frozenset(before.replicas if command.cancel else before.target)
            assert self.group.voters == voters, "the metadata names other replicas than vote"
            assert not self.group.joint
            assert not self.group.learners
            assert all(incarnation_of(one) <= self.group.generation for one in before.coming), "it could still come"
        self.state.check_invariants()


class Runtime:
    """One node's view of the group: the truth while it leads, and what it last saw when it does not know that it is over."""

    def __init__(self, town: Town, me: int) -> None:
        self._town = town
        self._me = me
        self._seen = town.group

    def look(self) -> Configuration:
        if self._town.leader == self._me:
            self._seen = self._town.group
        return self._seen

    def configuration(self, group: GroupId) -> Configuration:
        return self.look()

    def settled(self, group: GroupId) -> bool:
        return not self.look().joint

    def status(self, group: GroupId) -> Commit:
        return Commit(Offset(100))

    def followers(self, group: GroupId) -> dict[ReplicaId, FollowerStatus]:
        town = self._town
        return {
            one: FollowerStatus(Offset(10 if one in town.slow else 100), True, 10_000 if node_of(one) in town.dead else 1)
            for one in self.look().members
        }

    async def change_members(
        self, group: GroupId, voters: Collection[ReplicaId], learners: Collection[ReplicaId] = ()
    ) -> None:
        town = self._town
        if town.leader != self._me:
            raise OperationFailed("another one leads")
        try:
            changed = town.group.change(voters, learners)
        except BadRequest as error:
            raise BadInput(str(error)) from error
        town.group = changed.leave() if changed.joint else changed


class Late:
    """The metadata as one node knows it, which may lag behind, and as it changes it, which may be late."""

    def __init__(self, town: Town) -> None:
        self._town = town
        self.state = ClusterState()
        self.state.load(Offset(0), town.state.save())
        self._applied = len(town.log)

    def catch_up(self, count: int) -> None:
        for command in self._town.log[self._applied : self._applied + count]:
            self.state.judge(command)
            self._applied += 1

    async def change(self, command: c.Command, timeout_s: float) -> int:
        self._town.late.append(command)
        return 0


class Place:
    """A node that may lead the group."""

    def __init__(self, town: Town, me: int) -> None:
        self.runtime, self.metadata = Runtime(town, me), Late(town)
        self.mover = Mover(
            cast(MultiRaft, self.runtime),
            cast(Metadata, self.metadata),
            Directory(NodeId(me), Millis(0), 1, 2),
            lambda: False,
            lambda: Millis(0),
            PATIENCE_MS,
        )

    async def step(self) -> None:
        await self.mover.step([GROUP])


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


async def settle(town: Town, *places: Place) -> None:
    for _ in range(20):
        for place in places:
            place.metadata.catch_up(100)
            await place.step()
        while town.late:
            town.apply(town.late.popleft())


def begin(town: Town, *nodes: int) -> tuple[ReplicaId, ...]:
    town.apply(c.BeginMove(token="", group=GROUP, nodes=nodes))
    assert town.partition.target is not None
    return town.partition.target


def test_a_move_goes_by_learners_and_ends() -> None:
    async def main() -> None:
        town = Town()
        place = Place(town, 0)
        target = begin(town, 4, 2, 3)
        town.slow.add(target[0])
        await settle(town, place)
        assert town.group.learners == {target[0]}, "it has not caught up"
        town.slow.clear()
        await settle(town, place)
        assert town.partition.replicas == target
        assert town.group.voters == frozenset(target)

    run(main())


def test_a_learner_that_is_silent_does_not_become_a_voter() -> None:
    async def main() -> None:
        town = Town()
        place = Place(town, 0)
        target = begin(town, 4, 2, 3)
        town.dead.add(NodeId(4))
        await settle(town, place)
        assert town.group.learners == {target[0]}
        town.apply(c.CancelMove(token="", group=GROUP, target=target))
        await settle(town, place)
        assert town.partition.target is None
        assert town.partition.nodes == (1, 2, 3)
        assert town.group.members == frozenset(town.partition.replicas)
        begin(town, 5, 2, 3)
        await settle(town, place)
        assert town.partition.nodes == (5, 2, 3)

    run(main())


def test_a_move_that_was_cancelled_before_it_began_leaves_a_configuration_that_never_takes_its_target() -> None:
    async def main() -> None:
        town = Town()
        target = begin(town, 4, 2, 3)
        unaware, place = Place(town, 1), Place(town, 0)
        town.apply(c.CancelMove(token="", group=GROUP, target=target))
        await settle(town, place)
        assert town.partition.target is None
        town.leader = 1
        for _ in range(5):
            await unaware.step()
        assert town.group.members == frozenset(town.partition.replicas), "who has not heard of it cannot go on"

    run(main())


def test_a_move_that_is_done_when_it_is_cancelled_ends_as_done() -> None:
    async def main() -> None:
        town = Town()
        place = Place(town, 0)
        target = begin(town, 4, 2, 3)
        place.metadata.catch_up(9)
        for _ in range(3):
            await place.step()
        assert town.group.voters == frozenset(target)
        town.late.clear()
        town.apply(c.CancelMove(token="", group=GROUP, target=target))
        await settle(town, place)
        assert town.partition.replicas == target
        assert town.partition.target is None

    run(main())


@pytest.mark.parametrize("seed", range(150))
def test_leaders_that_change_and_lag_never_contradict_the_group(seed: int) -> None:
    """Nobody knows what the others do: commands come late, metadata lags, and a leader may not know that it is none."""

    async def main() -> None:
        draw, town = random.Random(seed), Town()
        places = [Place(town, me) for me in range(3)]
        for _ in range(120):
            what = draw.random()
            place = draw.choice(places)
            if what < 0.4:
                await place.step()
            elif what < 0.6:
                place.metadata.catch_up(draw.randint(1, 3))
            elif what < 0.75 and town.late:
                town.late.rotate(draw.randint(0, 2))
                town.apply(town.late.popleft())
            elif what < 0.83:
                town.leader = draw.randrange(3)
            elif what < 0.9:
                nodes = tuple(draw.sample(range(1, 7), 3))
                town.apply(c.BeginMove(token="", group=GROUP, nodes=nodes))
            elif what < 0.96 and town.partition.target is not None:
                town.apply(c.CancelMove(token="", group=GROUP, target=town.partition.target))
            else:
                town.dead = set(map(NodeId, draw.sample(range(1, 7), draw.randint(0, 2))))
        town.dead = set()
        await settle(town, *places)
        assert town.partition.target is None
        assert town.group.voters == frozenset(town.partition.replicas)

    run(main())


def test_who_lags_or_is_silent_has_not_caught_up() -> None:
    async def main() -> None:
        town = Town()
        runtime = cast(MultiRaft, Runtime(town, 0))
        two = replica_id(2)
        assert await caught_up(runtime, GROUP, [two], PATIENCE_MS)
        town.slow = {two}
        assert not await caught_up(runtime, GROUP, [two], PATIENCE_MS)
        town.slow = set()
        town.dead = {NodeId(2)}
        assert not await caught_up(runtime, GROUP, [two], PATIENCE_MS)
        assert not await caught_up(runtime, GROUP, [replica_id(6)], PATIENCE_MS), "it is no member"

    run(main())
