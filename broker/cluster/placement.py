"""Where replicas go: over racks first, then over nodes, the least loaded first. Pure functions of the metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from quorate.broker.cluster.state import ClusterState
from quorate.broker.cluster.values import Membership, NodeInfo
from quorate.consensus.core import GroupId, NodeId, ReplicaId, node_of


class NoPlace(Exception):
    """There are not enough nodes for so many replicas."""


class Load(NamedTuple):
    """How much a node has to do: replicas, and how many of them are preferred as leaders."""

    replicas: Counter[NodeId]
    leaders: Counter[NodeId]


def load_of(state: ClusterState) -> Load:
    """What each node holds, or is about to hold."""
    replicas: Counter[NodeId] = Counter()
    leaders: Counter[NodeId] = Counter()
    for queue, index in state.by_group.values():
        partition = queue.partitions[index]
        wanted = partition.target or partition.replicas
        replicas.update(map(node_of, wanted))
        leaders[node_of(wanted[0])] += 1
    return Load(replicas, leaders)


def place(
    partitions: int, replication: int, nodes: Mapping[NodeId, NodeInfo], usable: Collection[NodeId], load: Load
) -> tuple[tuple[int, ...], ...]:
    """Nodes for each of so many new partitions, the preferred leader first. Raises NoPlace."""
    candidates = [nodes[node] for node in sorted(usable) if nodes[node].membership is Membership.JOINED]
    if len(candidates) < replication:
        raise NoPlace(f"{replication} replicas need as many nodes, and {len(candidates)} can take some")
    replicas, leaders = Counter(load.replicas), Counter(load.leaders)
    placed = []
    for _ in range(partitions):
        chosen = choose(replication, candidates, (), replicas)
        chosen.sort(key=lambda node: (leaders[node], replicas[node], node))
        replicas.update(chosen)
        leaders[chosen[0]] += 1
        placed.append(tuple(chosen))
    return tuple(placed)


def choose(
    count: int, candidates: Sequence[NodeInfo], beside: Collection[NodeInfo], replicas: Counter[NodeId]
) -> list[NodeId]:
    """So many of the candidates, for a partition that has replicas `beside` already."""
    racks = Counter(node.rack for node in beside if node.rack)
    taken = {node.id for node in beside}
    chosen: list[NodeId] = []
    for _ in range(count):
        free = [node for node in candidates if node.id not in taken]
        if not free:
            raise NoPlace("there is no further node")
        # Without a rack, a node is a rack of its own.
        best = min(free, key=lambda node: (racks[node.rack] if node.rack else 0, replicas[node.id], node.id))
        taken.add(best.id)
        if best.rack:
            racks[best.rack] += 1
        chosen.append(best.id)
    return chosen


class Move(NamedTuple):
    """One replica of a partition goes from a node to another one."""

    group: GroupId
    source: NodeId
    to: NodeId
    nodes: tuple[NodeId, ...]
    """Where the partition's replicas are after it, the preferred leader first."""
    reason: str


def moves_off(
    state: ClusterState,
    leaving: Mapping[NodeId, str],
    usable: Collection[NodeId],
    most: int,
    led: Collection[GroupId] | None = None,
) -> list[Move]:
    """Moves that take replicas off the nodes that are leaving (each with its reason), at most so many.

    With `led`, only of these groups: a group without a leader cannot move.
    """
    candidates = [
        state.nodes[node]
        for node in sorted(usable)
        if node not in leaving and state.nodes[node].membership is Membership.JOINED
    ]
    load = load_of(state)
    moves: list[Move] = []
    for group, (queue, index) in sorted(state.by_group.items()):
        partition = queue.partitions[index]
        source = next((node for node in partition.nodes if node in leaving), None)
        if source is None or partition.target is not None or (led is not None and group not in led):
            continue
        if len(moves) >= most:
            break
        staying = [node for node in partition.nodes if node != source]
        beside = [state.nodes[node] for node in staying if node in state.nodes]
        try:
            (to,) = choose(1, candidates, beside, load.replicas)
        except NoPlace:
            continue
        load.replicas[to] += 1
        nodes = tuple(to if node == source else node for node in partition.nodes)
        moves.append(Move(group, source, to, nodes, leaving[source]))
    return moves


def stranded(state: ClusterState, leaving: Mapping[NodeId, str], usable: Collection[NodeId]) -> Counter[NodeId]:
    """How many replicas each leaving node has that do not move because no other node can take them."""
    candidates = {node for node in usable if node not in leaving and state.nodes[node].membership is Membership.JOINED}
    count: Counter[NodeId] = Counter()
    for queue, index in state.by_group.values():
        partition = queue.partitions[index]
        if partition.target is None and not candidates - set(partition.nodes):
            count.update(node for node in partition.nodes if node in leaving)
    return count


def moves_in_vain(state: ClusterState, leaving: Mapping[NodeId, str]) -> list[tuple[GroupId, tuple[ReplicaId, ...], str]]:
    """Moves under way that bring a replica to a node that is leaving: group, target, and why."""
    found = []
    for group, (queue, index) in sorted(state.by_group.items()):
        partition = queue.partitions[index]
        bad = next((node_of(one) for one in partition.coming if node_of(one) in leaving), None)
        if bad is not None and partition.target is not None and not partition.cancelled:
            found.append((group, partition.target, f"node {bad}: {leaving[bad]}"))
    return found


def evening_moves(state: ClusterState, usable: Collection[NodeId], most: int = 1_000) -> list[Move]:
    """Moves that spread partitions over racks where they are not, and then even the nodes out, until none has two replicas
    more than another could take. Each partition moves at most once."""
    nodes = [node for node in sorted(usable) if state.nodes[node].membership is Membership.JOINED]
    load = load_of(state).replicas
    at = {group: queue.partitions[index].nodes for group, (queue, index) in state.by_group.items()}
    moved: set[GroupId] = {group for group, (queue, index) in state.by_group.items() if queue.partitions[index].target}
    moves: list[Move] = []
    while len(moves) < most and len(nodes) > 1:
        move = _spreading_move(state, nodes, load, at, moved) or _evening_move(state, nodes, load, at, moved)
        if move is None:
            break
        moves.append(move)
        moved.add(move.group)
        load[move.source] -= 1
        load[move.to] += 1
    return moves


def _spreading_move(
    state: ClusterState,
    nodes: Sequence[NodeId],
    load: Counter[NodeId],
    at: Mapping[GroupId, tuple[NodeId, ...]],
    moved: Collection[GroupId],
) -> Move | None:
    """One replica goes from a rack that has two of its partition to a rack that has none."""
    for group, held in sorted(at.items()):
        if group in moved or _racks(state, held) == len(held):
            continue
        racks = Counter(_rack(state, node) for node in held)
        free = [node for node in nodes if node not in held and not racks[_rack(state, node)]]
        if free:
            to = min(free, key=lambda node: (load[node], node))
            source = max((node for node in held if racks[_rack(state, node)] > 1), key=lambda node: (load[node], node))
            after = tuple(to if node == source else node for node in held)
            return Move(group, source, to, after, f"rack {_rack(state, source)} holds two of its replicas, or more")
    return None


def _evening_move(
    state: ClusterState,
    nodes: Sequence[NodeId],
    load: Counter[NodeId],
    at: Mapping[GroupId, tuple[NodeId, ...]],
    moved: Collection[GroupId],
) -> Move | None:
    to = min(nodes, key=lambda node: (load[node], node))
    for source in sorted(nodes, key=lambda node: (-load[node], node)):
        if load[source] - load[to] < 2:
            return None
        for group, held in sorted(at.items()):
            if group in moved or source not in held or to in held:
                continue
            after = tuple(to if node == source else node for node in held)
            if _racks(state, after) >= _racks(state, held):
                reason = f"node {source} holds {load[source]} replicas, node {to} {load[to]}"
                return Move(group, source, to, after, reason)
    return None


def _racks(state: ClusterState, nodes: Sequence[NodeId]) -> int:
    """How many racks these nodes are in; a node without one is a rack of its own."""
    return len({_rack(state, node) for node in nodes})


def _rack(state: ClusterState, node: NodeId) -> str | NodeId:
    info = state.nodes.get(node)
    return (info.rack if info is not None else "") or node
