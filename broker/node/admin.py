"""The node as its HTTP front end sees it: the cluster's administration."""

from __future__ import annotations

from collections import Counter

from quorate.broker.cluster import commands as c
from quorate.broker.cluster.calls import CallFailed
from quorate.broker.cluster.placement import load_of
from quorate.broker.cluster.service import new_token
from quorate.broker.cluster.state import Refused
from quorate.broker.cluster.values import CLUSTER_GROUP, Membership, NodeInfo
from quorate.broker.http.admin import AdminFailure, Facts
from quorate.broker.node.node import Node
from quorate.consensus.core import GroupId, NodeId, node_of

_CHANGE_S = 10.0
_ASK_S = 1.0
_STATUSES = {
    "changed-meanwhile": 409,
    "last-node": 409,
    "node-exists": 409,
    "node-not-empty": 409,
    "node-removed": 409,
    "storage-changed": 409,
    "unknown-node": 404,
    "unknown-queue": 404,
}


class NodeAdmin:
    """Fits `Admin` of the HTTP front end. Any node can be asked; changes go to whoever leads `@cluster`."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def ready(self) -> bool:
        return self._node.ready

    def cluster(self) -> Facts:
        node = self._node
        return {
            "id": node.settings.cluster.id,
            "node": node.id,
            "manager": node.metadata.leader,
            "voters": sorted(node_of(one) for one in node.runtime.configuration(CLUSTER_GROUP).voters),
            "nodes": len(node.state.nodes),
            "queues": len(node.state.queues),
            "partitions": len(node.state.by_group),
            "version": node.state.version,
            "failed": [
                {"queue": one.wanted.queue, "partition": one.wanted.number, "reason": one.reason}
                for one in node.hosting.failed.values()
            ],
        }

    def nodes(self) -> list[Facts]:
        node, now = self._node, self._node.now()
        load = load_of(node.state).replicas
        for queue, index in node.state.by_group.values():
            # Replicas that are about to go are still held.
            partition = queue.partitions[index]
            load.update(set(partition.nodes) - {one >> 32 for one in partition.target or partition.replicas})
        stranded, moving = node.manager.stranded(), Counter[int]()
        for queue, index in node.state.by_group.values():
            partition = queue.partitions[index]
            if partition.target is not None:
                moving.update(one >> 32 for one in partition.replicas if one not in partition.target)
        # Of queues, like the replicas: the metadata's own leader is named by `manager` in `cluster`.
        led = Counter(leader.node for group, leader in node.directory.leaders.items() if group in node.state.by_group)
        return [
            {
                "id": one.id,
                "state": _state(one, node.directory.health(one.id, now).value),
                "rack": one.rack,
                "replicas": load[one.id],
                "leaders": led[one.id],
                "moving": moving[one.id],
                "stranded": stranded[one.id],
                "kafka": f"{one.host}:{one.kafka_port}",
                "http": f"http://{one.host}:{one.http_port}",
                "peer": f"{one.peer_host}:{one.peer_port}",
            }
            for _, one in sorted(node.state.nodes.items())
        ]

    async def queues(self) -> list[Facts]:
        node, now = self._node, self._node.now()
        behind = await self._behind()
        listed = []
        for _, queue in sorted(node.state.queues.items()):
            partitions = []
            for number, one in enumerate(queue.partitions):
                leader = node.directory.leader_of(one.group, now)
                facts: Facts = {"partition": number, "group": one.group, "replicas": one.nodes}
                facts |= {"leader": leader.node if leader else None, "moving": one.target is not None}
                if one.target is not None:
                    facts |= {"to": [node_of(replica) for replica in one.coming], "cancelled": one.cancelled}
                    facts |= {"behind": behind.get(one.group)}
                partitions.append(facts)
            replication = len(queue.partitions[0].replicas)
            facts = {"name": queue.name, "id": queue.id.hex(), "replication": replication, "settings": dict(queue.settings)}
            listed.append(facts | {"partitions": partitions})
        return listed

    async def _behind(self) -> dict[int, int]:
        """How many offsets the new replicas of groups that move lack, as far as their leaders say so in time."""
        node, now = self._node, self._node.now()
        asked: dict[NodeId, list[GroupId]] = {}
        for group, (queue, index) in node.state.by_group.items():
            leader = node.directory.leader_of(group, now)
            if queue.partitions[index].target is not None and leader is not None:
                asked.setdefault(leader.node, []).append(group)
        found: dict[int, int] = {}
        for leading, groups in asked.items():
            try:
                said = await node.calls.ask(leading, "behind", {"groups": groups}, _ASK_S)
            except CallFailed:
                continue
            # As JSON has it, keys are text. Whoever answers something else is not believed.
            found |= {group: said[str(group)] for group in groups if isinstance(said.get(str(group)), int)}
        return found

    async def drain(self, node: int) -> None:
        await self._change(c.SetMembership(token=new_token(), node=node, membership=Membership.DRAINING))

    async def undrain(self, node: int) -> None:
        await self._change(c.SetMembership(token=new_token(), node=node, membership=Membership.JOINED))

    async def remove(self, node: int) -> None:
        await self._change(c.RemoveNode(token=new_token(), node=node))

    async def rebalance(self, *, dry_run: bool) -> list[Facts]:
        manager, state = self._node.manager, self._node.state
        room = 0 if dry_run else manager.room()
        told: list[Facts] = []
        for move in manager.evening():
            queue, index = state.by_group[move.group]
            begun = len(told) < room
            facts = {"queue": queue.name, "partition": index, "from": move.source, "to": move.to, "reason": move.reason}
            told.append(facts | {"begun": begun})
            if begun:
                await self._change(c.BeginMove(token=new_token(), group=move.group, nodes=move.nodes))
        return told

    async def join(self, said: Facts) -> Facts:
        node = self._node
        if said.get("cluster") != node.settings.cluster.id:
            raise AdminFailure(
                409, "wrong-cluster", f"this is cluster {node.settings.cluster.id!r}, not {said.get('cluster')!r}"
            )
        info = newcomer(said)
        command = c.RegisterNode(token=new_token(), node=info)
        known = node.state.nodes.get(info.id)
        if known is not None and not known.storage:
            raise AdminFailure(409, "node-exists", f"node {info.id} is at {known.peer_host}:{known.peer_port} already")
        incarnation = await self._change(command)
        return {"incarnation": incarnation, "nodes": [one.facts() for one in node.state.nodes.values()]}

    async def _change(self, command: c.Command) -> int:
        try:
            return await self._node.metadata.change(command, _CHANGE_S)
        except Refused as refusal:
            raise AdminFailure(_STATUSES.get(refusal.code, 400), refusal.code, str(refusal)) from refusal
        except CallFailed as failure:
            raise AdminFailure(503, failure.code, str(failure), definite=failure.definite, retriable=True) from failure


def newcomer(said: Facts) -> NodeInfo:
    """The node that asks to be let in. Raises AdminFailure."""
    facts = said.get("node")
    try:
        info = c.known_node(facts | {"incarnation": 0} if isinstance(facts, dict) else facts)
    except c.BadCommand as error:
        raise AdminFailure(400, "bad-request", f"that is no node: {error}") from error
    if not info.storage:
        raise AdminFailure(400, "bad-request", "a node that wants to join says which storage it has")
    return info


def _state(node: NodeInfo, health: str) -> str:
    return "draining" if health == "alive" and node.membership is Membership.DRAINING else health
