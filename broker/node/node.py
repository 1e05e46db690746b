"""A node: everything that runs in one process, put together, started in order, and stopped in the opposite one."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import shutil
from contextlib import suppress
from dataclasses import replace

from quorate.broker.cluster import commands as c
from quorate.broker.cluster.calls import ANSWER, CALL, STATUS, Body, CallFailed, Calls
from quorate.broker.cluster.directory import Directory, Status
from quorate.broker.cluster.manager import Manager, ManagerSettings
from quorate.broker.cluster.service import Metadata, new_token
from quorate.broker.cluster.state import ClusterState, Refused, Result
from quorate.broker.cluster.values import CLUSTER_GROUP, FOUNDER, GROUPS_QUEUE, NodeInfo
from quorate.broker.node.committer import Committer
from quorate.broker.node.folder import CannotStart, NodeFolder
from quorate.broker.node.hosting import Hosting, Room
from quorate.broker.node.joining import ask_to_join
from quorate.broker.node.moving import Mover, caught_up
from quorate.broker.node.parts import Parts, system_time
from quorate.broker.node.replicas import Replicas, Silent
from quorate.broker.node.settings import Endpoint, NodeSettings
from quorate.consensus.core import (
    GroupId,
    Millis,
    NodeId,
    RaftSettings,
    ReplicaId,
    RoleChange,
    node_of,
    replica_id,
)
from quorate.consensus.runtime import NodeConfig, OperationFailed, RuntimeSettings
from quorate.consensus.storage.api import StorageError
from quorate.consensus.storage.settings import StorageSettings
from quorate.consensus.transport import Address, Identity, Problem, Refusal

_log = logging.getLogger(__name__)

_STATUS_S = 0.2
_MOVE_S = 0.2
_REGISTER_S = 3.0
_COMPLAIN_S = 15.0
_SNAPSHOT_OFFSETS = 10_000
"""After so many offsets the small logs (`@cluster`, `@groups`) are replaced by a snapshot."""


class Node:
    """One node. `start`, then `run` until it is cancelled, then `close`."""

    def __init__(self, settings: NodeSettings, folder: NodeFolder, boot: int, parts: Parts | None = None) -> None:
        parts = parts if parts is not None else Parts(time=system_time(settings))
        self.settings = settings
        self.folder = folder
        self._time = parts.time
        self.id = NodeId(settings.node.id)
        self.info = node_info(settings, folder.storage)
        self._loop = asyncio.get_running_loop()
        self._peers: dict[NodeId, Address] = {}
        self._dial = {NodeId(node): _address(endpoint) for node, endpoint in settings.peers.dial}
        self._boot = boot
        self.state = ClusterState()
        self.runtime = parts.runtime(self._runtime_config())
        self.calls = Calls(self.id, self.runtime.tell)
        self.metadata = Metadata(self.runtime, self.calls, self.state)
        manager = settings.manager
        self.directory = Directory(self.id, self.now(), manager.suspect_after_ms, manager.dead_after_s * 1000)
        self.replicas = Replicas(self.runtime, self.state, self._role_changed, parts)
        room = Room(folder.path, self.id, self._storage_settings(), parts.open_log)
        self._room = room
        self.hosting = Hosting(self.state, self.id, room, self.replicas.start, self.replicas.stop)
        self.committer = Committer(
            self.runtime, self.metadata, self.calls, self.directory, self.replicas, self._time, self.now
        )
        self._mover = Mover(self.runtime, self.metadata, self.directory, self.manages, self.now, settings.raft.election_ms)
        self.manager = Manager(self.metadata, self.calls, self.directory, self.manages, self.now, self._manager_settings())
        self._news = asyncio.Event()
        """There is something to tell the other nodes at once."""
        self.is_ready = asyncio.Event()
        self._barred: asyncio.Future[str] = self._loop.create_future()
        """Set when another node has said that this one must not come back as it is, and why."""
        self.state.listeners.append(self._changed)
        self.state.on_loaded.append(self._refresh)
        self.calls.on("transfer", self._asked_to_transfer)
        self.calls.on("behind", self._asked_how_far)

    def _runtime_config(self) -> NodeConfig:
        settings = self.settings
        cluster = hashlib.sha256(settings.cluster.id.encode()).digest()[:16]
        return NodeConfig(
            identity=Identity(cluster, self.id, self._boot, bytes.fromhex(self.folder.storage)),
            listen=_address(settings.listen.peer),
            time=self._time,
            raft=RaftSettings(heartbeat_ms=settings.raft.heartbeat_ms, election_ms=settings.raft.election_ms),
            runtime=RuntimeSettings(
                beat_ms=settings.raft.heartbeat_ms,
                writer_threads=settings.storage.writer_threads,
                learner_bytes_per_s=settings.manager.move_bytes_per_s,
            ),
            on_note=self._noted,
            on_peer=self._peer_changed,
            admit=self._admit,
            on_refused=self._refused,
        )

    def _storage_settings(self) -> StorageSettings:
        storage = self.settings.storage
        return StorageSettings(write_buffer_bytes=storage.write_buffer_bytes, reserve_bytes=storage.reserve_bytes)

    def _manager_settings(self) -> ManagerSettings:
        settings = self.settings
        members = len(settings.cluster.members)
        return ManagerSettings(
            moves_at_once=settings.manager.moves_at_once,
            balance=settings.manager.balance,
            group_partitions=settings.queues.group_partitions,
            replication=min(settings.queues.replication, members) if members else settings.queues.replication,
            founders=max(1, members),
        )

    def now(self) -> Millis:
        """Monotonic, in milliseconds."""
        return Millis(int(self._loop.time() * 1000))

    @property
    def ready(self) -> bool:
        """Whether clients can be served."""
        return self.is_ready.is_set()

    def manages(self) -> bool:
        """Whether this node leads `@cluster`, and knows all of it."""
        standing = self.runtime.status(CLUSTER_GROUP)
        return CLUSTER_GROUP in self.replicas.led and standing.applied >= standing.commit

    # Life.

    async def find_place(self) -> None:
        """Be let in: learn which replica of `@cluster` this node has, the one that it had, a founder's, or one that it is
        given now. Comes before `start`. Raises CannotStart.
        """
        incarnation = self._room.incarnation(CLUSTER_GROUP)
        if incarnation is None and self.settings.cluster.join:
            incarnation = await ask_to_join(self.settings, replace(self.info, incarnation=0), self.folder)
        self.info = replace(self.info, incarnation=incarnation or FOUNDER)

    async def start(self) -> None:
        """Listen to the other nodes, and take part in `@cluster`. Raises CannotStart."""
        try:
            await self.runtime.start()
        except OSError as error:
            raise CannotStart(f"cannot listen on {self.settings.listen.peer} for other nodes: {error.strerror}") from error
        members = {NodeId(node): _address(endpoint) for node, endpoint in self.settings.cluster.members}
        known = {node: peer.address for node, peer in self.folder.peers.items()}
        for node, address in (members | known).items():
            self.meet(node, address)
        await self._start_cluster_replica(tuple(replica_id(node, FOUNDER) for node in members))

    async def _start_cluster_replica(self, first: tuple[ReplicaId, ...]) -> None:
        replica = self.info.replica
        try:
            log = await asyncio.to_thread(self._room.open, CLUSTER_GROUP, replica, first)
            if log is None:
                raise CannotStart(f"node {self.id} was removed from its cluster: give the new one another number")
            watcher = self.replicas.herald(CLUSTER_GROUP, Silent())
            await self.runtime.add_group(CLUSTER_GROUP, replica, log, self.state, watcher=watcher)
        except (StorageError, OSError, ValueError) as error:
            raise CannotStart(f"the log of `@cluster` cannot be opened: {error}") from error

    async def run(self) -> None:
        """Do all that a node does beside answering clients, for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.hosting.run())
            tasks.create_task(self.manager.run())
            tasks.create_task(self.committer.run())
            tasks.create_task(self._tell_status())
            tasks.create_task(self._move())
            tasks.create_task(self._keep_house())
            tasks.create_task(self._register())
            tasks.create_task(self._heed_refusal())

    async def hand_over(self) -> None:
        """Lead nothing any more, as far as there is somebody else; requests are still answered, mostly by who leads now.

        Whoever waits for a coordinator is sent away: a member that joins may wait for minutes.
        """
        self.is_ready.clear()
        await self.runtime.hand_over()
        self.replicas.close()

    async def close(self) -> None:
        """Hand over what is led here, and let go of everything."""
        self.is_ready.clear()
        self.replicas.close()
        await self.calls.close()
        await self.runtime.close()

    # Other nodes.

    def meet(self, node: NodeId, address: Address) -> None:
        """There is another node at this address, unless the settings know a better way to it."""
        address = self._dial.get(node, address)
        if node != self.id and self._peers.get(node) != address:
            self._peers[node] = address
            self.runtime.set_peer(node, address)

    def _admit(self, identity: Identity) -> Problem | None:
        """Whether another node may be taken in: asked at every handshake, before a word of it counts."""
        node, address = identity.node, self._peers.get(identity.node)
        if address is None:
            return (Refusal.BARRED, _removed(node)) if node in self.state.gone else None
        try:
            problem = self.folder.admit(node, identity.storage.hex(), address)
        except OSError as error:
            return Refusal.UNKNOWN_NODE, f"node {node} cannot be remembered now: {error}"
        return (Refusal.BARRED, problem) if problem is not None else None

    def _refused(self, reason: Refusal, text: str) -> None:
        if reason is Refusal.BARRED and not self._barred.done():
            self._barred.set_result(text)

    async def _heed_refusal(self) -> None:
        raise CannotStart(f"the cluster does not take this node: {await self._barred}")

    def _peer_changed(self, node: NodeId, up: bool) -> None:
        self.directory.connected(node, up, self.now())

    def _noted(self, node: NodeId, note: bytes) -> None:
        kind = note[:1]
        if kind == STATUS:
            try:
                self.directory.hear(node, Status.decode(note[1:]), self.now())
            except ValueError as error:
                _log.warning("node %s sent a status that cannot be read: %s", node, error)
        elif kind in (CALL, ANSWER):
            self.calls.hear(node, note)

    def _role_changed(self, group: GroupId, change: RoleChange) -> None:
        if change.leader:
            self.directory.learn(group, node_of(change.leader), change.term)
        elif group not in self.replicas.led:
            self.directory.resign(group)
        if group in self.replicas.led:
            self._news.set()
            self.committer.poke()

    async def _tell_status(self) -> None:
        """A few times a second, and at once when something is led here that was not."""
        while True:
            free = shutil.disk_usage(self.settings.node.dir).free
            led = tuple(self.replicas.led.items())
            note = STATUS + Status(self._boot, len(self.hosting.running), free, led).encode()
            for node in self._peers:
                self.runtime.tell(node, note)
            with suppress(TimeoutError):
                async with asyncio.timeout(_STATUS_S):
                    await self._news.wait()
            self._news.clear()

    async def _asked_to_transfer(self, node: NodeId, body: Body) -> Body:
        try:
            group, to = GroupId(int(body["group"])), ReplicaId(int(body["to"]))
            if not await caught_up(self.runtime, group, [to], self.settings.raft.election_ms):
                raise CallFailed("not-transferred", f"node {node_of(to)} lags behind in group {group}", definite=True)
            await self.runtime.transfer(group, to)
        except (KeyError, TypeError, ValueError) as error:
            raise CallFailed("bad-request", f"a transfer that cannot be read: {error}", definite=True) from error
        except OperationFailed as error:
            raise CallFailed("not-transferred", str(error), definite=error.definite) from error
        return {}

    async def _asked_how_far(self, node: NodeId, body: Body) -> Body:
        try:
            groups = [GroupId(int(group)) for group in body["groups"]]
        except (KeyError, TypeError, ValueError) as error:
            raise CallFailed("bad-request", f"groups that cannot be read: {error}", definite=True) from error
        return {str(group): count for group, count in self._mover.behind(groups).items()}

    # The metadata.

    def _changed(self, command: c.Command, result: Result) -> None:
        if isinstance(result, Refused):
            return
        self.committer.poke()
        if isinstance(command, c.StagedCommand):
            return
        if isinstance(command, c.DeleteQueue):
            self.replicas.forget_queue(command.name)
        self._refresh()

    def _refresh(self) -> None:
        self.committer.poke()
        for node, info in self.state.nodes.items():
            if node != self.id:
                address = Address(info.peer_host, info.peer_port)
                self.folder.learn(node, info.storage, address)
                self.meet(node, address)
        self.directory.forget([group for group in self.directory.leaders if group and group not in self.state.by_group])
        self.replicas.refresh_settings()
        self.hosting.poke()

    def _part_with_removed(self) -> None:
        """Have nothing more to do with nodes that were removed, once `@cluster` does not need them to decide on that."""
        needed = {node_of(one) for one in self.runtime.configuration(CLUSTER_GROUP).members}
        for node in (self.state.gone & self._peers.keys()) - needed:
            _log.info("node %s was removed from the cluster", node)
            del self._peers[node]
            self.runtime.remove_peer(node, _removed(node))
            self.folder.forget(node)

    async def _register(self) -> None:
        """Be known to the cluster, at the addresses that this node has now; then say that it is ready."""
        complain_at = self._loop.time() + _COMPLAIN_S
        while True:
            known = self.state.nodes.get(self.id)
            if known is None or {**known.facts(), "membership": ""} != {**self.info.facts(), "membership": ""}:
                try:
                    await self.metadata.change(c.RegisterNode(token=new_token(), node=self.info), _REGISTER_S)
                except CallFailed as failure:
                    _log.info("not registered yet: %s", failure)
                    if self._loop.time() > complain_at:
                        complain_at = self._loop.time() + _COMPLAIN_S
                        _log.warning(
                            "no majority of the cluster has taken this node in for %.0f s: %s of its nodes can be reached"
                            " from here; are the others down, or was this one removed?",
                            _COMPLAIN_S,
                            len(self.runtime.network.connected),
                        )
                    await asyncio.sleep(_STATUS_S)
                except Refused as refusal:
                    raise CannotStart(str(refusal)) from refusal
                continue
            self.hosting.poke()
            if self._is_ready():
                self.is_ready.set()
                return
            await asyncio.sleep(0.02)

    def _is_ready(self) -> bool:
        """Whether clients can be served: every coordinator of groups is known, and what should run here runs."""
        groups = self.state.queues.get(GROUPS_QUEUE)
        if groups is None:
            return False
        now = self.now()
        return all(self.directory.leader_of(partition.group, now) is not None for partition in groups.partitions)

    # What is done now and then.

    async def _move(self) -> None:
        while True:
            await asyncio.sleep(_MOVE_S)
            self._part_with_removed()
            await self._mover.step(list(self.replicas.led))

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(self.settings.storage.retention_check_s)
            for partition in list(self.replicas.partitions.values()):
                await partition.housekeep()
                await self.committer.expire(partition)
            for coordination in list(self.replicas.coordinations.values()):
                coordination.expire_offsets(self._time.now())
            for group in (CLUSTER_GROUP, *self.replicas.coordinations):
                await self._shorten(group)

    async def _shorten(self, group: GroupId) -> None:
        """A log whose state is small is replaced by that."""
        try:
            status = self.runtime.status(group)
            if status.applied - status.start > _SNAPSHOT_OFFSETS:
                await self.runtime.compact(group, status.applied)
        except (OperationFailed, StorageError) as error:
            _log.info("group %s: its log is not shortened now: %s", group, error)


def _removed(node: NodeId) -> str:
    return f"node {node} was removed from the cluster, and its number is not used again: give the new one another number"


def node_info(settings: NodeSettings, storage: str) -> NodeInfo:
    """What a node tells the cluster of itself."""
    listen = settings.listen
    kafka = listen.advertise_kafka or Endpoint(listen.advertise or listen.kafka.host, listen.kafka.port)
    peer = listen.advertise_peer or Endpoint(listen.advertise or listen.peer.host, listen.peer.port)
    return NodeInfo(
        id=NodeId(settings.node.id),
        host=kafka.host,
        kafka_port=kafka.port,
        http_port=listen.http.port,
        peer_host=peer.host,
        peer_port=peer.port,
        rack=settings.node.rack,
        storage=storage,
    )


def _address(endpoint: Endpoint) -> Address:
    return Address(endpoint.host, endpoint.port)
