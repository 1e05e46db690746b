"""One load by nats-py in a process of its own: `python -m bench.kafka.nats_client SPEC`.

The jobs are those of `bench.kafka.client`. Acknowledgements come to one subscription of ours and are matched by a number in
their subject: nats-py's own `publish_async` does much more work per message, and the cores are shared.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import nats
import uvloop
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import DeliverPolicy

from bench.kafka.job import PATIENCE_S, Spec, gap_ms, latencies, main, wait_for_go

_SILENCE_S = 20.0


class _Publisher:
    """Publishes with a window of unacknowledged messages."""

    def __init__(self, connection: Client, subject: str, window: int) -> None:
        self._connection = connection
        self._subject = subject
        self._prefix = connection.new_inbox()
        self._sent_at: list[float] = []
        self._room = asyncio.Event()
        self._window = window
        self.waits: list[float] = []
        self.moments: list[float] = []
        self.failed = 0

    async def start(self) -> None:
        await self._connection.subscribe(f"{self._prefix}.*", cb=self._acknowledged)

    @property
    def sent(self) -> int:
        return len(self._sent_at)

    @property
    def under_way(self) -> int:
        return len(self._sent_at) - len(self.moments) - self.failed

    async def publish(self, value: bytes) -> None:
        """Waits while the window is full."""
        while self.under_way >= self._window:
            await self._changed()
        number = len(self._sent_at)
        self._sent_at.append(time.perf_counter())
        await self._connection.publish(self._subject, value, reply=f"{self._prefix}.{number}")

    async def flush(self, patience_s: float = PATIENCE_S) -> None:
        """Until everything is acknowledged or refused; what is not by then has failed."""
        try:
            async with asyncio.timeout(patience_s):
                while self.under_way:
                    await self._changed()
        except TimeoutError:
            self.failed += self.under_way

    async def _changed(self) -> None:
        self._room.clear()
        await self._room.wait()

    async def _acknowledged(self, message: Msg) -> None:
        # The answer is JSON: {"stream": ..., "seq": ...}, or {"error": ...}; without a stream's leader it is empty.
        if b'"seq"' in message.data and b'"error"' not in message.data:
            now = time.perf_counter()
            self.moments.append(now)
            self.waits.append(now - self._sent_at[int(message.subject.rpartition(".")[2])])
        else:
            self.failed += 1
        self._room.set()


async def _connect(spec: Spec) -> Client:
    async def quiet(_: Exception) -> None:
        """A killed server is part of the measurement."""

    servers = [f"nats://{address}" for address in spec.bootstrap.split(",")]
    return await nats.connect(servers, error_cb=quiet, reconnect_time_wait=0.05, max_reconnect_attempts=-1)


async def _publisher(spec: Spec, connection: Client) -> _Publisher:
    """One whose way has been used once."""
    publisher = _Publisher(connection, spec.topic, spec.window)
    await publisher.start()
    await publisher.publish(b"warm")
    await publisher.flush()
    if publisher.failed:
        raise RuntimeError("the first message was not acknowledged")
    publisher.waits.clear()
    return publisher


async def produce(spec: Spec) -> dict[str, Any]:
    """As fast as the window allows; the clock stops when the last message is acknowledged."""
    connection = await _connect(spec)
    publisher = await _publisher(spec, connection)
    value = b"x" * spec.size
    wait_for_go()
    began = time.perf_counter()
    while time.perf_counter() < began + spec.seconds:
        for _ in range(20):
            await publisher.publish(value)
    await publisher.flush()
    seconds = time.perf_counter() - began
    await connection.close()
    figures = {"messages": len(publisher.waits), "failed": publisher.failed, "warm": 1, "seconds": seconds}
    return {**figures, **latencies(publisher.waits)}


async def consume(spec: Spec) -> dict[str, Any]:
    """Read so many messages from the beginning, by an ordered consumer (which has flow control and no acknowledgements)."""
    connection = await _connect(spec)
    found = [0, 0.0]
    enough = asyncio.Event()

    async def read(_: Msg) -> None:
        found[0] += 1
        if found[0] >= spec.count:
            enough.set()

    wait_for_go()
    began = time.perf_counter()
    subscription = await connection.jetstream().subscribe(spec.topic, ordered_consumer=True, cb=read)
    try:
        async with asyncio.timeout(PATIENCE_S):
            await enough.wait()
    except TimeoutError:
        pass
    seconds = time.perf_counter() - began
    await subscription.unsubscribe()
    await connection.close()
    return {"messages": found[0], "seconds": seconds}


async def single(spec: Spec) -> dict[str, Any]:
    """One message at a time, each acknowledged before the next."""
    connection = await _connect(spec)
    publisher = await _publisher(spec, connection)
    value = b"x" * spec.size

    async def until(end: float, least: int) -> None:
        while time.perf_counter() < end or publisher.sent < least:
            await publisher.publish(value)
            await publisher.flush()

    await until(0.0, 100)
    publisher.waits.clear()
    wait_for_go()
    began = time.perf_counter()
    await until(began + spec.seconds, 0)
    seconds = time.perf_counter() - began
    await connection.close()
    return {"messages": len(publisher.waits), "failed": publisher.failed, "seconds": seconds, **latencies(publisher.waits)}


async def paced(spec: Spec) -> dict[str, Any]:
    """A steady rate: until acknowledged, and until in the consumer's hands."""
    connection = await _connect(spec)
    publisher = await _publisher(spec, connection)
    waits: list[float] = []
    arrived = asyncio.Event()

    async def read(message: Msg) -> None:
        arrived.set()
        waits.append(time.perf_counter() - float(message.data[:20]))

    reading = await _connect(spec)
    await reading.jetstream().subscribe(spec.topic, ordered_consumer=True, cb=read, deliver_policy=DeliverPolicy.NEW)
    wait_for_go()
    began, sent = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - began) < spec.seconds:
        if sent < elapsed * spec.rate:
            await publisher.publish((b"%020.9f" % time.perf_counter()).ljust(spec.size, b"."))
            sent += 1
        else:
            await asyncio.sleep(0.0005)
    await publisher.flush()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_SILENCE_S):
            while len(waits) < sent:
                arrived.clear()
                await arrived.wait()
    await connection.close()
    await reading.close()
    figures = {"messages": len(waits), "failed": publisher.failed + (sent - len(waits)), "seconds": spec.seconds}
    return {**figures, **latencies(publisher.waits, "ack_"), **latencies(waits)}


async def failover(spec: Spec) -> dict[str, Any]:
    """A steady rate while the leader dies: a line tells us just before. The longest silence after it is the gap.

    What nobody answered is not sent again: the gap ends with the first acknowledgement of anything.
    """
    connection = await _connect(spec)
    publisher = await _publisher(spec, connection)
    kill: list[float] = []

    def listen() -> None:
        sys.stdin.readline()
        kill.append(time.perf_counter())

    wait_for_go()
    threading.Thread(target=listen, daemon=True).start()
    value, began, sent, back, seen_at_kill = b"x" * spec.size, time.perf_counter(), 0, 0.0, 0
    while (now := time.perf_counter()) < began + PATIENCE_S and not (back and now > back + 1.0):
        if sent < (now - began) * spec.rate:
            sent += 1
            if connection.is_connected:
                await publisher.publish(value)
        else:
            await asyncio.sleep(0.0005)
        if kill:
            seen_at_kill = seen_at_kill or len(publisher.moments)
            if not back and len(publisher.moments) > seen_at_kill + spec.rate // 5 and now > kill[0] + 0.5:
                back = now
    gap = gap_ms(publisher.moments, kill[0]) if kill else float("nan")
    await connection.close()
    return {"messages": len(publisher.moments), "failed": publisher.failed, "seconds": now - began, "gap_ms": gap}


def _blocking(job: Callable[[Spec], Awaitable[dict[str, Any]]]) -> Callable[[Spec], dict[str, Any]]:
    async def run(spec: Spec) -> dict[str, Any]:
        return await job(spec)

    return lambda spec: uvloop.run(run(spec))


JOBS = {
    name: _blocking(job)
    for name, job in {
        "produce": produce,
        "consume": consume,
        "single": single,
        "paced": paced,
        "failover": failover,
    }.items()
}

if __name__ == "__main__":
    main(JOBS)
