"""The client process of the benchmark: keeps so many appends in flight, and writes down when they were acknowledged.

`python -m bench.replicated.client '<json>'`: prints one line of JSON. With no duration it runs until SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import sys
import time
from array import array
from dataclasses import asdict, dataclass
from typing import cast

from bench.replicated import wire
from quorate.consensus.batch.header import HEADER_BYTES
from quorate.consensus.runtime import new_event_loop
from tests.support.record_batches import record_batch

SEQUENCE = struct.Struct("<Q")
_LOOK_AGAIN_S = 0.01


@dataclass(frozen=True, kw_only=True)
class ClientSpec:
    """What a client process is told."""

    ports: dict[int, int]
    """Client port of every node."""
    groups: int
    batch_bytes: int
    in_flight: int
    warm_s: float = 0.3
    duration_s: float | None = 2.0
    journal: str | None = None
    """A file for what was acknowledged: (sequence, offset) pairs, 16 bytes each."""

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> ClientSpec:
        said = json.loads(text)
        said["ports"] = {int(node): port for node, port in said["ports"].items()}
        return cls(**said)


class Link(asyncio.BufferedProtocol):
    """The connection with one node. Answers have one size, so a chunk of them is unpacked at once."""

    def __init__(self, client: Client, node: int) -> None:
        self.client = client
        self.node = node
        self.transport: asyncio.Transport | None = None
        self._buffer = memoryview(bytearray(256 * 1024))
        self._end = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=1 << 30)

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self.client.lost(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        whole = self._end - self._end % wire.ANSWER.size
        self.client.answered(self, self._buffer[:whole])
        rest = bytes(self._buffer[whole : self._end])
        self._buffer[: len(rest)] = rest
        self._end = len(rest)

    def eof_received(self) -> bool:
        return False


class Client:
    """Appends in flight. Each has a number; a retry is a new append."""

    def __init__(self, spec: ClientSpec) -> None:
        self.spec = spec
        self.links: dict[int, Link] = {}
        self.leaders: dict[int, int] = {}
        self.flying: dict[int, tuple[int, float, int]] = {}
        """number -> (group, sent at, node)."""
        self.asked: dict[int, tuple[int, asyncio.Future[tuple[int, int, int]]]] = {}
        self.homeless: list[int] = []
        """Groups of appends that wait for a leader to be known."""
        self.number = 0
        self.acknowledged = 0
        self.begun = asyncio.Event()
        self.retried = 0
        self.measuring = False
        self.running = True
        self.latencies = array("d")
        self.journal = array("q")
        self.last_ack = 0.0
        self.gaps: list[tuple[float, float]] = []
        self._body = bytes(record_batch(max(spec.batch_bytes, HEADER_BYTES + 8), fill=os.urandom(4096)))
        self._numbered = spec.journal is not None

    # Connections and leaders.

    async def connect(self, node: int) -> None:
        """Keep a connection with a node."""
        loop = asyncio.get_running_loop()
        while self.running:
            try:
                _, link = await loop.create_connection(lambda: Link(self, node), "127.0.0.1", self.spec.ports[node])
            except OSError:
                await asyncio.sleep(_LOOK_AGAIN_S)
                continue
            self.links[node] = link
            return

    def lost(self, link: Link) -> None:
        """A node is gone: what was in flight there is sent again elsewhere."""
        if self.links.get(link.node) is link:
            del self.links[link.node]
        if not self.running:
            return
        for _, future in [asked for asked in self.asked.values() if asked[0] == link.node]:
            if not future.done():
                future.cancel()
        for group in [group for group, leader in self.leaders.items() if leader == link.node]:
            del self.leaders[group]
        for number in [number for number, flight in self.flying.items() if flight[2] == link.node]:
            self.retried += 1
            self.homeless.append(self.flying.pop(number)[0])

    async def ask(self, node: int, operation: int, group: int) -> tuple[int, int, int] | None:
        """A question to one node: (offset or leader, timestamp or commit, term), or None if it cannot be asked."""
        link = self.links.get(node)
        if link is None or link.transport is None:
            return None
        self.number += 1
        number = self.number
        future: asyncio.Future[tuple[int, int, int]] = asyncio.get_running_loop().create_future()
        self.asked[number] = (node, future)
        link.transport.write(wire.request(operation, number, group))
        done, _ = await asyncio.wait([future], timeout=1)
        del self.asked[number]
        return future.result() if done and not future.cancelled() else None

    async def find_leader(self, group: int) -> int | None:
        """The node that says that it leads, in the highest term."""
        best: tuple[int, int] | None = None
        for node in list(self.links):
            said = await self.ask(node, wire.LEADER, group)
            if said is not None and said[0] == node and (best is None or said[2] > best[0]):
                best = (said[2], node)
        return best[1] if best is not None else None

    async def look_after(self) -> None:
        """Reconnect, find leaders again, and send what waits for one, for ever."""
        while self.running:
            for node in self.spec.ports:
                if node not in self.links:
                    await self._connect_once(node)
            for group in sorted(set(self.homeless)):
                if group not in self.leaders:
                    leader = await self.find_leader(group)
                    if leader is not None:
                        self.leaders[group] = leader
            if self.homeless:
                waiting, self.homeless = self.homeless, []
                self.send(waiting)
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _connect_once(self, node: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, link = await loop.create_connection(lambda: Link(self, node), "127.0.0.1", self.spec.ports[node])
        except OSError:
            return
        self.links[node] = link

    def close(self) -> None:
        """Hang up everywhere."""
        self.running = False
        for link in list(self.links.values()):
            if link.transport is not None:
                link.transport.abort()

    # Appends.

    def send(self, groups: list[int]) -> None:
        """One append for each of these, all to one node in one write."""
        now = time.perf_counter()
        body, size = self._body, len(self._body)
        outgoing: dict[int, list[bytes]] = {}
        for group in groups:
            leader = self.leaders.get(group, 0)
            if leader not in self.links:
                self.homeless.append(group)
                continue
            self.number += 1
            self.flying[self.number] = (group, now, leader)
            parts = outgoing.get(leader)
            if parts is None:
                parts = outgoing[leader] = []
            parts.append(wire.request(wire.APPEND, self.number, group, size))
            parts.append(self._number_body(self.number) if self._numbered else body)
        for node, parts in outgoing.items():
            transport = self.links[node].transport
            if transport is not None:
                if size < 16_384:
                    transport.write(b"".join(parts))
                else:
                    transport.writelines(parts)

    def _number_body(self, number: int) -> bytes:
        body = bytearray(self._body)
        SEQUENCE.pack_into(body, HEADER_BYTES, number)
        return bytes(body)

    def answered(self, link: Link, answers: memoryview) -> None:
        """A chunk of answers: write down what was acknowledged, and send as many again."""
        now = time.perf_counter()
        again: list[int] = []
        flying = self.flying
        for _, number, code, offset, stamp, term in wire.ANSWER.iter_unpack(answers):
            flight = flying.pop(number, None)
            if flight is None:
                asked = self.asked.get(number)
                if asked is not None and not asked[1].done():
                    asked[1].set_result((offset, stamp, term))
                continue
            group, sent, _ = flight
            if code == wire.OK:
                self.acknowledged += 1
                if self.measuring:
                    self.latencies.append(now - sent)
                if self._numbered:
                    self.journal.append(number)
                    self.journal.append(offset)
                again.append(group)
            else:
                self.retried += 1
                if code == wire.NOT_LEADING:
                    self.leaders.pop(group, None)
                self.homeless.append(group)
        if again:
            self.begun.set()
            if self._numbered:
                self._note_gap(now)
            if self.running:
                self.send(again)

    def _note_gap(self, now: float) -> None:
        if self.last_ack and now - self.last_ack > 0.05:
            self.gaps.append((self.last_ack, now))
        self.last_ack = now


async def work(spec: ClientSpec) -> dict[str, object]:
    """Run the load; returns the figures."""
    client = Client(spec)
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, over.set)
    for node in spec.ports:
        await client.connect(node)
    client.homeless = [1 + n % spec.groups for n in range(spec.in_flight)]
    looking = asyncio.create_task(client.look_after())
    await client.begun.wait()
    print("going", flush=True)
    await asyncio.sleep(spec.warm_s)
    client.measuring = spec.duration_s is not None
    begin, before = time.perf_counter(), client.acknowledged
    if spec.duration_s is not None:
        await asyncio.sleep(spec.duration_s)
    else:
        await over.wait()
    took, count = time.perf_counter() - begin, client.acknowledged - before
    client.measuring = False
    client.close()
    looking.cancel()
    if spec.journal is not None:
        with open(spec.journal, "wb") as file:  # noqa: ASYNC230 - the work is over
            client.journal.tofile(file)
    latencies = sorted(client.latencies)
    return {
        "seconds": took,
        "batches": count,
        "retried": client.retried,
        "p50_ms": _percentile(latencies, 0.50),
        "p99_ms": _percentile(latencies, 0.99),
        "gaps": client.gaps,
    }


def _percentile(ordered: list[float], share: float) -> float | None:
    return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def main() -> None:
    """The process."""
    spec = ClientSpec.decode(sys.argv[1])
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        print(json.dumps(runner.run(work(spec))), flush=True)


if __name__ == "__main__":
    main()
