"""Broken networks: partitions of several shapes, links that flap, and links that are slow, narrow or unreliable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Final

from quorate.chaos.cluster import ClusterUnderTest
from quorate.chaos.faults.api import Drawn, Fault, Linked, LinkFault, Parameters, listed, some_of
from quorate.chaos.links import BOTH, DROP, Key, Stream, Toxic, between, client_key, peer_key, stream_from


def _claims(keys: Sequence[Key]) -> frozenset[str]:
    return frozenset(f"link {key}" for key in keys)


class Partition(Fault):
    """A minority is cut off from the rest, in both directions. Clients still reach both sides."""

    kind = "partition"

    def draw(self, rng: Random, nodes: Sequence[int]) -> Drawn:
        few = some_of(rng, nodes)
        rest = [node for node in nodes if node not in few]
        how = rng.choice(["drop", "drop", "refuse"])
        return Drawn(f"{listed(few)} from {listed(rest)} ({how})", {"sides": [few, rest], "how": how})

    def victims(self, parameters: Parameters) -> frozenset[int]:
        return frozenset(parameters["sides"][0])

    def claims(self, parameters: Parameters) -> frozenset[str]:
        return _claims(between(*parameters["sides"]))

    @asynccontextmanager
    async def inflict(self, cluster: ClusterUnderTest, parameters: Parameters) -> AsyncIterator[None]:
        keys = between(*parameters["sides"])
        if parameters["how"] == "refuse":
            await cluster.links.refuse(keys)
            try:
                yield
            finally:
                await cluster.links.accept(keys)
        else:
            made = await cluster.links.poison(keys, DROP)
            try:
                yield
            finally:
                await cluster.links.cure(made)


class OneWay(Fault):
    """One node is heard by nobody and hears all, or the other way round."""

    kind = "asymmetric"

    def draw(self, rng: Random, nodes: Sequence[int]) -> Drawn:
        node, deaf = rng.choice(sorted(nodes)), rng.random() < 0.5
        others = [other for other in nodes if other != node]
        flows = [[other, node] if deaf else [node, other] for other in others]
        return Drawn(f"node {node} is {'deaf' if deaf else 'mute'}", {"node": node, "flows": flows})

    def victims(self, parameters: Parameters) -> frozenset[int]:
        return frozenset([parameters["node"]])

    def claims(self, parameters: Parameters) -> frozenset[str]:
        return _claims([peer_key(*flow) for flow in parameters["flows"]])

    @asynccontextmanager
    async def inflict(self, cluster: ClusterUnderTest, parameters: Parameters) -> AsyncIterator[None]:
        made: list[tuple[Key, str]] = []
        try:
            for source, to in parameters["flows"]:
                toxic = Toxic(DROP.type, DROP.attributes, (stream_from(source, to),))
                made += await cluster.links.poison([peer_key(source, to)], toxic)
            yield
        finally:
            await cluster.links.cure(made)


class Bridge(Fault):
    """Two halves do not see each other, but both see one node between them."""

    kind = "bridge"

    def draw(self, rng: Random, nodes: Sequence[int]) -> Drawn:
        order = rng.sample(sorted(nodes), len(nodes))
        bridge, rest = order[0], order[1:]
        halves = [sorted(rest[: len(rest) // 2]), sorted(rest[len(rest) // 2 :])]
        return Drawn(f"{listed(halves[0])} | node {bridge} | {listed(halves[1])}", {"halves": halves, "bridge": bridge})

    def victims(self, parameters: Parameters) -> frozenset[int]:
        # Each half and the bridge are a majority of three; to leave one out is as bad as it gets.
        return frozenset(parameters["halves"][0])

    def claims(self, parameters: Parameters) -> frozenset[str]:
        return _claims(between(*parameters["halves"]))

    @asynccontextmanager
    async def inflict(self, cluster: ClusterUnderTest, parameters: Parameters) -> AsyncIterator[None]:
        made = await cluster.links.poison(between(*parameters["halves"]), DROP)
        try:
            yield
        finally:
            await cluster.links.cure(made)


class Flap(Fault):
    """The links of one node break and come back, again and again."""

    kind = "flap"

    def draw(self, rng: Random, nodes: Sequence[int]) -> Drawn:
        node = rng.choice(sorted(nodes))
        others = [other for other in nodes if other != node]
        down_s, up_s = round(rng.uniform(0.1, 1.5), 2), round(rng.uniform(0.1, 1.5), 2)
        target = f"node {node}: {down_s} s down, {up_s} s up"
        return Drawn(target, {"node": node, "others": others, "down_s": down_s, "up_s": up_s})

    def victims(self, parameters: Parameters) -> frozenset[int]:
        return frozenset([parameters["node"]])

    def claims(self, parameters: Parameters) -> frozenset[str]:
        return _claims(between([parameters["node"]], parameters["others"]))

    @asynccontextmanager
    async def inflict(self, cluster: ClusterUnderTest, parameters: Parameters) -> AsyncIterator[None]:
        keys = between([parameters["node"]], parameters["others"])
        flapping = asyncio.create_task(self._flap(cluster, keys, parameters), name="flap")
        try:
            yield
        finally:
            flapping.cancel()
            with suppress(asyncio.CancelledError):
                await flapping
            await cluster.links.accept(keys)

    async def _flap(self, cluster: ClusterUnderTest, keys: Sequence[Key], parameters: Parameters) -> None:
        while True:
            await cluster.links.refuse(keys)
            await asyncio.sleep(parameters["down_s"])
            await cluster.links.accept(keys)
            await asyncio.sleep(parameters["up_s"])


_TOXICS: Final = ("latency", "jitter", "bandwidth", "slicer", "reset", "limit", "timeout")


def _draw_toxic(rng: Random, name: str) -> tuple[str, dict[str, int]]:
    """toxiproxy's name for it, and how bad it is."""
    match name:
        case "latency":
            return "latency", {"latency": rng.randint(20, 250), "jitter": 0}
        case "jitter":
            return "latency", {"latency": 60, "jitter": rng.randint(20, 60)}
        case "bandwidth":
            return "bandwidth", {"rate": rng.randint(20, 500)}
        case "slicer":
            return "slicer", {"average_size": rng.randint(20, 200), "size_variation": 10, "delay": rng.randint(10, 500)}
        case "reset":
            return "reset_peer", {"timeout": rng.randint(50, 800)}
        case "limit":
            return "limit_data", {"bytes": rng.randint(1_000, 200_000)}
        case _:
            return "timeout", {"timeout": rng.randint(200, 2_000)}


class Toxics(LinkFault):
    """Some links delay, squeeze, slice, reset or cut off what goes through them. `clients_only` leaves peers alone."""

    kind = "slow-net"

    def __init__(self, *, clients_only: bool = False) -> None:
        self._clients_only = clients_only

    def draw(self, rng: Random, nodes: Sequence[int]) -> Drawn:
        keys = [client_key(node) for node in sorted(nodes)]
        if not self._clients_only:
            keys += [peer_key(one, other) for one in nodes for other in nodes if one < other]
        chosen = sorted(rng.sample(keys, rng.randint(1, len(keys))))
        name = rng.choice(_TOXICS)
        type_, attributes = _draw_toxic(rng, name)
        streams = rng.choice([["upstream"], ["downstream"], [one.value for one in BOTH]])
        parameters = {"links": [list(key) for key in chosen], "type": type_, "attributes": attributes, "streams": streams}
        figures = ", ".join(f"{key} {value}" for key, value in attributes.items())
        return Drawn(f"{name} ({figures}; {' and '.join(streams)}) on {', '.join(map(str, chosen))}", parameters)

    def victims(self, parameters: Parameters) -> frozenset[int]:
        return frozenset()

    def claims(self, parameters: Parameters) -> frozenset[str]:
        return _claims([Key(*link) for link in parameters["links"]])

    @asynccontextmanager
    async def inflict(self, cluster: Linked, parameters: Parameters) -> AsyncIterator[None]:
        streams = tuple(Stream(one) for one in parameters["streams"])
        keys = [Key(*link) for link in parameters["links"]]
        made = await cluster.links.poison(keys, Toxic(parameters["type"], parameters["attributes"], streams))
        try:
            yield
        finally:
            await cluster.links.cure(made)
