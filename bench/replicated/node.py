"""One node process of the benchmark: a MultiRaft on LevelDB logs, and a port for the benchmark's client.

`python -m bench.replicated.node '<json>'`. It prints one line when it is ready, and stops cleanly on SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import signal
import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import cast

from bench.replicated import wire
from quorate.consensus.core import Configuration, GroupId, NodeId, new_group, node_of, replica_id
from quorate.consensus.runtime import (
    MultiRaft,
    NodeConfig,
    NotLeading,
    OperationFailed,
    Outcome,
    new_event_loop,
    next_boot,
    tune_process,
)
from quorate.consensus.storage.level import LevelLog
from quorate.consensus.storage.settings import StorageSettings
from quorate.consensus.transport import Address, Identity
from quorate.consensus.transport.receive import Receiver

CLUSTER = b"quorate's bench!"
_MAX_FRAME = 64 * 1024 * 1024
_OPEN_AT_ONCE = 8
_MAX_WAITING = 32 * 1024 * 1024
"""What one client may have waiting before its requests are left in the socket."""


@dataclass(frozen=True, kw_only=True)
class NodeSpec:
    """What a node process is told."""

    node: int
    folder: str
    groups: int
    peers: dict[int, int]
    """Peer port of every node, this one included."""
    client_port: int

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> NodeSpec:
        said = json.loads(text)
        said["peers"] = {int(node): port for node, port in said["peers"].items()}
        return cls(**said)


class Door(asyncio.BufferedProtocol):
    """One client. Answers of one turn of the loop leave in one write."""

    def __init__(self, runtime: MultiRaft) -> None:
        self._runtime = runtime
        self._receiver = Receiver(self._on_frame, _MAX_FRAME)
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._answers: list[bytes] = []
        self._waiting = 0
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receiver.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._receiver.received(nbytes)
        self._runtime.drained()

    def eof_received(self) -> bool:
        return False

    def _on_frame(self, frame: memoryview, owned: bool) -> None:
        _, operation, number, group = wire.REQUEST.unpack_from(frame)
        if operation == wire.APPEND:
            batch = frame[wire.REQUEST.size :]
            size = len(batch)
            self._take_in(size)
            try:
                done = partial(self._done, number, size)
                self._runtime.submit(GroupId(group), batch if owned else bytearray(batch), 1, done)
            except OperationFailed as error:
                self._done(number, size, error)
        elif operation == wire.LEADER:
            self._say_leader(number, GroupId(group))
        else:
            used = resource.getrusage(resource.RUSAGE_SELF)
            micros = int((used.ru_utime + used.ru_stime) * 1_000_000)
            self._say(wire.answer(number, wire.OK, micros, _resident_bytes()))

    def _say_leader(self, number: int, group: GroupId) -> None:
        try:
            status = self._runtime.status(group)
        except OperationFailed:
            self._say(wire.answer(number, wire.NOT_LEADING))
            return
        leader = node_of(status.leader) if status.leader else 0
        self._say(wire.answer(number, wire.OK, leader, status.commit, status.term))

    def _take_in(self, size: int) -> None:
        self._waiting += size
        if self._waiting > _MAX_WAITING and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def _done(self, number: int, size: int, outcome: Outcome) -> None:
        self._waiting -= size
        if self._paused and self._waiting <= _MAX_WAITING // 2 and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        if isinstance(outcome, OperationFailed):
            if isinstance(outcome, NotLeading):
                said = wire.answer(number, wire.NOT_LEADING, node_of(outcome.leader) if outcome.leader else 0)
            else:
                said = wire.answer(number, wire.REFUSED if outcome.definite else wire.UNCERTAIN)
        else:
            said = wire.answer(number, wire.OK, *outcome)
        self._say(said)

    def _say(self, said: bytes) -> None:
        answers = self._answers
        if not answers:
            self._loop.call_soon(self._flush)
        answers.append(said)

    def _flush(self) -> None:
        answers, self._answers = self._answers, []
        if self._transport is not None:
            self._transport.write(b"".join(answers))


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


async def serve(spec: NodeSpec, boot: int) -> None:
    """Run the node until SIGTERM."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, over.set)
    folder = Path(spec.folder)
    identity = Identity(CLUSTER, NodeId(spec.node), boot)
    listen = Address("127.0.0.1", spec.peers[spec.node])
    async with MultiRaft(NodeConfig(identity=identity, listen=listen)) as runtime:
        for node, port in spec.peers.items():
            if node != spec.node:
                runtime.set_peer(NodeId(node), Address("127.0.0.1", port))
        await _add_groups(runtime, spec, folder)
        server = await loop.create_server(lambda: Door(runtime), "127.0.0.1", spec.client_port)
        print("ready", flush=True)
        await over.wait()
        server.close()


async def _add_groups(runtime: MultiRaft, spec: NodeSpec, folder: Path) -> None:
    members = Configuration(voters=frozenset(map(replica_id, spec.peers)))
    settings = StorageSettings()
    gate = asyncio.Semaphore(_OPEN_AT_ONCE)

    async def add(group: int) -> None:
        async with gate:
            store = await asyncio.to_thread(LevelLog.open, folder / f"g{group}", new_group(members), settings)
            await runtime.add_group(GroupId(group), replica_id(spec.node), store)

    async with asyncio.TaskGroup() as tasks:
        for group in range(1, spec.groups + 1):
            tasks.create_task(add(group))


def main() -> None:
    """The process."""
    logging.basicConfig(level=logging.ERROR, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    spec = NodeSpec.decode(sys.argv[1])
    folder = Path(spec.folder)
    folder.mkdir(parents=True, exist_ok=True)
    boot = next_boot(folder)
    tune_process()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve(spec, boot))


if __name__ == "__main__":
    main()
