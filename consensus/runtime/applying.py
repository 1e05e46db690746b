"""State machines: committed batches go in, in order, and as fast as each machine takes them.

A machine pulls: the next batches are looked up when it has finished with the last ones. So a slow machine holds nothing but
its place in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from struct import Struct

from quorate.consensus.core import Batch, Offset, Role, Snapshot
from quorate.consensus.core.types import Buffer
from quorate.consensus.runtime.errors import OperationFailed
from quorate.consensus.runtime.group import Group

_log = logging.getLogger(__name__)
_STATE = Struct("<q")

ReadDone = Callable[[Offset | OperationFailed], None]


def pack_state(offset: Offset, state: bytes) -> bytes:
    """A machine's state with the offset that it reaches: a snapshot's log start may lie before that."""
    return _STATE.pack(offset) + state


def unpack_state(floor: Offset, data: Buffer) -> tuple[Offset, bytes]:
    """The inverse. Nothing at all is the state of a machine that has applied nothing after `floor`."""
    if len(data) < _STATE.size:
        return floor, b""
    return Offset(_STATE.unpack_from(data)[0]), bytes(data[_STATE.size :])


class Applier:
    """Feeds the state machines of a node."""

    def __init__(self, readers: Executor, apply_bytes: int, fail: Callable[[Group, str], None]) -> None:
        self._readers = readers
        self._apply_bytes = apply_bytes
        self._fail = fail
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Future[None]] = set()

    def read(self, group: Group, offset: Offset, done: ReadDone) -> None:
        """Answer a linearizable read, once the machine has come to `offset`."""
        if group.machine is None or group.applied >= offset:
            done(offset)
        else:
            group.waiting_reads.append((offset, done))

    def install(self, group: Group, snapshot: Snapshot) -> None:
        """The log was replaced: the machine starts over from this before it goes on."""
        if group.machine is not None:
            group.install = snapshot
            self.pump(group)

    def pump(self, group: Group) -> None:
        """Go on applying, unless the machine is still busy."""
        machine = group.machine
        if machine is None or group.applying or group.raft.role is Role.STOPPED:
            return
        if group.install is not None:
            start, data = group.install
            group.install = None
            group.applied, state = unpack_state(start.offset, data)
            try:
                machine.load(group.applied, state)
            except Exception as error:  # noqa: BLE001 - foreign code, as in `_hand_over`
                return self._broke(group, error)
        self._answer_reads(group)
        if group.applied >= group.apply_to:
            return
        group.applying = True
        batches = group.raft.log.slice(Offset(group.applied + 1), self._apply_bytes)
        if batches is not None:
            self._hand_over(group, batches)
        else:
            first, last = Offset(group.applied + 1), group.apply_to
            reading = self._loop.run_in_executor(self._readers, group.store.read, first, self._apply_bytes, last)
            reading.add_done_callback(partial(self._was_read, group))

    def _was_read(self, group: Group, reading: asyncio.Future[tuple[Batch, ...]]) -> None:
        if reading.cancelled():
            return
        error = reading.exception()
        if error is not None:
            self._fail(group, f"committed batches cannot be read: {error}")
        elif group.install is not None:
            # The log was replaced while it was read.
            group.applying = False
            self.pump(group)
        elif not reading.result():
            self._fail(group, f"committed batches after {group.applied} are not in the log")
        else:
            self._hand_over(group, reading.result())

    def _hand_over(self, group: Group, batches: Sequence[Batch]) -> None:
        """Give the machine those of the batches that are committed and new to it."""
        applied, apply_to = group.applied, group.apply_to
        fit = [batch for batch in batches if applied < batch.last <= apply_to]
        machine = group.machine
        if not fit or machine is None:
            group.applying = False
            return
        try:
            result = machine.apply(fit)
        except Exception as error:  # noqa: BLE001 - foreign code: it must not take the other groups down with it
            return self._broke(group, error)
        if result is None:
            self._applied(group, fit[-1].last)
        else:
            task = asyncio.ensure_future(_finish(result))
            self._tasks.add(task)
            task.add_done_callback(partial(self._finished, group, fit[-1].last))
        return None

    def _finished(self, group: Group, last: Offset, task: asyncio.Future[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._broke(group, error)
        else:
            self._applied(group, last)

    def _applied(self, group: Group, last: Offset) -> None:
        group.applied = last
        group.applying = False
        self._answer_reads(group)
        if last < group.apply_to or group.install is not None:
            # Not at once: the other groups have their turn in between.
            self._loop.call_soon(self.pump, group)

    def _broke(self, group: Group, error: BaseException) -> None:
        _log.error("group %s: the state machine broke", group.raft.group, exc_info=error)
        self._fail(group, f"the state machine broke: {error!r}")

    def _answer_reads(self, group: Group) -> None:
        waiting = group.waiting_reads
        while waiting and waiting[0][0] <= group.applied:
            offset, done = waiting.popleft()
            done(offset)

    def close(self) -> None:
        """Stop what is being applied."""
        for task in self._tasks:
            task.cancel()


async def _finish(result: Awaitable[None]) -> None:
    await result
