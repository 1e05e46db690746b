"""Disks that are full, slow or broken, and files that rot. How it is done is in disk.c and `disk_control`."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random

from quorate.chaos.cluster import ClusterUnderTest
from quorate.chaos.faults.api import Drawn, Fault, Parameters, listed, some_of
from quorate.chaos.faults.rot import FILE_TYPES, Damage, damage, mend

_BEARABLE_MS = 100


class DiskFault(Fault):
    """A fault that owns the disks of some nodes while it lasts."""

    def draw(self, rng: Random, nodes: Sequence[int]) -> Drawn:
        few = some_of(rng, nodes)
        return Drawn(listed(few), {"nodes": few})

    def victims(self, parameters: Parameters) -> frozenset[int]:
        return frozenset(parameters["nodes"])

    def claims(self, parameters: Parameters) -> frozenset[str]:
        return frozenset(f"disk {node}" for node in parameters["nodes"])


class Full(DiskFault):
    """No write finds room. Producers are refused until there is some again."""

    kind = "disk-full"

    @asynccontextmanager
    async def inflict(self, cluster: ClusterUnderTest, parameters: Parameters) -> AsyncIterator[None]:
        for node in parameters["nodes"]:
            cluster.disk(node).fill()
        try:
            yield
        finally:
            for node in parameters["nodes"]:
                cluster.disk(node).fail_writes(0)


class Slow(DiskFault):
    """Every sync takes long: on any number of nodes up to a third of an election timeout, on a minority much longer. With a
    majority of disks slower than elections wait there is no leader: a vote has to be synced."""

    kind = "slow-disk"

    def draw(self, rng: Random, nodes: Sequence[int]) -> Drawn:
        if rng.random() < 0.5:
            hit, sync_ms = sorted(rng.sample(sorted(nodes), rng.randint(1, len(nodes)))), rng.randint(5, _BEARABLE_MS)
        else:
            hit, sync_ms = some_of(rng, nodes), rng.randint(_BEARABLE_MS, 1_500)
        return Drawn(f"{listed(hit)}: {sync_ms} ms per sync", {"nodes": hit, "sync_ms": sync_ms})

    def victims(self, parameters: Parameters) -> frozenset[int]:
        return frozenset() if parameters["sync_ms"] < _BEARABLE_MS else frozenset(parameters["nodes"])

    @asynccontextmanager
    async def inflict(self, cluster: ClusterUnderTest, parameters: Parameters) -> AsyncIterator[None]:
        for node in parameters["nodes"]:
            cluster.disk(node).slow(parameters["sync_ms"])
        try:
            yield
        finally:
            for node in parameters["nodes"]:
                cluster.disk(node).slow(0)


class Failing(DiskFault):
    """Syncs, or writes, fail with EIO, which stops the replicas that were written to. At the end the disk is changed for a
    good one: the node is killed, loses what was not synced, and starts again."""

    kind = "disk-error"

    def draw(self, rng: Random, nodes: Sequence[int]) -> Drawn:
        few, call = some_of(rng, nodes), rng.choice(["sync", "write"])
        return Drawn(f"{listed(few)}: every {call}", {"nodes": few, "call": call, "seed": rng.getrandbits(32)})

    def claims(self, parameters: Parameters) -> frozenset[str]:
        return super().claims(parameters) | {f"process {node}" for node in parameters["nodes"]}

    @asynccontextmanager
    async def inflict(self, cluster: ClusterUnderTest, parameters: Parameters) -> AsyncIterator[None]:
        nodes = parameters["nodes"]
        cluster.tainted.update(nodes)
        for node in nodes:
            disk = cluster.disk(node)
            (disk.fail_syncs if parameters["call"] == "sync" else disk.fail_writes)(errno.EIO)
        try:
            yield
        finally:
            for node in nodes:
                await cluster.process(node).kill()
                cluster.disk(node).heal()
                cluster.disk(node).lose_power(Random(parameters["seed"] + node))
                cluster.process(node).start()
                cluster.tainted.discard(node)


class Rot(DiskFault):
    """Bits flip, or the end is gone, in files of one type, while the node is down; then it starts on what is left. At the
    end the node is stopped, what it did not replace itself is mended, and it starts again."""

    kind = "corrupt"
    scars = True

    def draw(self, rng: Random, nodes: Sequence[int]) -> Drawn:
        node, how, type_ = rng.choice(sorted(nodes)), rng.choice(["flip", "flip", "truncate"]), rng.choice(FILE_TYPES)
        parameters = {"nodes": [node], "how": how, "type": type_, "seed": rng.getrandbits(32)}
        return Drawn(f"node {node}: {how} in a {type_}", parameters)

    def claims(self, parameters: Parameters) -> frozenset[str]:
        return super().claims(parameters) | {f"process {node}" for node in parameters["nodes"]}

    @asynccontextmanager
    async def inflict(self, cluster: ClusterUnderTest, parameters: Parameters) -> AsyncIterator[None]:
        done: dict[int, list[Damage]] = {}
        try:
            for node in parameters["nodes"]:
                await cluster.process(node).kill()
                rng = Random(parameters["seed"] + node)
                done[node] = damage(cluster.disk(node).folder, parameters["type"], parameters["how"], rng)
                cluster.process(node).start()
            yield
        finally:
            for node in parameters["nodes"]:
                await cluster.process(node).kill()
                mend(done.get(node, ()))
                # Files that were put back under their names were synced under others.
                cluster.disk(node).settle()
                cluster.process(node).start()
