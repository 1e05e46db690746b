"""What nodes tell each other beside Raft: statuses, requests and answers."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

from quorate.broker.cluster.calls import ANSWER, CALL, Body, CallFailed, Calls
from quorate.broker.cluster.directory import Directory, Status
from quorate.broker.cluster.service import Metadata
from quorate.broker.cluster.state import ClusterState
from quorate.consensus.core import GroupId, Millis, NodeId
from quorate.consensus.runtime import MultiRaft
from tests.fuzz.targets.expect import expect

ME, OTHER = NodeId(1), NodeId(2)
NUMBER = 77
"""What the question is numbered that waits for an answer."""


class _Runtime:
    """Takes every proposal. What stands in for a runtime here needs no more."""

    def __init__(self) -> None:
        self.proposed = 0

    async def propose(self, group: GroupId, data: bytearray, count: int) -> None:
        self.proposed += 1


class _Place:
    """One node's side of the notes, on a loop of its own that serves one input after the other."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.sent: list[bytes] = []
        self.calls = Calls(ME, self._tell)
        Metadata(cast(MultiRaft, _Runtime()), self.calls, ClusterState())  # serves "propose"
        self.mistakes: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self.mistakes.append(context))

    def _tell(self, node: NodeId, note: bytes) -> bool:
        self.sent.append(note)
        return True

    def hear(self, note: bytes) -> tuple[list[bytes], Body | CallFailed | None]:
        """What is sent because of a note, and what a question came to that was waiting for an answer."""
        return self.loop.run_until_complete(self._hear(note))

    async def _hear(self, note: bytes) -> tuple[list[bytes], Body | CallFailed | None]:
        self.calls._number = NUMBER - 1
        asking = asyncio.ensure_future(self.calls.ask(OTHER, "verb", {}, 60.0))
        await asyncio.sleep(0)
        self.sent.clear()
        self.calls.hear(OTHER, note)
        while self.calls._serving:
            await asyncio.wait(set(self.calls._serving))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if not asking.done():
            asking.cancel()
        try:
            return list(self.sent), await asking
        except CallFailed as failure:
            return list(self.sent), failure
        except asyncio.CancelledError:
            return list(self.sent), None


_places: list[_Place] = []


def notes(data: bytes) -> None:
    """A note, its first byte included; one that is neither a request nor an answer is taken as a status."""
    if data[:1] not in (CALL, ANSWER):
        return _status(data)
    if not _places:
        _places.append(_Place())
    place = _places[0]
    sent, outcome = place.hear(data)
    expect(not place.mistakes, f"nothing is left to the loop: {place.mistakes!r:.300}")
    for note in sent:
        number, body, failure = json.loads(note[1:])
        expect(note[:1] == ANSWER and data[:1] == CALL, "a request has an answer, and nothing else has")
        expect(isinstance(number, int) and (body is None) == (failure is not None), "an answer or a refusal")
        expect(failure is None or failure[2] in (True, False), "a refusal says whether it may have happened")
    if isinstance(outcome, CallFailed):
        facts: tuple[object, object] = outcome.code, outcome.definite
        expect(isinstance(facts[0], str) and isinstance(facts[1], bool), "a refusal is whole")
    elif outcome is not None:
        expect(isinstance(outcome, dict), "an answer is an object")


def _status(data: bytes) -> None:
    try:
        status = Status.decode(data)
    except ValueError:
        return
    expect(status.encode() == data, "a status that can be read is the one that is written")
    directory = Directory(ME, Millis(0), 100, 1_000)
    directory.hear(OTHER, status, Millis(5))
    for group, term in status.led:
        leader = directory.leader_of(group, Millis(6))
        expect(leader is not None and leader.term >= term, "the highest term is right")
