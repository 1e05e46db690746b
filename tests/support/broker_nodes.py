"""Whole nodes in one process, each with its folder and its peer listener, without Kafka's and HTTP's: for tests that have to
stop them at one certain moment."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Self

from bench.peers.processes import free_base_port
from quorate.broker.kafka.backend import KafkaFailure, NewQueue
from quorate.broker.node.backend import NodeBackend
from quorate.broker.node.folder import open_folder
from quorate.broker.node.node import Node
from quorate.broker.node.parts import Parts
from quorate.broker.node.settings import (
    ClusterSection,
    Endpoint,
    ListenSection,
    Member,
    NodeSection,
    NodeSettings,
    QueuesSection,
    RaftSection,
)
from quorate.broker.partition.partition import Partition
from quorate.consensus.runtime import next_boot
from tests.support.cluster import until

_HOST = "127.0.0.1"


class BrokerNodes:
    """Nodes 1..n. `parts` is what each is put together from."""

    def __init__(self, folder: Path, parts: Parts | None = None, nodes: int = 3) -> None:
        base = free_base_port([kind + node for kind in (0, 100, 200) for node in range(nodes)])
        members = tuple(Member(node, Endpoint(_HOST, base + 199 + node)) for node in range(1, nodes + 1))
        self._parts = parts or Parts()
        self._settings = {
            node: NodeSettings(
                node=NodeSection(id=node, dir=folder / f"node-{node}"),
                cluster=ClusterSection(id="test", members=members),
                listen=ListenSection(
                    kafka=Endpoint(_HOST, base - 1 + node),
                    http=Endpoint(_HOST, base + 99 + node),
                    peer=members[node - 1].peer,
                ),
                queues=QueuesSection(group_partitions=1),
                raft=RaftSection(heartbeat_ms=30, election_ms=300),
            )
            for node in range(1, nodes + 1)
        }
        self.running: dict[int, Node] = {}
        self._work: dict[int, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        for node in self._settings:
            await self.start(node)
        await until(lambda: all(node.ready for node in self.running.values()), "all are ready")
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in list(self.running):
            await self.stop(node)

    async def start(self, number: int) -> Node:
        """Start a node, on what it left behind if it ran before."""
        settings = self._settings[number]
        folder = open_folder(settings)
        node = Node(settings, folder, next_boot(folder.path), replace(self._parts))
        await node.find_place()
        await node.start()
        self.running[number] = node
        self._work[number] = asyncio.create_task(node.run())
        return node

    async def stop(self, number: int, *, hand_over: bool = True) -> None:
        """Stop a node; without handing over, as if it had died."""
        node, work = self.running.pop(number), self._work.pop(number)
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
        if not hand_over:
            await node.runtime.close(hand_over=False)
        await node.close()

    def backend(self, number: int | None = None) -> NodeBackend:
        """A node as its Kafka listener sees it."""
        return NodeBackend(self.running[number if number is not None else min(self.running)])

    async def create(self, name: str, partitions: int = 1, **settings: str) -> None:
        """A new queue, which all nodes know."""
        wish = NewQueue(name, partitions, 3, None, {key.replace("_", "."): value for key, value in settings.items()})
        [made] = await self.backend().create_queues([wish], validate_only=False, timeout_ms=20_000)
        assert not isinstance(made, KafkaFailure), made
        await until(lambda: all(name in node.state.queues for node in self.running.values()), "all know the queue")

    async def led(self, name: str, index: int = 0) -> tuple[int, Partition]:
        """The node that leads a partition and has applied everything, and the partition."""
        found: list[tuple[int, Partition]] = []

        def look() -> bool:
            found.clear()
            for number, node in self.running.items():
                group = node.state.queues[name].partitions[index].group
                partition = node.replicas.partitions.get(group)
                if partition is not None and partition.leads and partition._applied >= partition._term_start:
                    found.append((number, partition))
            return len(found) == 1

        await until(look, f"{name}/{index} is led")
        return found[0]
