"""The end: what is under way is told, threads end, and a child leaves its parent's client alone."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from quorate.broker.protocol.kafka.apis import Api
from quorate.client import AsyncClient, Client, ClientClosed, ClientSettings, QuorateError, TopicPartition, UnknownTopic
from tests.client.scripted import scripted
from tests.client.town import Town, offsets_of, run, town, until
from tests.support.record_batches import record_batch

PART = TopicPartition("t", 0)
MIB = 1 << 20
THREAD = "client-under-test"


@contextmanager
def background(fill: int = 0) -> Iterator[Town]:
    """A town in another thread, for clients that block."""
    ready, over = threading.Event(), threading.Event()
    found: list[Town] = []

    async def main() -> None:
        async with town() as place:
            place.log.fill(fill)
            found.append(place)
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=run, args=(main(),))
    thread.start()
    try:
        assert ready.wait(30)
        yield found[0]
    finally:
        over.set()
        thread.join(30)


def settings(place: Town, **more: Any) -> ClientSettings:
    return ClientSettings(bootstrap=place.bootstrap, client_id=THREAD, **more)


def threads() -> int:
    return sum(thread.name == THREAD for thread in threading.enumerate())


def eventually(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.01)


# Async.


def test_close_tells_what_is_under_way() -> None:
    async def main() -> None:
        async with scripted() as node:
            client = AsyncClient(node.address)
            asked = [
                asyncio.create_task(client.fetch(PART, 0, max_bytes=MIB)),
                asyncio.create_task(client.produce(PART, record_batch(200))),
                asyncio.create_task(client.new_producer()),
                asyncio.create_task(anext(client.stream(PART, 0, 5, max_bytes=MIB))),
                asyncio.create_task(client.fetch(TopicPartition("t", 5), 0, max_bytes=MIB)),
            ]
            for api in (Api.FETCH, Api.PRODUCE, Api.INIT_PRODUCER_ID):
                await node.until(api, 1)
            await client.close()
            found = await asyncio.gather(*asked, return_exceptions=True)
            assert [type(one) for one in found] == [ClientClosed] * len(asked), found
            with pytest.raises(ClientClosed):
                await client.topics()
            await client.close()
            await until(lambda: node.left, "all connections are closed")

    run(main())


def test_close_before_anything_is_connected() -> None:
    async def main() -> None:
        client = AsyncClient("127.0.0.1:1")
        asked = asyncio.create_task(client.topics())
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(ClientClosed):
            await asked

    run(main())


def test_a_cancelled_call_leaves_the_client_usable() -> None:
    async def main() -> None:
        async with town() as place, AsyncClient(place.bootstrap) as client:
            for _ in range(20):
                waiting = asyncio.create_task(client.fetch(PART, place.log.end, max_bytes=MIB, max_wait_ms=20_000))
                await until(lambda: bool(place.log.waiting), "the fetch waits")
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                await client.produce(PART, record_batch(200))
            assert len(place.listeners[1]._connections) < 8, "connections are not left behind"

    run(main())


# Blocking.


def test_all_that_blocks() -> None:
    with background(fill=20) as place, Client(settings(place)) as client:
        assert "t" in client.topics()
        assert offsets_of(client.fetch(PART, 0, max_bytes=MIB).data) == list(range(0, 200, 10))
        found = [offset for data in client.stream(PART, 0, 200, max_bytes=3_000) for offset in offsets_of(data)]
        assert found == list(range(0, 200, 10))
        assert client.produce(PART, record_batch(200)).base_offset == 200
        with pytest.raises(UnknownTopic):
            client.fetch(TopicPartition("t", 9), 0, max_bytes=MIB)
        assert threads() == 1
    assert threads() == 0


def test_many_threads_share_a_client() -> None:
    with background() as place, Client(settings(place)) as client:
        failures: list[BaseException] = []
        places: list[int] = []

        def work() -> None:
            try:
                for _ in range(50):
                    places.append(client.produce(PART, record_batch(200)).base_offset)
                    client.fetch(PART, 0, max_bytes=5_000)
            except QuorateError as error:
                failures.append(error)

        workers = [threading.Thread(target=work) for _ in range(8)]
        for one in workers:
            one.start()
        for one in workers:
            one.join(60)
        assert not failures
        assert sorted(places) == list(range(400))


def test_close_while_other_threads_wait() -> None:
    with background() as place:
        client = Client(settings(place))
        outcomes: list[type[BaseException]] = []

        def wait() -> None:
            try:
                client.fetch(PART, 0, max_bytes=MIB, max_wait_ms=60_000)
            except QuorateError as error:
                outcomes.append(type(error))

        def read() -> None:
            try:
                list(client.stream(PART, 0, 10, max_bytes=MIB))
            except QuorateError as error:
                outcomes.append(type(error))

        workers = [threading.Thread(target=one) for one in (wait, wait, read)]
        for one in workers:
            one.start()
        eventually(lambda: len(place.log.waiting) == 3, "all of them wait")
        client.close()
        for one in workers:
            one.join(30)
        assert outcomes == [ClientClosed] * 3
        with pytest.raises(ClientClosed):
            client.topics()
        client.close()
        assert threads() == 0


def test_a_stream_that_is_left_early() -> None:
    with background(fill=100) as place, Client(settings(place)) as client:
        for _ in client.stream(PART, 0, 1_000, max_bytes=1_100):
            break
        gc.collect()
        stream = client.stream(PART, 0, 1_000, max_bytes=1_100)
        next(stream)
        stream.close()
        for _ in range(20):
            client.offsets({PART: -1})
        assert place.log.fetches <= 8, "of each one was taken, two were ready, and one was under way"


def test_a_client_that_nobody_closes_ends_with_its_last_user() -> None:
    with background() as place:
        client = Client(settings(place))
        client.topics()
        assert threads() == 1
        del client
        gc.collect()
        eventually(lambda: threads() == 0, "the thread is over")


SCRIPT = """
import os
from quorate.client import Client, ClientClosed, TopicPartition
from tests.client.test_closing import background, settings
from tests.support.record_batches import record_batch

part = TopicPartition("t", 0)
with background() as place, Client(settings(place)) as client:
    assert client.produce(part, record_batch(200)).base_offset == 0
    stream = client.stream(part, 0, 1, max_bytes=1)
    child = os.fork()
    if not child:
        code = 1
        try:
            client.topics()
        except ClientClosed as error:
            code = 2 if "fork" in str(error) else 3
        client.close()
        del stream
        with Client(settings(place)) as own:
            if own.produce(part, record_batch(200)).base_offset == 1 and code == 2:
                code = 0
        os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status
    # The parent's connections are as they were.
    assert client.produce(part, record_batch(200)).base_offset == 2
    assert len(list(stream)) == 1
print("well")
"""


def test_a_child_makes_a_client_of_its_own() -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "well\n"


LEFT_OPEN = """
from quorate.client import Client
client = Client("127.0.0.1:1")
print("over")
"""


def test_an_open_client_does_not_keep_the_process_alive() -> None:
    done = subprocess.run([sys.executable, "-c", LEFT_OPEN], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "over\n", "")
