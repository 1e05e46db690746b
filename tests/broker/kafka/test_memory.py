"""What the node holds in memory for its clients: of requests that are answered, that are arriving, and of answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from quorate.broker.kafka.backend import Fetched
from quorate.broker.kafka.budget import Budget
from quorate.broker.protocol.kafka.apis import Api
from quorate.broker.protocol.kafka.codec import encode_request_frame
from tests.broker.kafka.lab import Lab, lab, part, produce, run
from tests.support.cluster import until
from tests.support.memory_backend import MemoryBackend
from tests.support.record_batches import record_batch


def several(*sizes: int) -> dict[str, Any]:
    """A Produce request with batches of these sizes for one partition."""
    batches = [{"index": 0, "records": bytes(record_batch(size))} for size in sizes]
    return {"acks": -1, "timeout_ms": 60_000, "topic_data": [{"name": "t", "partition_data": batches}]}


def kept(data: memoryview | bytearray) -> int:
    """The bytes that stay in memory as long as this does."""
    return memoryview(data.obj).nbytes if isinstance(data, memoryview) else len(data)


@pytest.mark.parametrize("sizes", [(200, 60_000), (200,) * 20, (40_000, 30_000), (30_000, 1_000_000, 200)])
def test_a_batch_keeps_no_more_than_twice_its_size(sizes: tuple[int, ...]) -> None:
    """A log's newest batches stay in memory, and only they are counted: they must not keep whole requests there."""

    async def main() -> None:
        async with lab() as node:
            await (await node.client()).ask(Api.PRODUCE, 9, several(*sizes))
            batches = [data for _, _, data in node.backend.here.batches]
            assert [len(data) for data in batches] == list(sizes)
            for data in batches:
                assert not isinstance(data, bytes)
                assert kept(data) <= 2 * len(data)
                data[:8] = bytes(8)  # it is patched in place

    run(main())


def test_a_batch_that_is_all_of_its_request_is_not_copied() -> None:
    async def main() -> None:
        async with lab() as node:
            await (await node.client()).ask(Api.PRODUCE, 9, several(1_000))
            [(_, _, data)] = node.backend.here.batches
            assert isinstance(data, memoryview)

    run(main())


def test_what_is_under_way_does_not_keep_the_rest_of_its_request() -> None:
    """Its client may be gone, and then nothing counts the request any more."""
    backend = MemoryBackend()

    async def main() -> None:
        async with lab(backend) as node:
            backend.here.hold = True
            client = await node.client()
            value = several(200)
            value["topic_data"] += produce(topic="no", size=100_000)["topic_data"]
            client.send(Api.PRODUCE, 9, value)
            await until(lambda: bool(backend.here.held), "the append is under way")
            [connection] = node.listener._connections
            [request] = connection.slots
            assert request.size > 100_000
            assert kept(request.body) == 0

    run(main())


class Watched(Budget):
    """A budget that remembers the most that was ever held."""

    peak = 0

    def take(self, count: int) -> None:
        super().take(count)
        self.peak = max(self.peak, self.held)


def watched(node: Lab, limit: int) -> Watched:
    """Before the first client comes."""
    node.listener.budget = budget = Watched(limit)
    return budget


def large(size: int) -> bytes:
    return encode_request_frame(Api.PRODUCE, 9, 1, "test", produce(size=size))


@pytest.mark.parametrize("limit", [1_000_000, 3_000_000, 9_000_000])
def test_requests_that_are_arriving_are_held_back_too(limit: int) -> None:
    """All of them half arrived would be many times the budget. One at a time goes on above it, so all are served."""
    size, count = 4_000_000, 8

    async def main() -> None:
        async with lab() as node:
            budget = watched(node, limit)
            clients = [await node.client() for _ in range(count)]
            whole = large(size)
            for client in clients:
                client.write(whole[: size * 9 // 10])
            await until(lambda: budget.first is not None, "the node is full")
            await node.others_are_served()
            for client in reversed(clients):
                client.write(whole[size * 9 // 10 :])
            for client in clients:
                assert part(await client.answer(Api.PRODUCE, 9, 1))["error_code"] == 0
            assert budget.peak <= limit + size + 1_000
            assert (budget.held, budget.first) == (0, None)
            assert node.logged == []

    run(main())


def test_a_request_that_waits_for_room_is_not_late() -> None:
    """Looked at by hand, with times of our own."""

    async def main() -> None:
        async with lab(frame_ms=30_000, idle_ms=600_000) as node:
            budget = watched(node, 1_000_000)
            node.backend.here.hold = True
            clients = [await node.client() for _ in range(3)]
            for client in clients:
                client.write(large(3_000_000))
            await until(lambda: bool(node.backend.here.held), "one is under way")
            connections = list(node.listener._connections)
            await until(lambda: sum(one._reading_paused for one in connections) == 2, "the others wait")
            for one in connections:
                one.check(node.listener.loop.time() + 50)
            assert node.logged == []
            assert budget.held < 4_000_000
            node.backend.here.release()
            for client in clients:
                assert part(await client.answer(Api.PRODUCE, 9, 1))["error_code"] == 0

    run(main())


@pytest.mark.parametrize("leaves", [True, False])
def test_who_stops_half_way_does_not_hold_up_the_others_for_ever(leaves: bool) -> None:
    async def main() -> None:
        async with lab(frame_ms=300) as node:
            budget = watched(node, 1_000_000)
            stopped = await node.client()
            stopped.write(large(3_000_000)[:2_000_000])
            await until(lambda: budget.first is not None, "the node is full")
            other = await node.client()
            other.write(large(3_000_000))
            if leaves:
                stopped.close()
            assert part(await other.answer(Api.PRODUCE, 9, 1))["error_code"] == 0
            assert len(node.logged) == (not leaves)
            assert (budget.held, budget.first) == (0, None)

    run(main())


def fetch_all() -> dict[str, Any]:
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 30}
    return {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 30, "topics": [{"topic": "t", "partitions": [wanted]}]}


def test_clients_that_do_not_take_their_answers_share_what_is_there_for_them() -> None:
    """They had held as much as one Fetch may answer, each of them. Others get smaller answers meanwhile, and never none."""
    limit, batch, slow = 80_000_000, 1_000_000, 12

    async def main() -> None:
        backend = MemoryBackend()
        data = bytes(record_batch(batch))
        backend.here.batches = [(offset, offset + 1, data) for offset in range(100)]
        backend.here.end = 100
        async with lab(backend) as node:
            node.listener.answers = answers = Watched(limit)
            node.listener._context = replace(node.listener._context, answers=answers)
            clients = [await node.client() for _ in range(slow)]
            for client in clients:
                client.pause()
                client.send(Api.FETCH, 12, fetch_all())
            reader = await node.client()
            await until(lambda: answers.held > limit // 3, "much is read and not taken")
            found = len(part(await reader.ask(Api.FETCH, 12, fetch_all()))["records"])
            assert batch <= found <= limit // 4
            assert answers.peak <= limit + slow * batch
            for client in clients:
                client.close()
            await until(lambda: answers.held == 0, "their memory is free again")
            assert len(part(await reader.ask(Api.FETCH, 12, fetch_all()))["records"]) == limit // 4
            assert answers.held == 0

    run(main())


@pytest.mark.parametrize("stays", [True, False])
def test_an_answer_that_comes_from_the_disk_is_counted_once(stays: bool) -> None:
    async def main() -> None:
        async with lab() as node:
            answers, client = node.listener.answers, await node.client()
            disk: asyncio.Future[Fetched] = asyncio.get_running_loop().create_future()
            node.backend.here.later = disk
            client.send(Api.FETCH, 12, fetch_all())
            await until(lambda: node.backend.here.later is None, "it is read")
            if not stays:
                client.close()
                await until(lambda: node.listener.connections == 0, "the client is gone")
            disk.set_result(Fetched([bytes(100)], 100, 1, 1, 0))
            if stays:
                assert part(await client.answer(Api.FETCH, 12))["records"] == bytes(100)
            await node.others_are_served()
            assert answers.held == 0

    run(main())


class Waiting:
    """Somebody who waits for room."""

    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


def test_the_right_of_way_goes_round() -> None:
    budget = Budget(100)
    one, two, three = Waiting(), Waiting(), Waiting()
    assert budget.may_grow(one, 100)
    budget.take(100)
    assert budget.may_grow(two, 50), "it does not fit, and somebody has to go on"
    budget.take(50)
    assert not budget.may_grow(three, 50)
    assert not budget.may_grow(one, 60)
    budget.give(50)
    budget.pass_on(one)
    assert three.woken == 0, "it was not one that had the right of way"
    budget.pass_on(two)
    assert (one.woken, two.woken, three.woken) == (0, 0, 1)
    assert budget.may_grow(three, 50)
    budget.leave(three)
    budget.give(0)
    assert one.woken == 1
    assert budget.first is one


def test_room_is_given_to_as_many_as_it_reaches_for() -> None:
    budget = Budget(100)
    waiting = [Waiting() for _ in range(5)]
    budget.take(100)
    assert [budget.may_grow(one, 30) for one in waiting] == [True, False, False, False, False]
    budget.take(30)
    budget.give(100)
    assert [one.woken for one in waiting] == [0, 1, 1, 0, 0]
    budget.stop_waiting(waiting[3])
    budget.give(30)
    assert [one.woken for one in waiting] == [0, 1, 1, 0, 1]
