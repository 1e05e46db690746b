"""A local cluster under test: real processes, every link through toxiproxy, every disk and clock under control.

FOLDER/node-N/ has a node's settings, its log, its data, and the files that steer its disk and its clock. What can be done
to a node is here; which of it is done, and when, is for faults and the nemesis to say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from quorate.broker.node import toml
from quorate.broker.node.settings import (
    ClusterSection,
    Endpoint,
    ListenSection,
    Member,
    NodeSection,
    NodeSettings,
    PeersSection,
    QueuesSection,
)
from quorate.chaos.admin import AdminRefused, ask, is_whole, until
from quorate.chaos.api import NodeUnderTest
from quorate.chaos.faults.clock_control import Clock, FakeTime, FileClock
from quorate.chaos.faults.disk_control import Disk, find_library
from quorate.chaos.links import Links, client_key, pairs
from quorate.chaos.node_process import NodeProcess
from quorate.chaos.ports import free_port
from quorate.chaos.toxiproxy_server import ToxiproxyServer

_HOST = "127.0.0.1"
_LOOK_AGAIN_S = 0.1


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """What a cluster under test is made with."""

    nodes: int = 3
    spare: int = 6
    """Nodes that may be added later, each once: their addresses and links are there from the start."""
    sabotage: str | None = None
    """A bug to plant in every node (`broker.node.sabotage`)."""
    faketime: bool = False
    """Shift clocks with libfaketime instead of the node's own test switch."""
    queue_replication: int = 3
    ready_s: float = 120.0
    """How long the cluster may take to become whole, at the start and after faults."""


@dataclass(frozen=True, slots=True)
class Handles:
    """Everything about one node."""

    settings: NodeSettings
    process: NodeProcess
    disk: Disk
    clock: Clock


class ClusterUnderTest:
    """Fits `System`. `start` and `stop`; in between everything may be broken, and `heal` mends it."""

    def __init__(self, folder: Path, options: ClusterOptions | None = None) -> None:
        self.folder = folder.resolve()
        self.options = options if options is not None else ClusterOptions()
        self._proxy = ToxiproxyServer(self.folder / "toxiproxy.log")
        self._links: Links | None = None
        self._handles: dict[int, Handles] = {}
        self._clients: dict[int, str] = {}
        self._gone: set[int] = set()
        self._leaving: set[int] = set()
        """Nodes that the cluster was asked to forget, and may have forgotten."""
        self.members: list[int] = []
        """The nodes that should be part of the cluster now."""
        self.tainted: set[int] = set()
        """Nodes that may not be right again before they were started anew."""

    # What everybody sees.

    @property
    def bootstrap(self) -> str:
        return ",".join(self._clients[node] for node in self.members)

    @property
    def nodes(self) -> Mapping[int, NodeUnderTest]:
        return {
            node: NodeUnderTest(
                kafka=self._clients[node],
                http=self.http(node),
                log=self._handles[node].process.log,
                data=self._handles[node].settings.node.dir,
            )
            for node in self.members
        }

    @property
    def links(self) -> Links:
        if self._links is None:
            raise RuntimeError("the cluster was not started")
        return self._links

    @property
    def spares(self) -> Sequence[int]:
        """Numbers of nodes that may still be added. A number is never used again."""
        return [node for node in self._handles if node not in self.members and node not in self._gone]

    def _of(self, node: int) -> Handles:
        found = self._handles.get(node)
        if found is None:
            raise ValueError(f"there is no node {node}")
        return found

    def http(self, node: int) -> str:
        return f"http://{self._handles[node].settings.listen.http}"

    def process(self, node: int) -> NodeProcess:
        return self._of(node).process

    def disk(self, node: int) -> Disk:
        return self._of(node).disk

    def clock(self, node: int) -> Clock:
        return self._of(node).clock

    # Life.

    async def start(self) -> None:
        """Bring every node up, and return when each of them sees a whole cluster. Raises NotHere, TimeoutError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        first = list(range(1, self.options.nodes + 1))
        library = await asyncio.to_thread(find_library)
        await self._proxy.start()
        self._links = Links(self._proxy.port)
        listens = {node: _listen() for node in range(1, self.options.nodes + self.options.spare + 1)}
        dialed = {}
        for node, listen in listens.items():
            self._clients[node] = await self.links.add(client_key(node), str(listen.kafka))
        for key in pairs(list(listens)):
            dialed[key] = await self.links.add(key, str(listens[key.node].peer))
        for node, listen in listens.items():
            dial = tuple(Member(key.node, Endpoint.parse(at)) for key, at in dialed.items() if key.dialer == node)
            members = tuple(Member(one, listens[one].peer) for one in first) if node in first else ()
            join = () if node in first else tuple(listens[one].http for one in first)
            self._handles[node] = self._make(
                NodeSettings(
                    node=NodeSection(id=node, dir=self.folder / f"node-{node}" / "data"),
                    cluster=ClusterSection(id="chaos", members=members, join=join),
                    listen=ListenSection(
                        kafka=listen.kafka,
                        http=listen.http,
                        peer=listen.peer,
                        advertise_kafka=Endpoint.parse(self._clients[node]),
                    ),
                    peers=PeersSection(dial=dial),
                    queues=QueuesSection(replication=min(self.options.queue_replication, self.options.nodes)),
                ),
                library,
            )
        self.members = first
        for node in first:
            self.process(node).start()
        await self.until_whole()

    def _make(self, settings: NodeSettings, library: Path) -> Handles:
        folder = settings.node.dir.parent
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "node.toml").write_text(toml.dump(settings))
        disk = Disk(settings.node.dir, folder / "disk")
        clock = (FakeTime if self.options.faketime else FileClock)(folder / "clock")
        environment = _merged(disk.environment(library), clock.environment())
        arguments = [*clock.arguments()]
        if self.options.sabotage is not None:
            arguments += ["--sabotage", self.options.sabotage]
        process = NodeProcess(folder / "node.toml", folder / "log", arguments, environment)
        return Handles(settings, process, disk, clock)

    async def stop(self) -> None:
        """Stop every node, politely if it can still hear, and toxiproxy. May be called twice."""
        try:
            for handles in self._handles.values():
                handles.disk.heal()
            await asyncio.gather(*(handles.process.stop() for handles in self._handles.values()))
        finally:
            for handles in self._handles.values():
                await handles.process.kill()
            await self._proxy.stop()

    async def restart(self, node: int) -> None:
        """kill -9, and start again."""
        await self.process(node).kill()
        self.process(node).start()

    async def heal(self) -> None:
        """End every fault, bring every node up, and wait until each sees a whole cluster. Raises TimeoutError."""
        await self.links.heal()
        for node in self.members:
            handles = self._handles[node]
            handles.disk.heal()
            handles.clock.set(0)
            handles.process.resume()
            if node in self._leaving:
                continue  # started again it would only be refused
            if node in self.tainted:
                await handles.process.kill()
            handles.process.start()
        self.tainted.clear()
        for node in sorted(self._leaving):
            await until(partial(self.remove_node, node), self.options.ready_s, f"node {node} is not removed")
        await self.until_whole()
        await self._undrain_all()

    async def until_whole(self) -> None:
        """Wait until every node is ready, sees all others, and knows every leader. Raises TimeoutError."""
        waiting = set(self.members)
        try:
            async with asyncio.timeout(self.options.ready_s):
                while waiting:
                    whole = await asyncio.gather(*(is_whole(self.http(node), len(self.members)) for node in waiting))
                    waiting = {node for node, done in zip(waiting, whole, strict=True) if not done}
                    if waiting:
                        await asyncio.sleep(_LOOK_AGAIN_S)
        except TimeoutError as error:
            ends = "\n".join(
                f"--- node {node} (runs: {self.process(node).runs})\n{self.process(node).tail()}" for node in waiting
            )
            raise TimeoutError(
                f"nodes {sorted(waiting)} see no whole cluster after {self.options.ready_s:.0f} s\n{ends}"
            ) from error

    # Administration.

    async def ask_any(self, method: str, path: str, body: object = None, but: int = 0) -> object:
        """Ask the nodes one after another, all `but` one, until one answers. Raises AdminRefused."""
        trouble = AdminRefused("no node runs")
        for node in self.members:
            if node != but and self.process(node).runs and not self.process(node).paused:
                try:
                    return await ask(self.http(node), method, path, body, timeout_s=12.0)
                except AdminRefused as refused:
                    trouble = refused
        raise trouble

    async def _undrain_all(self) -> None:
        said = await ask(self.http(self.members[0]), "GET", "/v1/nodes")
        for one in said["nodes"]:
            if one["state"] == "draining":
                await self.ask_any("POST", f"/v1/nodes/{one['id']}/undrain")

    def add_node(self, node: int) -> None:
        """Start one of the spares, which asks to be let in. Returns before it is ready."""
        self.process(node).start()
        self.members.append(node)

    async def facts_of(self, node: int) -> Mapping[str, Any] | None:
        """What the cluster says of a node; None if it knows none of this number. Raises AdminRefused."""
        said: Any = await self.ask_any("GET", "/v1/nodes", but=node)
        return next((one for one in said["nodes"] if one["id"] == node), None)

    async def remove_node(self, node: int) -> bool:
        """Let the cluster forget a node that holds nothing; whether it has. Ask again until then. Raises AdminRefused."""
        self._leaving.add(node)
        if await self.facts_of(node) is not None:
            await self.ask_any("DELETE", f"/v1/nodes/{node}", but=node)
            return False
        # It ends by itself, unless it has not heard of it.
        self.members.remove(node)
        self._leaving.discard(node)
        self._gone.add(node)
        await self.process(node).stop()
        return True


def _listen() -> ListenSection:
    kafka, http, peer = (Endpoint(_HOST, free_port()) for _ in range(3))
    return ListenSection(kafka=kafka, http=http, peer=peer)


def _merged(*environments: Mapping[str, str]) -> dict[str, str]:
    """All of these; libraries to preload are put in a row."""
    merged: dict[str, str] = {}
    for one in environments:
        for name, value in one.items():
            merged[name] = f"{merged[name]}:{value}" if name == "LD_PRELOAD" and name in merged else value
    return merged
