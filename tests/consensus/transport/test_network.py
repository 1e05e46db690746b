"""Nodes that find each other over loopback sockets, and what they do about those who should not be there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest

from quorate.consensus.core import Batch, BatchKind, GroupId, NodeId, NodeMessage, Offset, Term, replica_id
from quorate.consensus.core.messages import Append, Heartbeat
from quorate.consensus.runtime import new_event_loop
from quorate.consensus.transport import Address, Identity, Network, TransportSettings
from quorate.consensus.transport.frames import HELLO, WELCOME
from quorate.consensus.transport.handshake import encode_greeting
from tests.support.cluster import ANYWHERE, CLUSTER, until

HASTY = TransportSettings(reconnect_ms=5, max_reconnect_ms=20, handshake_ms=500)


def run(main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main)


class Peer:
    """A network, and what it heard."""

    def __init__(self, node: int, boot: int = 1, cluster: bytes = CLUSTER, settings: TransportSettings = HASTY) -> None:
        self.node = NodeId(node)
        self.heard: list[NodeMessage] = []
        self.changes: list[tuple[int, bool]] = []
        self.notes: list[tuple[int, bytes]] = []
        identity = Identity(cluster, self.node, boot)
        self.network = Network(
            identity,
            self.heard.append,
            settings,
            on_peer=lambda node, up: self.changes.append((node, up)),
            on_note=lambda node, note: self.notes.append((node, note)),
        )
        self.address = ANYWHERE

    def changed(self, node: NodeId, up: bool) -> None:
        self.changes.append((node, up))

    async def listen(self, address: Address = ANYWHERE) -> Peer:
        self.address = await self.network.listen(address)
        return self

    def knows(self, *others: Peer) -> None:
        for other in others:
            self.network.set_peer(other.node, other.address)


async def pair(**settings: Any) -> tuple[Peer, Peer]:
    one, two = await Peer(1, **settings).listen(), await Peer(2, **settings).listen()
    one.knows(two)
    two.knows(one)
    await until(lambda: bool(one.network.connected and two.network.connected), "they are connected")
    return one, two


def beat(sender: int, to: int, number: int = 1) -> Heartbeat:
    return Heartbeat(GroupId(1), replica_id(sender), replica_id(to), Term(1), Offset(0), number)


def append(sender: int, to: int, size: int) -> Append:
    batch = Batch(Offset(0), Offset(0), Term(1), BatchKind.DATA, bytes(size))
    return Append(GroupId(1), replica_id(sender), replica_id(to), Term(1), Offset(-1), Term(0), Offset(-1), (batch,))


def test_messages_go_both_ways_over_one_connection() -> None:
    async def main() -> None:
        one, two = await pair()
        sent: list[NodeMessage] = [beat(1, 2), append(1, 2, 100), append(1, 2, 5_000_000), beat(1, 2, 2)]
        one.network.send(two.node, sent)
        two.network.send(one.node, [beat(2, 1)])
        await until(lambda: len(two.heard) == 4 and len(one.heard) == 1, "all arrived")
        assert two.heard == sent
        await one.network.close()
        await until(lambda: (1, False) in two.changes, "the other noticed")
        await two.network.close()

    run(main())


def test_a_node_that_comes_back_is_dialed_again() -> None:
    async def main() -> None:
        one, two = await pair()
        address = two.address
        await two.network.close()
        await until(lambda: not one.network.connected, "it is gone")
        one.network.send(two.node, [beat(1, 2)])
        assert one.network.unsent == 1
        again = await Peer(2, boot=2).listen(address)
        again.knows(one)
        await until(lambda: one.network.connected == {2}, "it is back")
        one.network.send(again.node, [beat(1, 2)])
        await until(lambda: again.heard == [beat(1, 2)], "it hears")
        await one.network.close()
        await again.network.close()

    run(main())


def test_a_wrong_cluster_is_refused_and_both_sides_say_why(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        stranger = await Peer(1, cluster=b"another cluster!").listen()
        home = await Peer(2).listen()
        stranger.knows(home)
        home.knows(stranger)
        await until(lambda: caplog.text.count("is not this one") >= 2, "both have logged it")
        assert "refusing node 1" in caplog.text
        assert "it refused us: cluster" in caplog.text
        assert not home.network.connected
        assert not stranger.network.connected
        await stranger.network.close()
        await home.network.close()

    with caplog.at_level(logging.WARNING):
        run(main())


@pytest.mark.parametrize(
    ("node", "to", "boot", "reason"),
    [(1, 3, 1, b"node 3 is meant"), (9, 2, 1, b"not known here"), (3, 2, 1, b"not the other way round")],
)
def test_other_wrong_greetings_are_refused_with_a_reason(node: int, to: int, boot: int, reason: bytes) -> None:
    async def main() -> None:
        home = await Peer(2).listen()
        home.network.set_peer(NodeId(1), Address("127.0.0.1", 1))
        home.network.set_peer(NodeId(3), home.address)
        reader, writer = await asyncio.open_connection(*home.address)
        writer.write(encode_greeting(HELLO, Identity(CLUSTER, NodeId(node), boot), NodeId(to)))
        async with asyncio.timeout(10):
            assert reason in await reader.read()
        writer.close()
        await home.network.close()

    run(main())


def test_an_earlier_life_of_a_node_is_refused() -> None:
    async def main() -> None:
        one, two = await pair(boot=5)
        reader, writer = await asyncio.open_connection(*two.address)
        writer.write(encode_greeting(HELLO, Identity(CLUSTER, NodeId(1), 4), NodeId(2)))
        async with asyncio.timeout(10):
            assert b"boot 4 of node 1 is over" in await reader.read()
        writer.close()
        assert two.network.connected == {1}
        await one.network.close()
        await two.network.close()

    run(main())


@pytest.mark.parametrize(
    "garbage",
    [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00" * 64, b"\xff" * 64, b"\x05\x00\x00\x00\x10aaaa", b"\x01\x00\x00\x00\x01"],
)
def test_garbage_on_the_port_is_hung_up_on(garbage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        one, two = await pair()
        reader, writer = await asyncio.open_connection(*two.address)
        writer.write(garbage)
        async with asyncio.timeout(10):
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
        writer.close()
        one.network.send(two.node, [beat(1, 2)])
        await until(lambda: two.heard == [beat(1, 2)], "the others do not mind")
        await one.network.close()
        await two.network.close()

    run(main())
    assert "closing the connection with a stranger" in caplog.text


def test_who_says_nothing_is_hung_up_on() -> None:
    async def main() -> None:
        home = await Peer(2).listen()
        reader, writer = await asyncio.open_connection(*home.address)
        async with asyncio.timeout(10):
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
        writer.close()
        await home.network.close()

    run(main())


def test_too_many_strangers_are_turned_away_at_the_door() -> None:
    async def main() -> None:
        few = TransportSettings(max_strangers=2, handshake_ms=60_000)
        home = await Peer(2, settings=few).listen()
        held = [await asyncio.open_connection(*home.address) for _ in range(2)]
        reader, writer = await asyncio.open_connection(*home.address)
        async with asyncio.timeout(10):
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
        for _, one in [*held, (reader, writer)]:
            one.close()
        await home.network.close()

    run(main())


def test_a_message_in_another_nodes_name_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        one, two = await pair()
        one.network.send(two.node, [beat(7, 2)])
        await until(lambda: "in the name of node 7" in caplog.text, "it was noticed")
        assert two.heard == []
        await one.network.close()
        await two.network.close()

    run(main())


def test_a_slow_peer_is_bounded_and_what_it_misses_is_dropped() -> None:
    async def main() -> None:
        settings = TransportSettings(max_outgoing_bytes=4 << 20, handshake_ms=60_000)
        one = await Peer(1, settings=settings).listen()
        listener = await asyncio.start_server(lambda reader, writer: held.append((reader, writer)), "127.0.0.1", 0)
        held: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        host, port = listener.sockets[0].getsockname()
        one.network.set_peer(NodeId(2), Address(host, port))
        await until(lambda: bool(held), "it was dialed")
        # It welcomes, and then reads nothing more than its buffers take.
        held[0][1].write(encode_greeting(WELCOME, Identity(CLUSTER, NodeId(2), 1), NodeId(1)))
        held[0][0]._transport.pause_reading()  # type: ignore[attr-defined]
        await until(lambda: one.network.connected == {2}, "they are connected")
        for _ in range(200):
            one.network.send(NodeId(2), [append(1, 2, 200_000)])
            await asyncio.sleep(0)
        assert one.network.unsent > 100
        assert one.network.waiting_bytes(NodeId(2)) < 5 << 20
        held[0][1].transport.abort()
        listener.close()
        await one.network.close()

    run(main())


def test_a_frame_that_nobody_would_accept_is_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        small = TransportSettings(max_frame_bytes=1 << 20, reconnect_ms=5)
        one, two = await pair(settings=small)
        one.network.send(two.node, [beat(1, 2), append(1, 2, 2 << 20), beat(1, 2, 2)])
        await until(lambda: two.heard == [beat(1, 2), beat(1, 2, 2)], "the others arrived")
        assert one.network.oversize == 1
        await one.network.close()
        await two.network.close()

    run(main())


def test_notes_come_from_the_node_of_the_handshake() -> None:
    async def main() -> None:
        one, two = await pair()
        assert one.network.tell(two.node, b"")
        assert one.network.tell(two.node, b"x" * 200_000)
        assert two.network.tell(one.node, b"hello")
        await until(lambda: two.notes == [(1, b""), (1, b"x" * 200_000)] and one.notes == [(2, b"hello")], "all arrived")
        assert not one.network.tell(NodeId(3), b"nobody"), "there is no such node"
        assert not one.network.tell(two.node, bytes(one.network.settings.max_frame_bytes)), "nobody would accept that"
        await one.network.close()
        await two.network.close()

    run(main())


def test_settings_and_identities_are_checked() -> None:
    with pytest.raises(ValueError, match="handshake_ms"):
        TransportSettings(handshake_ms=0)
    with pytest.raises(ValueError, match="16 bytes"):
        Network(Identity(b"short", NodeId(1), 1), lambda message: None)
