"""A running cluster as the system under test (`--against`): nothing but its bootstrap addresses is known.

Nothing of it is started, stopped or broken; only the links of clients to these addresses are, if toxiproxy is there. Kafka
clients are told by the cluster where its nodes are, and go there past every proxy, unless the cluster is made to advertise
addresses that lead through one. So what is hit here is above all how clients come in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from quorate.broker.node.settings import Endpoint
from quorate.chaos.api import NodeUnderTest
from quorate.chaos.cache import NotHere
from quorate.chaos.links import Links, client_key
from quorate.chaos.toxiproxy_server import ToxiproxyServer

_CONNECT_S = 60.0
_LOOK_AGAIN_S = 0.2


class RunningCluster:
    """Fits `System`."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        """`bootstrap` is a list of host:port. Raises BadSettings."""
        self._addresses = [Endpoint.parse(one.strip()) for one in bootstrap.split(",") if one.strip()]
        self._proxy = ToxiproxyServer(folder / "toxiproxy.log")
        self._links: Links | None = None
        self._clients: dict[int, str] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(self._clients.values())

    @property
    def nodes(self) -> Mapping[int, NodeUnderTest]:
        """The addresses that were given, numbered as they came: the nodes' own numbers are not known."""
        return {number: NodeUnderTest(kafka=address, http="") for number, address in self._clients.items()}

    @property
    def links(self) -> Links | None:
        """The links of clients; None where there is no toxiproxy."""
        return self._links

    async def start(self) -> None:
        """Find toxiproxy, if it is here, and wait until some node answers. Raises TimeoutError."""
        addresses = dict(enumerate(self._addresses, 1))
        self._clients = {number: str(address) for number, address in addresses.items()}
        try:
            await self._proxy.start()
        except NotHere:
            pass
        else:
            self._links = Links(self._proxy.port)
            for number, address in addresses.items():
                self._clients[number] = await self._links.add(client_key(number), str(address))
        await self._until_reachable()

    async def stop(self) -> None:
        await self._proxy.stop()

    async def heal(self) -> None:
        if self._links is not None:
            await self._links.heal()
        await self._until_reachable()

    async def _until_reachable(self) -> None:
        """Some node can be connected to. Raises TimeoutError."""
        async with asyncio.timeout(_CONNECT_S):
            while True:
                for host, port in self._addresses:
                    try:
                        _, writer = await asyncio.open_connection(host, port)
                    except OSError:
                        continue
                    writer.close()
                    return
                await asyncio.sleep(_LOOK_AGAIN_S)
