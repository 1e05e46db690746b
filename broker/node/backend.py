"""The node as its Kafka listener sees it: metadata, partitions and coordinators behind one seam."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from quorate.broker.cluster import commands as c
from quorate.broker.cluster.calls import CallFailed
from quorate.broker.cluster.directory import Health
from quorate.broker.cluster.manager import plan_and_change
from quorate.broker.cluster.placement import NoPlace, load_of, place
from quorate.broker.cluster.queue_settings import SETTINGS, BadSetting, check_settings
from quorate.broker.cluster.service import new_token
from quorate.broker.cluster.state import MAX_PARTITIONS, Refused
from quorate.broker.cluster.values import GROUPS_QUEUE, Membership, PartitionInfo, QueueInfo, valid_queue_name
from quorate.broker.groups.coordinator import partition_of
from quorate.broker.kafka.backend import (
    Alteration,
    AlterKind,
    Broker,
    CreatedQueue,
    KafkaFailure,
    NewQueue,
    Partition,
    PartitionView,
    ProducerId,
    QueueView,
    ResourceKind,
    Setting,
    SettingSource,
    SettingType,
    StageWish,
)
from quorate.broker.node.coordination import Coordination
from quorate.broker.node.node import Node
from quorate.broker.protocol.kafka.errors import Error
from quorate.consensus.core import NodeId

_PRODUCER_BLOCK = 1_000
_CHANGE_S = 10.0
_LOOK_AGAIN_S = 0.01
_RETURN_S = 2.0
_LEAST_COMMIT_S, _MOST_COMMIT_S = 1.0, 300.0

_CODES = {
    "queue-exists": Error.TOPIC_ALREADY_EXISTS,
    "unknown-queue": Error.UNKNOWN_TOPIC_OR_PARTITION,
    "bad-name": Error.INVALID_TOPIC_EXCEPTION,
    "bad-partitions": Error.INVALID_PARTITIONS,
    "bad-placement": Error.INVALID_REPLICA_ASSIGNMENT,
    "unknown-node": Error.INVALID_REPLICA_ASSIGNMENT,
    "bad-setting": Error.INVALID_CONFIG,
    "internal-queue": Error.INVALID_TOPIC_EXCEPTION,
    "changed-meanwhile": Error.REASSIGNMENT_IN_PROGRESS,
}
"""Refusals of the metadata in Kafka's terms."""
_TYPES = {"int": SettingType.INT, "long": SettingType.LONG, "string": SettingType.STRING}


class NodeBackend:
    """Fits `Backend` of the Kafka listener."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._state = node.state
        self._producer_ids = iter(range(0))
        self._taking = asyncio.Lock()

    # The cluster.

    @property
    def cluster_id(self) -> str:
        return self._node.settings.cluster.id

    @property
    def node_id(self) -> int:
        return self._node.id

    @property
    def controller_id(self) -> int:
        leader = self._node.metadata.leader
        return leader if leader is not None and leader in self._state.nodes else self._node.id

    def brokers(self) -> Sequence[Broker]:
        nodes = self._state.nodes
        return [
            Broker(node, nodes[node].host, nodes[node].kafka_port, nodes[node].rack or None)
            for node in self._node.directory.worth_trying(nodes, self._node.now())
        ]

    def queues(self) -> Sequence[QueueView]:
        alive = self._alive()
        return [self._view(queue, alive) for queue in self._state.queues.values()]

    def queue(self, name: str) -> QueueView | None:
        found = self._state.queues.get(name)
        return self._view(found, self._alive()) if found is not None else None

    def queue_by_id(self, id: bytes) -> QueueView | None:
        found = self._state.by_id.get(id)
        return self._view(found, self._alive()) if found is not None else None

    def _alive(self) -> frozenset[NodeId]:
        return frozenset(self._node.directory.alive(self._state.nodes, self._node.now()))

    def _view(self, queue: QueueInfo, alive: frozenset[NodeId]) -> QueueView:
        partitions = [self._partition_view(index, one, alive) for index, one in enumerate(queue.partitions)]
        return QueueView(queue.name, queue.id, queue.internal, partitions, queue.settings)

    def _partition_view(self, index: int, partition: PartitionInfo, alive: frozenset[NodeId]) -> PartitionView:
        directory, nodes = self._node.directory, partition.nodes
        isr = tuple([node for node in nodes if node in alive])
        leader = directory.leaders.get(partition.group)
        if leader is None or leader.node not in alive:
            return PartitionView(index, self._elsewhere(partition), -1, nodes, isr)
        return PartitionView(index, leader.node, leader.term, nodes, isr)

    def _elsewhere(self, partition: PartitionInfo) -> int:
        """Where a client may find out who leads, if this node is cut off and cannot tell; else -1."""
        directory, now = self._node.directory, self._node.now()
        found = directory.guess(partition.nodes, now) if directory.cut_off(self._state.nodes, now) else None
        return -1 if found is None else found

    def partition(self, name: str, index: int) -> Partition:
        queue = self._state.queues.get(name)
        if queue is None or not 0 <= index < len(queue.partitions):
            raise KafkaFailure(Error.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {index} of {name!r}")
        if queue.internal:
            raise KafkaFailure(Error.INVALID_TOPIC_EXCEPTION, f"{name} belongs to the cluster itself")
        found = self._node.replicas.partitions.get(queue.partitions[index].group)
        if found is None:
            raise KafkaFailure(Error.NOT_LEADER_OR_FOLLOWER, f"{name!r}/{index} is not on node {self._node.id}")
        return found

    def drained(self) -> None:
        self._node.runtime.drained()

    # Queues.

    async def create_queues(
        self, queues: Sequence[NewQueue], *, validate_only: bool, timeout_ms: int
    ) -> Sequence[CreatedQueue | KafkaFailure]:
        results: list[CreatedQueue | KafkaFailure] = []
        for new in queues:
            try:
                results.append(await self._create(new, validate_only, timeout_ms / 1000))
            except KafkaFailure as failure:
                results.append(failure)
        return results

    async def _create(self, new: NewQueue, validate_only: bool, timeout_s: float) -> CreatedQueue:
        if not valid_queue_name(new.name):
            raise KafkaFailure(Error.INVALID_TOPIC_EXCEPTION, f"{new.name!r} is no name for a queue")
        if new.name in self._state.queues:
            raise KafkaFailure(Error.TOPIC_ALREADY_EXISTS, f"there is a queue {new.name!r} already")
        settings = _checked({name: value for name, value in new.settings.items() if value is not None})
        replicas = self._node.settings.queues.replication if new.replication == -1 else new.replication
        await self._until_enough(replicas, timeout_s)
        placement = self._placement(new)
        if validate_only:
            return CreatedQueue(bytes(16), len(placement), len(placement[0]))
        id_ = new_token()

        def plan() -> c.Command:
            nonlocal placement
            placement = self._placement(new)
            return c.CreateQueue(token=new_token(), name=new.name, id=id_, placement=placement, settings=settings)

        await self._change(plan, timeout_s)
        await self._until_led(new.name, timeout_s)
        return CreatedQueue(bytes.fromhex(id_), len(placement), len(placement[0]))

    def _placement(self, new: NewQueue) -> c.Placement:
        if new.assignments is not None:
            if not new.assignments or len({len(nodes) for nodes in new.assignments}) != 1:
                raise KafkaFailure(Error.INVALID_REPLICA_ASSIGNMENT, "every partition needs the same number of replicas")
            return self._assigned(new.assignments)
        defaults = self._node.settings.queues
        partitions = defaults.partitions if new.partitions == -1 else new.partitions
        usable = self._node.manager.usable()
        # A small cluster takes what it can by default; who asks for more than there are nodes is told.
        replication = min(defaults.replication, len(usable)) if new.replication == -1 else new.replication
        return self._place(partitions, replication)

    def _assigned(self, assignments: c.Placement) -> c.Placement:
        """What a client has chosen itself: only nodes that take replicas."""
        for node in {node for nodes in assignments for node in nodes}:
            info = self._state.nodes.get(NodeId(node))
            if info is None or info.membership is not Membership.JOINED:
                raise KafkaFailure(Error.INVALID_REPLICA_ASSIGNMENT, f"there is no node {node} that takes replicas")
        return assignments

    def _place(self, partitions: int, replication: int) -> c.Placement:
        if not 1 <= partitions <= MAX_PARTITIONS:
            raise KafkaFailure(Error.INVALID_PARTITIONS, f"a queue has 1 to {MAX_PARTITIONS} partitions, not {partitions}")
        if replication < 1:
            raise KafkaFailure(Error.INVALID_REPLICATION_FACTOR, f"at least one replica, not {replication}")
        state = self._state
        try:
            return place(partitions, replication, state.nodes, self._node.manager.usable(), load_of(state))
        except NoPlace as error:
            raise KafkaFailure(Error.INVALID_REPLICATION_FACTOR, str(error)) from error

    async def _until_enough(self, replicas: int, timeout_s: float) -> None:
        """A node that was silent for a moment may be coming back: better a short wait than too few copies, or a refusal."""
        clock, node = asyncio.get_running_loop().time, self._node
        deadline = clock() + min(timeout_s, _RETURN_S)
        while clock() < deadline:
            now = node.now()
            seem = Counter(
                node.directory.health(one, now)
                for one, info in self._state.nodes.items()
                if info.membership is Membership.JOINED
            )
            if seem[Health.ALIVE] >= replicas or not seem[Health.SUSPECT]:
                return
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _until_led(self, name: str, timeout_s: float) -> None:
        """A client that was told of a queue uses it at once: wait for its leaders, but not for ever."""
        node, deadline = self._node, asyncio.get_running_loop().time() + timeout_s
        while True:
            queue, now = self._state.queues.get(name), node.now()
            if queue is None or all(node.directory.leader_of(one.group, now) for one in queue.partitions):
                return
            if asyncio.get_running_loop().time() > deadline:
                raise KafkaFailure(Error.REQUEST_TIMED_OUT, f"{name!r} is created; not all of its partitions have leaders")
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def delete_queues(self, names: Sequence[str], *, timeout_ms: int) -> Sequence[KafkaFailure | None]:
        results: list[KafkaFailure | None] = []
        for name in names:
            try:
                await self._change(c.DeleteQueue(token=new_token(), name=name), timeout_ms / 1000)
                results.append(None)
            except KafkaFailure as failure:
                results.append(failure)
        return results

    async def grow_queue(
        self,
        name: str,
        partitions: int,
        assignments: tuple[tuple[int, ...], ...] | None,
        *,
        validate_only: bool,
        timeout_ms: int,
    ) -> None:
        queue = self._state.queues.get(name)
        if queue is None:
            raise KafkaFailure(Error.UNKNOWN_TOPIC_OR_PARTITION, f"there is no queue {name!r}")
        if queue.internal:
            raise KafkaFailure(Error.INVALID_TOPIC_EXCEPTION, f"{name} belongs to the cluster itself")
        had = len(queue.partitions)
        if partitions <= had:
            raise KafkaFailure(Error.INVALID_PARTITIONS, f"{name!r} has {had} partitions, and they can only become more")
        if assignments is not None and len(assignments) != partitions - had:
            raise KafkaFailure(
                Error.INVALID_REPLICA_ASSIGNMENT, f"{partitions - had} new partitions need as many assignments"
            )
        replication = len(queue.partitions[0].replicas)

        def plan() -> c.Command:
            placement = self._assigned(assignments) if assignments else self._place(partitions - had, replication)
            return c.GrowQueue(token=new_token(), name=name, had=had, placement=placement)

        plan()
        if not validate_only:
            await self._change(plan, timeout_ms / 1000)
            await self._until_led(name, timeout_ms / 1000)

    # Settings.

    def describe_settings(self, kind: ResourceKind, name: str) -> Sequence[Setting]:
        if kind is ResourceKind.BROKER:
            return self._describe_broker(name)
        queue = self._state.queues.get(name)
        if queue is None:
            raise KafkaFailure(Error.UNKNOWN_TOPIC_OR_PARTITION, f"there is no queue {name!r}")
        return [
            Setting(
                name=one.name,
                value=queue.settings.get(one.name, one.default),
                source=SettingSource.TOPIC if one.name in queue.settings else SettingSource.DEFAULT,
                type=_TYPES[one.kind],
                documentation=one.doc,
                default=one.default,
            )
            for one in SETTINGS.values()
        ]

    def _describe_broker(self, name: str) -> Sequence[Setting]:
        if not name.isdecimal() or int(name) not in self._state.nodes:
            raise KafkaFailure(Error.INVALID_REQUEST, f"there is no broker {name!r}")
        queues = self._node.settings.queues
        values = {
            "auto.create.topics.enable": str(queues.auto_create).lower(),
            "default.replication.factor": str(queues.replication),
            "num.partitions": str(queues.partitions),
        }
        source = SettingSource.STATIC_BROKER
        return [Setting(name=key, value=value, source=source, read_only=True) for key, value in values.items()]

    async def alter_settings(
        self, kind: ResourceKind, name: str, changes: Sequence[Alteration], *, validate_only: bool
    ) -> None:
        if kind is not ResourceKind.TOPIC:
            raise KafkaFailure(Error.INVALID_REQUEST, "a node's settings are in its file")
        if name not in self._state.queues:
            raise KafkaFailure(Error.UNKNOWN_TOPIC_OR_PARTITION, f"there is no queue {name!r}")
        wanted: dict[str, str | None] = {}
        for change in changes:
            if change.kind not in (AlterKind.SET, AlterKind.DELETE):
                raise KafkaFailure(Error.INVALID_CONFIG, f"{change.name} is no list: it can be set or deleted")
            wanted[change.name] = change.value if change.kind is AlterKind.SET else None
        _checked({key: value for key, value in wanted.items() if value is not None})
        for key in wanted:
            if key not in SETTINGS:
                raise KafkaFailure(Error.INVALID_CONFIG, f"there is no queue setting {key!r}")
        if not validate_only:
            await self._change(c.SetSettings(token=new_token(), name=name, settings=wanted), _CHANGE_S)

    # Producers and groups.

    async def new_producer_id(self) -> ProducerId:
        async with self._taking:
            number = next(self._producer_ids, None)
            if number is None:
                command = c.TakeProducerIds(token=new_token(), count=_PRODUCER_BLOCK)
                number = await self._change(command, _CHANGE_S)
                self._producer_ids = iter(range(number + 1, number + _PRODUCER_BLOCK))
        return ProducerId(number, 0)

    # Staged records.

    async def commit_staged(
        self, application: str, batch: int, stages: Sequence[StageWish], timeout_ms: int
    ) -> tuple[bool, bool]:
        timeout_s = min(max(timeout_ms / 1000, _LEAST_COMMIT_S), _MOST_COMMIT_S)
        return await self._node.committer.commit(application, batch, stages, timeout_s)

    async def drop_staged(self, stages: Sequence[StageWish]) -> None:
        await self._node.committer.drop(stages, _CHANGE_S)

    def coordinator_node(self, group: str) -> int:
        partition = self._groups_partition(group)
        if partition is None:
            return -1
        leader = self._node.directory.leader_of(partition.group, self._node.now())
        return leader.node if leader is not None else self._elsewhere(partition)

    def elections(self, names: Collection[str] | None) -> list[tuple[str, int]]:
        queues, directory, now = self._state.queues, self._node.directory, self._node.now()
        if not directory.lost_lately(now):
            return []
        wanted = queues.values() if names is None else [queues[name] for name in names if name in queues]
        return [
            (queue.name, index)
            for queue in wanted
            for index, one in enumerate(queue.partitions)
            if directory.electing(one.group, now)
        ]

    def electing(self, name: str, index: int) -> bool:
        queue = self._state.queues.get(name)
        if queue is None or index >= len(queue.partitions):
            return False
        return self._node.directory.electing(queue.partitions[index].group, self._node.now())

    def electing_coordinator(self, group: str) -> bool:
        partition = self._groups_partition(group)
        return partition is not None and self._node.directory.electing(partition.group, self._node.now())

    def groups(self, group: str) -> Coordination:
        partition = self._groups_partition(group)
        found = self._node.replicas.coordinations.get(partition.group) if partition is not None else None
        if found is None:
            raise KafkaFailure(Error.NOT_COORDINATOR, f"node {self._node.id} does not coordinate {group!r}")
        return found

    def all_groups(self) -> Sequence[Coordination]:
        return [one for one in self._node.replicas.coordinations.values() if one.serves]

    def _groups_partition(self, group: str) -> PartitionInfo | None:
        queue = self._state.queues.get(GROUPS_QUEUE)
        return queue.partitions[partition_of(group, len(queue.partitions))] if queue is not None else None

    # Inside.

    async def _change(self, command: c.Command | Callable[[], c.Command], timeout_s: float) -> int:
        """Carry out a command, or what is planned by a function, which is asked again if nodes have changed meanwhile."""
        plan = command if callable(command) else lambda: command
        try:
            return await plan_and_change(self._node.metadata, plan, timeout_s)
        except Refused as refusal:
            raise KafkaFailure(_CODES.get(refusal.code, Error.INVALID_REQUEST), str(refusal)) from refusal
        except CallFailed as failure:
            raise KafkaFailure(Error.REQUEST_TIMED_OUT, str(failure)) from failure


def _checked(settings: Mapping[str, str]) -> dict[str, str]:
    try:
        return check_settings(settings)
    except BadSetting as error:
        raise KafkaFailure(Error.INVALID_CONFIG, str(error)) from error
