"""Several runtimes in one process, over real loopback sockets, with stores in memory: for tests of the runtime."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Self

from quorate.consensus.core import Configuration, GroupId, NodeId, Offset, RaftSettings, new_group, replica_id
from quorate.consensus.runtime import (
    MultiRaft,
    NodeConfig,
    NoSuchGroup,
    OperationFailed,
    Proposed,
    RuntimeSettings,
    StateMachine,
)
from quorate.consensus.storage.api import LogStore
from quorate.consensus.storage.memory import MemoryLog
from quorate.consensus.transport import Address, Identity, TransportSettings
from tests.support.record_batches import record_batch

CLUSTER = b"a test's cluster"
ANYWHERE = Address("127.0.0.1", 0)
G1 = GroupId(1)
PATIENCE_S = 20.0

FAST = RaftSettings(heartbeat_ms=30, election_ms=300)


class KeepOpen:
    """A store that outlives its runtime: what it holds is found again at the next start."""

    def __init__(self, store: LogStore) -> None:
        self.inner = store

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def close(self) -> None:
        """Stay open."""


async def until(condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait for a condition, with a deadline."""
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited in vain until {what}")
        await asyncio.sleep(0.002)


class Cluster:
    """Nodes 1..n, each with a replica of every group."""

    def __init__(
        self,
        nodes: int = 3,
        groups: Sequence[GroupId] = (G1,),
        *,
        raft: RaftSettings = FAST,
        runtime: RuntimeSettings | None = None,
        transport: TransportSettings | None = None,
        store: Callable[[NodeId, GroupId, Configuration], LogStore] | None = None,
        machine: Callable[[NodeId, GroupId], StateMachine | None] | None = None,
    ) -> None:
        self.ids = [NodeId(number) for number in range(1, nodes + 1)]
        self.groups = list(groups)
        self.voters = frozenset(map(replica_id, self.ids))
        self.running: dict[NodeId, MultiRaft] = {}
        self.addresses: dict[NodeId, Address] = {}
        self.stopped: list[tuple[NodeId, GroupId, str]] = []
        self.boots: dict[NodeId, int] = dict.fromkeys(self.ids, 0)
        self._raft, self._runtime = raft, runtime or RuntimeSettings()
        self._transport = transport or TransportSettings()
        self._make_store = store or (lambda node, group, members: MemoryLog(new_group(members)))
        self._make_machine = machine or (lambda node, group: None)
        self.stores: dict[tuple[NodeId, GroupId], LogStore] = {}

    async def __aenter__(self) -> Self:
        for node in self.ids:
            await self.start(node)
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in list(self.running):
            await self.stop(node)

    def config(self, node: NodeId) -> NodeConfig:
        """What a node of this cluster is made with."""
        return NodeConfig(
            identity=Identity(CLUSTER, node, self.boots[node]),
            listen=self.addresses.get(node, ANYWHERE),
            raft=self._raft,
            runtime=self._runtime,
            transport=self._transport,
            on_stopped=lambda group, reason: self.stopped.append((node, group, reason)),
        )

    async def start(self, node: NodeId, config: NodeConfig | None = None) -> MultiRaft:
        """Start a node, on what it left behind if it ran before."""
        self.boots[node] += 1
        config = config or self.config(node)
        config = replace(config, identity=config.identity._replace(boot=self.boots[node]))
        runtime = MultiRaft(config)
        await runtime.start()
        self.running[node] = runtime
        self.addresses[node] = runtime.address
        for other, peer in self.running.items():
            if other != node:
                peer.set_peer(node, runtime.address)
                runtime.set_peer(other, self.addresses[other])
        members = Configuration(voters=self.voters)
        for group in self.groups:
            store = self.stores.get((node, group))
            if store is None:
                store = self.stores[node, group] = KeepOpen(self._make_store(node, group, members))  # type: ignore[assignment]
            assert store is not None
            await self.join(runtime, node, group, store)
        return runtime

    async def join(self, runtime: MultiRaft, node: NodeId, group: GroupId, store: LogStore) -> None:
        """Run a node's replica of a group."""
        await runtime.add_group(group, replica_id(node), store, self._make_machine(node, group))

    async def stop(self, node: NodeId) -> None:
        """Stop a node cleanly."""
        await self.running.pop(node).close()

    async def crash(self, node: NodeId) -> None:
        """Stop a node without handing anything over."""
        await self.running.pop(node).close(hand_over=False)

    def leader(self, group: GroupId = G1) -> NodeId | None:
        """The running node that leads the group in the highest term."""
        statuses = [runtime.status(group) for runtime in self.running.values() if group in runtime.groups]
        leaders = [status for status in statuses if status.role.value == "leader"]
        if not leaders:
            return None
        return NodeId(max(leaders, key=lambda status: status.term).replica >> 32)

    def all_have(self, offset: Offset, group: GroupId = G1) -> bool:
        """Whether every running node knows that `offset` is committed, and has it: it may know before its disk has it."""
        statuses = [runtime.status(group) for runtime in self.running.values()]
        return all(min(status.commit, status.stable) >= offset for status in statuses)

    async def elected(self, group: GroupId = G1) -> MultiRaft:
        """The runtime of the leader, once there is one that a majority follows."""

        def settled() -> bool:
            node = self.leader(group)
            if node is None:
                return False
            status = self.running[node].status(group)
            agree = [r.status(group).leader == replica_id(node) for r in self.running.values()]
            return sum(agree) > len(self.ids) // 2 and status.commit >= 0

        await until(settled, f"group {group} has a leader")
        node = self.leader(group)
        assert node is not None
        return self.running[node]

    async def append(self, group: GroupId = G1, size: int = 200, count: int = 1, fill: bytes = b"q") -> Proposed:
        """Append a batch wherever the leader is, trying again until it is acknowledged."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            node = self.leader(group)
            try:
                if node is None:
                    raise NoSuchGroup("no leader yet")
                return await self.running[node].propose(group, record_batch(size, count, fill), count)
            except OperationFailed:
                # An uncertain one may be there twice then, which the callers allow for.
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.005)
