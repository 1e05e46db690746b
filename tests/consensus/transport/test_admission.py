"""Who is taken in: storage ids in the handshake, and what both sides do about a node that must not come back."""

from __future__ import annotations

import asyncio
import struct

import pytest

from quorate.consensus.core import NodeId
from quorate.consensus.transport import Address, Identity, Network, Problem, Refusal
from quorate.consensus.transport.errors import BadFrame
from quorate.consensus.transport.frames import HELLO
from quorate.consensus.transport.handshake import Greeting, decode_handshake, encode_greeting
from tests.consensus.transport.test_network import HASTY, run
from tests.support.cluster import ANYWHERE, CLUSTER, until

STORAGES = {1: b"one " * 4, 2: b"two " * 4}


class Guarded:
    """A network that takes in only nodes on the storage that it knows them with."""

    def __init__(self, node: int, storage: bytes | None = None) -> None:
        self.node = NodeId(node)
        self.refusals: list[tuple[Refusal, str]] = []
        self.asked: list[Identity] = []
        identity = Identity(CLUSTER, self.node, 1, storage or STORAGES[node])
        self.network = Network(
            identity, lambda message: None, HASTY, admit=self._admit, on_refused=lambda *said: self.refusals.append(said)
        )
        self.address = ANYWHERE

    def _admit(self, identity: Identity) -> Problem | None:
        self.asked.append(identity)
        known = STORAGES[identity.node]
        return None if identity.storage == known else (Refusal.BARRED, f"node {identity.node} has lost its disk")

    async def listen(self) -> Guarded:
        self.address = await self.network.listen(ANYWHERE)
        return self


async def meet(one: Guarded, two: Guarded) -> None:
    one.network.set_peer(two.node, two.address)
    two.network.set_peer(one.node, one.address)


async def close(*all_of: Guarded) -> None:
    for one in all_of:
        await one.network.close()


def test_both_sides_are_asked_before_they_talk() -> None:
    async def main() -> None:
        one, two = await Guarded(1).listen(), await Guarded(2).listen()
        await meet(one, two)
        await until(lambda: bool(one.network.connected and two.network.connected), "they are connected")
        assert [identity.storage for identity in (*one.asked, *two.asked)] == [STORAGES[2], STORAGES[1]]
        await close(one, two)

    run(main())


@pytest.mark.parametrize("lost", [1, 2])
def test_a_node_on_another_storage_is_barred_whoever_dials(lost: int, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        good = await Guarded(3 - lost).listen()
        bad = await Guarded(lost, b"another storage!").listen()
        await meet(good, bad)
        await until(lambda: bool(bad.refusals), "it was told")
        assert bad.refusals[0] == (Refusal.BARRED, f"node {lost} has lost its disk")
        assert not good.refusals
        assert not good.network.connected
        assert f"refusing node {lost}" in caplog.text
        await close(good, bad)

    run(main())


@pytest.mark.parametrize("removed", [1, 2])
def test_a_node_that_is_removed_is_told_why_and_not_dialed_again(removed: int) -> None:
    async def main() -> None:
        one, two = await Guarded(1).listen(), await Guarded(2).listen()
        await meet(one, two)
        await until(lambda: bool(one.network.connected and two.network.connected), "they are connected")
        goes, stays = (one, two) if removed == 1 else (two, one)
        stays.network.remove_peer(goes.node, "it was removed")
        await until(lambda: (Refusal.BARRED, "it was removed") in goes.refusals, "it was told")
        await until(lambda: not stays.network.connected, "it is gone")
        await close(one, two)

    run(main())


def test_another_version_is_refused_with_its_number() -> None:
    old = struct.pack("<IB8sI16sQQQ", 53, HELLO, b"QUORATE\x01", 1, CLUSTER, 1, 2, 1)

    async def main() -> None:
        home = await Guarded(2).listen()
        home.network.set_peer(NodeId(1), Address("127.0.0.1", 1))
        reader, writer = await asyncio.open_connection(*home.address)
        writer.write(old)
        async with asyncio.timeout(10):
            assert b"protocol version 1 is not spoken here, only 2" in await reader.read()
        writer.close()
        await close(home)

    run(main())


def test_a_greeting_keeps_its_storage_and_a_cut_one_is_no_greeting() -> None:
    identity = Identity(CLUSTER, NodeId(7), 3, STORAGES[1])
    frame = encode_greeting(HELLO, identity, NodeId(2))
    assert decode_handshake(memoryview(frame)) == (HELLO, Greeting(2, identity, NodeId(2)))
    for size in range(5, len(frame)):
        with pytest.raises(BadFrame):
            decode_handshake(memoryview(frame)[:size])
    with pytest.raises(ValueError, match="a storage id has 16 bytes"):
        Network(Identity(CLUSTER, NodeId(1), 1, b"short"), lambda message: None)
