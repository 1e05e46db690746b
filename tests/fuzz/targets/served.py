"""Requests of Kafka clients, served: the handlers with a node in memory behind them, and a coordinator that has a log.

What can be read has to be served, whatever it asks for, with an answer of its own version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any

from quorate.broker.groups.effects import Done
from quorate.broker.groups.requests import Identity, JoinRequest, Leaver, OffsetToCommit, SyncRequest
from quorate.broker.groups.state import GroupsState
from quorate.broker.kafka.backend import AppendDone, Groups
from quorate.broker.kafka.budget import Budget
from quorate.broker.kafka.context import Context
from quorate.broker.kafka.dispatch import dispatch
from quorate.broker.kafka.request import Request
from quorate.broker.kafka.settings import ListenerSettings
from quorate.broker.partition.values import refusal_of
from quorate.broker.protocol.kafka.apis import Api
from quorate.broker.protocol.kafka.codec import decode_response_frame
from quorate.broker.protocol.kafka.errors import BadMessage
from quorate.broker.protocol.kafka.header import decode_request_header
from quorate.consensus.batch.errors import BadBatch
from quorate.consensus.batch.validate import validate
from tests.broker.groups.stage import Stage
from tests.fuzz.targets.expect import Broken, expect
from tests.support.memory_backend import ME, MemoryBackend, MemoryPartition

_MOST = 12
"""Requests on one connection."""
_HOUR_MS = 3_600_000


class _Coordinator(Groups):
    """The coordinator of every group, on a log in memory that takes every append at once."""

    def __init__(self) -> None:
        self.stage = Stage()

    def join(self, request: JoinRequest, done: Done) -> None:
        self._ask(lambda now: self.stage.coordinator.join(now, request, done))

    def sync(self, request: SyncRequest, done: Done) -> None:
        self._ask(lambda now: self.stage.coordinator.sync(now, request, done))

    def heartbeat(self, group_id: str, member: Identity, done: Done) -> None:
        self._ask(lambda now: self.stage.coordinator.heartbeat(now, group_id, member, done))

    def leave(self, group_id: str, leavers: Sequence[Leaver], done: Done, *, batched: bool) -> None:
        self._ask(lambda now: self.stage.coordinator.leave(now, group_id, leavers, done, batched=batched))

    def commit_offsets(
        self, group_id: str, member: Identity, queues: Mapping[str, Sequence[OffsetToCommit]], done: Done
    ) -> None:
        self._ask(lambda now: self.stage.coordinator.commit_offsets(now, group_id, member, queues, done))

    def fetch_offsets(self, group_id: str, queues: Mapping[str, Sequence[int]] | None, done: Done) -> None:
        self._ask(lambda now: self.stage.coordinator.fetch_offsets(now, group_id, queues, done))

    def delete_offsets(self, group_id: str, queues: Mapping[str, Sequence[int]], done: Done) -> None:
        self._ask(lambda now: self.stage.coordinator.delete_offsets(now, group_id, queues, done))

    def list_groups(self, states: Collection[str], done: Done) -> None:
        self._ask(lambda now: self.stage.coordinator.list_groups(now, states, done))

    def describe_group(self, group_id: str, done: Done) -> None:
        self._ask(lambda now: self.stage.coordinator.describe_group(now, group_id, done))

    def delete_group(self, group_id: str, done: Done) -> None:
        self._ask(lambda now: self.stage.coordinator.delete_group(now, group_id, done))

    def _ask(self, ask: Callable[[Any], None]) -> None:
        ask(self.stage.now)
        self.stage.pump()


class _Partition(MemoryPartition):
    """Takes what a real one takes: the one in memory believes what a header says."""

    def append(self, data: memoryview | bytearray, acks: int, done: AppendDone) -> None:
        try:
            validate(data)
        except BadBatch as error:
            raise refusal_of(error) from error
        super().append(data, acks, done)


class _Backend(MemoryBackend):
    def __init__(self) -> None:
        super().__init__()
        self.here = _Partition()
        self.coordinator = _Coordinator()

    def coordinator_node(self, group: str) -> int:
        return ME

    def groups(self, group: str) -> Groups:
        return self.coordinator

    def all_groups(self) -> Sequence[Groups]:
        return [self.coordinator]


class _Origin:
    """A connection that only remembers that it was ended."""

    host = "127.0.0.1"

    def __init__(self) -> None:
        self.failed = 0

    def completed(self, request: Request) -> None:
        """`_check` looks at the answer."""

    def fail(self, why: str) -> None:
        # As in Kafka, this is the only way to say something to a client that wants no answers.
        if "without acknowledgement" not in why:
            raise Broken(f"an answer cannot be told: {why}")
        self.failed += 1


_loops: list[asyncio.AbstractEventLoop] = []


def served(data: bytes) -> None:
    """Frames, each after its length in 16 bits, one after the other on one connection."""
    if not _loops:
        _loops.append(asyncio.new_event_loop())
    _loops[0].run_until_complete(_serve(data))


async def _serve(data: bytes) -> None:
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[Any]] = set()

    def spawn(later: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = loop.create_task(later)
        tasks.add(task)
        return task

    backend = _Backend()
    answers = Budget(1 << 20)
    context = Context(backend, ListenerSettings(auto_create=True), loop, answers, spawn)  # type: ignore[arg-type]  # it may return
    requests: list[Request] = []
    origin = _Origin()
    for _ in range(_MOST):
        size = int.from_bytes(data[:2], "big")
        frame, data = memoryview(bytearray(data[2 : 2 + size])), data[2 + size :]
        try:
            header = decode_request_header(frame)
            body = frame[header.body_at :]
            request = Request(origin, header.api, header.version, header.correlation_id, header.client_id, body, size)
            later = dispatch(context, request)
        except BadMessage:
            break
        requests.append(request)
        if later is not None:
            request.reply(await spawn(later))
        if request.hurry is not None and request.answer is None:
            request.hurry()
    backend.coordinator.stage.pass_time(_HOUR_MS)
    if tasks:
        await asyncio.wait(tasks)
    for task in tasks:
        task.result()
    expect(sum(request.answer is None for request in requests) == origin.failed, "every request is answered")
    for request in requests:
        _check(request)
    _check_groups(backend.coordinator.stage)


def _check(request: Request) -> None:
    name = f"api {request.api} version {request.version}"
    frame = b"".join(request.answer or ())
    if frame:
        expect(int.from_bytes(frame[:4], "big") == len(frame) - 4, f"{name}: one whole frame")
        if request.api != Api.API_VERSIONS:  # a version that is too new is answered in the oldest
            number, _ = decode_response_frame(request.api, request.version, memoryview(frame)[4:])
            expect(number == request.correlation_id, f"{name}: its own answer")


def _check_groups(stage: Stage) -> None:
    """Whoever replays the log of the groups comes to the same state."""
    replayed = GroupsState()
    replayed.apply(stage.log)
    expect(replayed.save() == stage.leader.state.save(), "replayed state equals live state")
