"""The replicated metadata of a cluster: a function of the log of `@cluster`, so the same on every node.

Every node applies it and can route any request. Nothing here knows which nodes are alive or who leads what.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from quorate.broker.cluster import commands as c
from quorate.broker.cluster.queue_settings import BadSetting, check_settings
from quorate.broker.cluster.snapshot import VERSION, read_snapshot
from quorate.broker.cluster.staged import StagedCommits
from quorate.broker.cluster.values import (
    CLUSTER_GROUP,
    FOUNDER,
    GROUPS_QUEUE,
    Membership,
    NodeInfo,
    PartitionInfo,
    QueueInfo,
    Refused,
    valid_queue_name,
)
from quorate.broker.groups.logs import NO_LOG
from quorate.consensus.batch.header import max_timestamp
from quorate.consensus.core import Batch, BatchKind, GroupId, NodeId, Offset, ReplicaId, node_of, replica_id
from quorate.consensus.core.types import NO_OFFSET, incarnation_of

MAX_PARTITIONS: Final = 10_000
"""Of one queue."""

__all__ = ["MAX_PARTITIONS", "ClusterState", "Listener", "Refused", "Result", "lost_disk"]


Result = int | Refused
"""What became of a command."""
Listener = Callable[[c.Command, Result], None]


class ClusterState:
    """Fits `StateMachine` of the runtime. Read it freely; only `apply` and `load` change it.

    `listeners` are told of every command after it was applied, and of a snapshot that was loaded by `on_loaded`.
    """

    def __init__(self) -> None:
        self.nodes: dict[NodeId, NodeInfo] = {}
        self.queues: dict[str, QueueInfo] = {}
        self.by_id: dict[bytes, QueueInfo] = {}
        self.by_group: dict[GroupId, tuple[QueueInfo, int]] = {}
        self.gone: set[NodeId] = set()
        """Nodes that were removed: their numbers are not used again."""
        self.next_group = CLUSTER_GROUP + 1
        self.next_producer = 1
        self.incarnations: dict[GroupId, int] = {}
        """The highest incarnation that each group has used: a replica id is never used again."""
        self.staged = StagedCommits()
        self.stamp = 0
        """The log time of the last command."""
        self.version = 0
        """Rises with every change."""
        self.applied: Offset = NO_OFFSET
        self.listeners: list[Listener] = []
        self.on_loaded: list[Callable[[], None]] = []

    # The state machine.

    def apply(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            if batch.kind is BatchKind.DATA:
                self.stamp = max_timestamp(batch.data)
                for command in c.from_batch(batch.data):
                    self._carry_out(command)
            self.applied = batch.last

    def _carry_out(self, command: c.Command) -> None:
        result: Result
        try:
            result = self.judge(command)
        except Refused as refusal:
            result = refusal
        for listener in self.listeners:
            listener(command, result)

    def save(self) -> bytes:
        said: dict[str, Any] = {
            "format": VERSION,
            "nodes": [node.facts() for _, node in sorted(self.nodes.items())],
            "queues": [queue.facts() for _, queue in sorted(self.queues.items())],
            "gone": sorted(self.gone),
            "next_group": self.next_group,
            "next_producer": self.next_producer,
            "incarnations": sorted(self.incarnations.items()),
            "staged": self.staged.save(),
            "stamp": self.stamp,
            "version": self.version,
        }
        return json.dumps(said, separators=(",", ":"), sort_keys=True).encode()

    def load(self, offset: Offset, state: bytes) -> None:
        """Start over from a snapshot. Raises BadSnapshot, and then nothing has changed."""
        found = read_snapshot(state)
        self.nodes, self.gone, self.incarnations = found.nodes, found.gone, found.incarnations
        self.queues, self.by_id, self.by_group = {}, {}, {}
        for queue in found.queues.values():
            self._put(queue)
        self.staged, self.stamp = found.staged, found.stamp
        self.next_group, self.next_producer, self.version = found.next_group, found.next_producer, found.version
        self.applied = offset
        for told in self.on_loaded:
            told()

    # Commands. Each method checks everything before it changes anything, and raises Refused.

    def judge(self, command: c.Command) -> int:
        """Carry a command out. Raises Refused, and then nothing has changed."""
        match command:
            case c.RegisterNode():
                result = self._register(command.node)
            case c.SetMembership():
                result = self._set_membership(command)
            case c.RemoveNode():
                result = self._remove(NodeId(command.node))
            case c.CreateQueue():
                result = self._create(command)
            case c.DeleteQueue():
                result = self._delete(command)
            case c.GrowQueue():
                result = self._grow(command)
            case c.SetSettings():
                result = self._set_settings(command)
            case c.BeginMove():
                result = self._begin_move(command)
            case c.CancelMove():
                result = self._cancel_move(command)
            case c.EndMove():
                result = self._end_move(command)
            case c.TakeProducerIds():
                result = self._take_producers(command.count)
            case c.StagedCommand():
                result = self.staged.judge(command, self.stamp, self.by_group, self.next_producer)
            case _:
                raise Refused("unknown-command", f"{command.kind} is not known")
        self.version += 1
        return result

    def _register(self, node: NodeInfo) -> int:
        if node.id in self.gone:
            raise Refused("node-removed", f"node {node.id} was removed from the cluster; give the new one another number")
        known = self.nodes.get(node.id)
        if known is not None:
            return self._register_again(node, known)
        used = self.incarnations.get(CLUSTER_GROUP, FOUNDER)
        incarnation = node.incarnation or used + 1
        if incarnation > used:
            self.incarnations[CLUSTER_GROUP] = incarnation
        self.nodes[node.id] = replace(node, membership=Membership.JOINED, incarnation=incarnation)
        return incarnation

    def _register_again(self, node: NodeInfo, known: NodeInfo) -> int:
        """A node has started again, perhaps elsewhere; or was not told that it was let in, and asks again."""
        if known.storage and node.storage != known.storage:
            raise Refused("storage-changed", lost_disk(node.id))
        if node.incarnation not in (0, known.incarnation):
            raise Refused(
                "node-exists",
                f"node {node.id} is incarnation {known.incarnation} of its number, not {node.incarnation};"
                " give this one another number",
            )
        self.nodes[node.id] = replace(node, membership=known.membership, incarnation=known.incarnation)
        return known.incarnation

    def _node(self, node: int) -> NodeInfo:
        found = self.nodes.get(NodeId(node))
        if found is None:
            raise Refused("unknown-node", f"the cluster has no node {node}")
        return found

    def _set_membership(self, command: c.SetMembership) -> int:
        node = self._node(command.node)
        self.nodes[node.id] = replace(node, membership=Membership(command.membership))
        return node.id

    def _remove(self, node: NodeId) -> int:
        self._node(node)
        held = sum(1 for replica in self.replicas() if node_of(replica) == node)
        if held:
            raise Refused("node-not-empty", f"node {node} still holds {held} replicas; drain it first")
        if len(self.nodes) == 1:
            raise Refused("last-node", f"node {node} is the last one: there would be no cluster left")
        del self.nodes[node]
        self.gone.add(node)
        return node

    def _create(self, command: c.CreateQueue) -> int:
        name, id_ = command.name, bytes.fromhex(command.id)
        if not valid_queue_name(name) and name != GROUPS_QUEUE:
            raise Refused("bad-name", f"{name!r} is no name for a queue: 1 to 249 letters, digits, '.', '_' and '-'")
        if name in self.queues:
            raise Refused("queue-exists", f"there is a queue {name!r} already")
        if id_ in self.by_id:
            raise Refused("queue-exists", "there is a queue with that id already")
        self._check_placement(command.placement, 0)
        settings = self._checked(command.settings)
        partitions = self._place(command.placement)
        self._put(QueueInfo(name=name, id=id_, partitions=partitions, settings=MappingProxyType(settings)))
        return len(partitions)

    def _check_placement(self, placement: c.Placement, had: int, stays: Collection[NodeId] = ()) -> None:
        """Refuse what cannot be. New replicas go to nodes that take some; on nodes in `stays` there are some already."""
        if not placement or had + len(placement) > MAX_PARTITIONS:
            raise Refused("bad-partitions", f"a queue has 1 to {MAX_PARTITIONS} partitions, not {had + len(placement)}")
        for nodes in placement:
            if not nodes or len(set(nodes)) != len(nodes):
                raise Refused("bad-placement", f"replicas on nodes {list(nodes)}: each must be on a node of its own")
            for node in map(NodeId, nodes):
                info = self.nodes.get(node)
                if info is None:
                    raise Refused("changed-meanwhile", f"the cluster has no node {node}")
                if info.membership is not Membership.JOINED and node not in stays:
                    raise Refused("changed-meanwhile", f"node {node} is being drained and takes no replicas")

    def _place(self, placement: c.Placement) -> tuple[PartitionInfo, ...]:
        made = []
        for nodes in placement:
            group = GroupId(self.next_group)
            self.next_group += 1
            replicas = tuple(replica_id(node) for node in nodes)
            self.incarnations[group] = max(map(incarnation_of, replicas))
            made.append(PartitionInfo(group=group, replicas=replicas, first=replicas))
        return tuple(made)

    def _checked(self, settings: Any) -> dict[str, str]:
        try:
            return check_settings(settings)
        except BadSetting as error:
            raise Refused("bad-setting", str(error)) from error

    def _queue(self, name: str) -> QueueInfo:
        found = self.queues.get(name)
        if found is None:
            raise Refused("unknown-queue", f"there is no queue {name!r}")
        return found

    def _delete(self, command: c.DeleteQueue) -> int:
        queue = self._queue(command.name)
        if command.id is not None and bytes.fromhex(command.id) != queue.id:
            raise Refused("unknown-queue", f"the queue {command.name!r} with that id is gone")
        if queue.internal:
            raise Refused("internal-queue", f"{queue.name} belongs to the cluster itself")
        del self.queues[queue.name]
        del self.by_id[queue.id]
        for partition in queue.partitions:
            del self.by_group[partition.group]
            del self.incarnations[partition.group]
        self.staged.forget_groups([partition.group for partition in queue.partitions])
        return len(queue.partitions)

    def _grow(self, command: c.GrowQueue) -> int:
        queue = self._queue(command.name)
        if len(queue.partitions) != command.had:
            raise Refused("changed-meanwhile", f"{queue.name!r} has {len(queue.partitions)} partitions by now")
        self._check_placement(command.placement, command.had)
        self._put(replace(queue, partitions=queue.partitions + self._place(command.placement)))
        return command.had + len(command.placement)

    def _set_settings(self, command: c.SetSettings) -> int:
        queue = self._queue(command.name)
        merged: dict[str, str | None] = {**queue.settings, **command.settings}
        settings = self._checked({name: value for name, value in merged.items() if value is not None})
        self._put(replace(queue, settings=MappingProxyType(settings)))
        return len(settings)

    def _begin_move(self, command: c.BeginMove) -> int:
        queue, index = self._partition(command.group)
        partition = queue.partitions[index]
        if partition.target is not None:
            raise Refused("changed-meanwhile", f"a move of group {command.group} is under way")
        at = {node_of(replica): replica for replica in partition.replicas}
        self._check_placement((command.nodes,), 0, stays=at)
        if set(at) == set(command.nodes):
            raise Refused("changed-meanwhile", f"group {command.group} is on those nodes already")
        fresh = self.incarnations[partition.group] + 1
        target = tuple(at.get(NodeId(node)) or replica_id(node, fresh) for node in command.nodes)
        self.incarnations[partition.group] = fresh
        self._put(queue.with_partition(index, replace(partition, target=target)))
        return fresh

    def _cancel_move(self, command: c.CancelMove) -> int:
        queue, index = self._moving(command.group, command.target)
        self._put(queue.with_partition(index, replace(queue.partitions[index], cancelled=True)))
        return len(command.target)

    def _end_move(self, command: c.EndMove) -> int:
        queue, index = self._moving(command.group, command.target)
        partition = queue.partitions[index]
        if command.cancel and not partition.cancelled:
            raise Refused("changed-meanwhile", f"the move of group {command.group} was not cancelled")
        replicas = partition.target if partition.target is not None and not command.cancel else partition.replicas
        self._put(queue.with_partition(index, replace(partition, replicas=replicas, target=None, cancelled=False)))
        return len(replicas)

    def _moving(self, group: int, target: tuple[int, ...] | None) -> tuple[QueueInfo, int]:
        """The partition of this group, which must be on its way to this target."""
        queue, index = self._partition(group)
        now = queue.partitions[index].target
        if now is None:
            raise Refused("changed-meanwhile", f"no move of group {group} is under way")
        if target is not None and target != now:
            raise Refused("changed-meanwhile", f"another move of group {group} is under way by now")
        return queue, index

    def _partition(self, group: int) -> tuple[QueueInfo, int]:
        found = self.by_group.get(GroupId(group))
        if found is None:
            raise Refused("unknown-queue", f"there is no group {group}")
        return found

    def _take_producers(self, count: int) -> int:
        if not 1 <= count <= 1_000_000:
            raise Refused("bad-count", f"{count} producer ids at once")
        first = self.next_producer
        self.next_producer += count
        return first

    # Inside and beside.

    def _put(self, queue: QueueInfo) -> None:
        self.queues[queue.name] = self.by_id[queue.id] = queue
        for index, partition in enumerate(queue.partitions):
            self.by_group[partition.group] = (queue, index)

    def log_of(self, queue: str, partition: int) -> int:
        """The group of a partition, or NO_LOG. With `is_gone` this fits `Logs` of the coordinators."""
        found = self.queues.get(queue)
        return found.partitions[partition].group if found and 0 <= partition < len(found.partitions) else NO_LOG

    def is_gone(self, log: int) -> bool:
        """Whether a partition's group was deleted. Their numbers only rise, so a higher one is new to this copy."""
        return 0 < log < self.next_group and log not in self.by_group

    def replicas(self) -> list[ReplicaId]:
        """Every replica that there should be, those on their way included."""
        return [replica for queue, index in self.by_group.values() for replica in queue.partitions[index].members]

    def check_invariants(self) -> None:
        """Raise AssertionError if the parts contradict each other. Called by tests after every command."""
        assert not self.nodes.keys() & self.gone, "a removed node is not known any more"
        ids = {info.replica for info in self.nodes.values()}
        assert len(ids) == len(self.nodes), "every node has its own replica of `@cluster`"
        for info in self.nodes.values():
            assert 0 < info.incarnation <= self.incarnations.get(CLUSTER_GROUP, FOUNDER)
        groups = [one.group for queue in self.queues.values() for one in queue.partitions]
        assert len(set(groups)) == len(groups) == len(self.by_group), "a group belongs to one partition"
        assert all(0 < group < self.next_group for group in groups)
        for group, (queue, index) in self.by_group.items():
            assert self.queues[queue.name] is self.by_id[queue.id] is queue
            self._check_partition(queue.partitions[index], group)
        self.staged.check_invariants(self.by_group)

    def _check_partition(self, partition: PartitionInfo, group: GroupId) -> None:
        assert partition.group == group
        assert partition.replicas
        for replicas in (partition.replicas, partition.target or ()):
            assert len(set(map(node_of, replicas))) == len(replicas), "no two replicas are on one node"
        for replica in partition.members:
            assert node_of(replica) in self.nodes, "a node that holds something is not removed"
            assert 0 < incarnation_of(replica) <= self.incarnations[group]
        assert partition.target is not None or not partition.cancelled, "only what is under way can be cancelled"


def lost_disk(node: int) -> str:
    """What a node is told that comes back on another folder than the cluster knows it with."""
    return (
        f"node {node} is known on another storage. If this is another node, its number is taken; if it has lost its disk, it"
        f" has forgotten its votes. Give it another number to join with, and remove node {node} if it is gone"
    )
