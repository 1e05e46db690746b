"""A snapshot of `@cluster` as it is read: either everything in it fits together, or BadSnapshot says what does not.

It comes from the disk or from another node. A state that contradicts itself would be acted on by every part of a node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from quorate.broker.cluster.commands import BadCommand, known_node
from quorate.broker.cluster.staged import StagedCommits
from quorate.broker.cluster.values import CLUSTER_GROUP, FOUNDER, NodeInfo, PartitionInfo, QueueInfo, valid_queue_name
from quorate.broker.json_text import BadJson, read_json
from quorate.consensus.core import GroupId, NodeId, node_of
from quorate.consensus.core.types import incarnation_of

VERSION: Final = 3
"""1 had no storage ids, no incarnations of nodes and no cancelled moves, 2 no staged commits: all of them have a default."""
_ID_BYTES: Final = 16


class BadSnapshot(ValueError):
    """A snapshot that this release cannot have saved, nor an earlier one."""


class Snapshot(NamedTuple):
    """What is in it; the fields of `ClusterState`."""

    nodes: dict[NodeId, NodeInfo]
    queues: dict[str, QueueInfo]
    gone: set[NodeId]
    next_group: int
    next_producer: int
    incarnations: dict[GroupId, int]
    staged: StagedCommits
    stamp: int
    version: int


def read_snapshot(state: bytes) -> Snapshot:
    """What a snapshot holds; nothing at all is an empty cluster. Raises BadSnapshot."""
    try:
        said = read_json(state) if state else {"format": VERSION}
        found = _read(said)
    except (BadJson, BadCommand, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadSnapshot(f"a snapshot of `@cluster` that cannot be read: {error!r:.300}") from error
    for queue in found.queues.values():
        _check_queue(queue, found)
    _check_whole(found)
    return found


def _read(said: Mapping[str, Any]) -> Snapshot:
    if said["format"] not in range(1, VERSION + 1):
        raise BadSnapshot(f"it is in format {said['format']!r:.40}; this release knows 1 to {VERSION}")
    nodes = [known_node(one) for one in said.get("nodes", ())]
    queues = [QueueInfo.from_facts(one) for one in said.get("queues", ())]
    pairs = [(GroupId(_count(group)), _count(used)) for group, used in said.get("incarnations", ())]
    found = Snapshot(
        {node.id: node for node in nodes},
        {queue.name: queue for queue in queues},
        set(map(NodeId, map(_count, said.get("gone", ())))),
        _count(said.get("next_group", CLUSTER_GROUP + 1)),
        _count(said.get("next_producer", 1)),
        dict(pairs),
        StagedCommits.load(said.get("staged", {})),
        _count(said.get("stamp", 0)),
        _count(said.get("version", 0)),
    )
    ids = {queue.id for queue in queues}
    if len(found.nodes) < len(nodes) or len(found.queues) < len(queues) or len(ids) < len(queues):
        raise BadSnapshot("a node or a queue is in it twice")
    return found


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadSnapshot(f"{value!r:.40} is no count")
    return value


def _check_queue(queue: QueueInfo, whole: Snapshot) -> None:
    name: object = queue.name
    if not isinstance(name, str) or not (queue.internal or valid_queue_name(name)) or len(queue.id) != _ID_BYTES:
        raise BadSnapshot(f"a queue cannot be named {name!r:.80} and have the id {queue.id.hex():.80}")
    texts: list[object] = [one for pair in queue.settings.items() for one in pair]
    if not all(isinstance(one, str) for one in texts) or not queue.partitions:
        raise BadSnapshot(f"queue {name!r} has settings that are no texts, or no partitions")
    for partition in queue.partitions:
        _check_partition(partition, whole)


def _check_partition(partition: PartitionInfo, whole: Snapshot) -> None:
    group = GroupId(_count(partition.group))
    replicas, target = partition.replicas, partition.target
    for one in (replicas, target or (), partition.first):
        if len(set(map(node_of, map(_count, one)))) < len(one):  # type: ignore[arg-type]  # a count is what it should be
            raise BadSnapshot(f"two replicas of group {group} are on one node")
    if not replicas or target == () or (partition.cancelled and target is None):
        raise BadSnapshot(f"group {group} has no replicas, or a move that is none")
    used = whole.incarnations.get(group, 0)
    for replica in partition.members:
        if node_of(replica) not in whole.nodes or not 0 < incarnation_of(replica) <= used:
            raise BadSnapshot(f"group {group} has a replica {replica} that was never made, or on a node that is gone")


def _check_whole(whole: Snapshot) -> None:
    groups = [partition.group for queue in whole.queues.values() for partition in queue.partitions]
    if len(set(groups)) < len(groups) or not all(0 < group < whole.next_group for group in groups):
        raise BadSnapshot("a group belongs to two partitions, or was never made")
    if not whole.staged.groups() <= set(groups):
        raise BadSnapshot("a group that is not there has something to publish")
    used = whole.incarnations.get(CLUSTER_GROUP, FOUNDER)
    if whole.nodes.keys() & whole.gone or not all(0 < node.incarnation <= used for node in whole.nodes.values()):
        raise BadSnapshot("a node that was removed is there, or one whose replica of `@cluster` was never made")
