"""A listener that is held takes whoever connects, and serves them all once it may."""

from __future__ import annotations

import asyncio

from quorate.broker.protocol.kafka.apis import Api
from tests.broker.kafka.lab import lab, part, produce, run
from tests.support.cluster import until


def test_who_connects_early_is_served_later() -> None:
    async def main() -> None:
        async with lab(held=True, frame_ms=30_000, idle_ms=600_000) as node:
            clients = [await node.client() for _ in range(3)]
            numbers = [
                client.send(Api.PRODUCE, 9, produce(size=size))
                for client, size in zip(clients, (200, 200_000), strict=False)
            ]
            await until(lambda: node.listener.connections == 3, "all are connected")
            held = list(node.listener._connections)
            await until(lambda: sum(one._receiver.partial for one in held) == 2, "two have said something")
            for one in held:
                one.check(node.listener.loop.time() + 50)
            assert node.backend.here.batches == []
            node.listener.begin()
            for client, number in zip(clients, numbers, strict=False):
                assert part(await client.answer(Api.PRODUCE, 9, number))["error_code"] == 0
            assert (await clients[2].ask(Api.API_VERSIONS, 0, {}))["error_code"] == 0
            assert node.logged == []

    run(main())


def test_who_is_held_when_the_listener_closes_is_sent_away() -> None:
    async def main() -> None:
        async with lab(held=True) as node:
            client = await node.client()
            client.send(Api.API_VERSIONS, 0, {})
            await until(lambda: node.listener.connections == 1, "it is connected")
            async with asyncio.timeout(10):
                await node.listener.close()
            await client.cut_off()
            assert node.logged == []

    run(main())
