"""One connection to one node: requests leave as they come, answers are matched with them by order and number.

A node answers a connection's requests in their order, so anything else is no answer and ends the connection. When it ends,
for whatever reason, all that is under way on it fails. Not here: which node to ask, and asking again.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Final, NamedTuple, cast

from quorate.broker.protocol.kafka.apis import Api
from quorate.broker.protocol.kafka.codec import decode_response, encode_request
from quorate.broker.protocol.kafka.errors import BadMessage, Error
from quorate.broker.protocol.kafka.header import decode_response_header, write_request_header
from quorate.client.errors import BadAnswer, ConnectionLost, NotSupported, QuorateError, RequestFailed, TimedOut
from quorate.client.receive import BadFrame, Receiver
from quorate.client.settings import ClientSettings
from quorate.client.values import Address, Buffer

SOFTWARE: Final = "quorate-client"
"""Nodes tell their private requests only to clients whose software's name begins with "quorate"."""
_VERSION: Final = "0.1.0"
_NUMBERS: Final = 0x7FFF_FFFF
_INT16: Final = struct.Struct(">h")
_INTRODUCTION: Final = 3  # the version of ApiVersions that names the software

# What we speak to others, first and last: topics by name (so no Fetch above 12), one group in a request.
SPOKEN: Final[Mapping[Api, tuple[int, int]]] = {
    Api.PRODUCE: (3, 11),
    Api.FETCH: (4, 12),
    Api.LIST_OFFSETS: (1, 9),
    Api.METADATA: (4, 12),
    Api.OFFSET_COMMIT: (2, 9),
    Api.OFFSET_FETCH: (2, 7),
    Api.FIND_COORDINATOR: (1, 3),
    Api.CREATE_TOPICS: (2, 7),
    Api.DELETE_TOPICS: (1, 5),
    Api.INIT_PRODUCER_ID: (0, 4),
    Api.CLOSED_TIME: (0, 0),
    Api.STAGE: (0, 0),
    Api.COMMIT_STAGED: (0, 0),
    Api.DROP_STAGED: (0, 0),
}


class Request(NamedTuple):
    """A request that has not met its connection yet, so that it does not know its version."""

    api: Api
    encode: Callable[[int], Sequence[Buffer]]
    """The body in this version."""
    timeout_s: float
    answered: bool = True


class Answer(NamedTuple):
    """The body of an answer, in memory of its own."""

    version: int
    body: memoryview


class _Waiting:
    """A request under way."""

    __slots__ = ("answer", "api", "number", "sent_at", "timeout_s", "timer", "version")

    def __init__(self, api: int, version: int, number: int, timeout_s: float, loop: asyncio.AbstractEventLoop) -> None:
        self.api = api
        self.version = version
        self.number = number
        self.timeout_s = timeout_s
        self.sent_at = loop.time()
        self.answer: asyncio.Future[Answer] = loop.create_future()
        self.timer: asyncio.TimerHandle | None = None


class Connection(asyncio.BufferedProtocol):
    """Invariant: `_waiting` is in the order in which the requests were sent; it is empty once `lost` is set."""

    def __init__(self, address: Address, settings: ClientSettings, loop: asyncio.AbstractEventLoop) -> None:
        self.address = address
        self.lost: QuorateError | None = None
        """Why it is over."""
        self._settings = settings
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._receiver = Receiver(self._on_frame, settings.max_answer_bytes)
        self._waiting: deque[_Waiting] = deque()
        self._number = 0
        self._heard_at = 0.0
        self._served: dict[int, tuple[int, int]] = {}

    @property
    def busy(self) -> bool:
        """Whether an answer is still to come."""
        return bool(self._waiting)

    # The event loop's calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.lost is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        why = f"the connection broke: {exc}" if exc is not None else "the node closed the connection"
        self.fail(ConnectionLost(str(self.address), why))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receiver.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._heard_at = self._loop.time()
        if self.lost is not None:
            return
        try:
            self._receiver.received(nbytes)
        except (BadFrame, BadMessage) as error:
            self.fail(BadAnswer(str(self.address), str(error)))

    # Requests.

    async def introduce(self) -> None:
        """Learn what the node speaks. Before this only `introduce` may be called. Raises QuorateError."""
        body = encode_request(
            Api.API_VERSIONS, _INTRODUCTION, {"client_software_name": SOFTWARE, "client_software_version": _VERSION}
        )
        # Whoever connects has a timeout around it all, which comes before this one.
        timeout_s = 2 * self._settings.connect_timeout_ms / 1000
        answer = await self._send(Api.API_VERSIONS, _INTRODUCTION, [body], timeout_s, True)
        try:
            # A node that does not know this version answers in the oldest one, which is enough.
            (error,) = _INT16.unpack_from(answer.body)
            version = 0 if error == Error.UNSUPPORTED_VERSION else _INTRODUCTION
            said = decode_response(Api.API_VERSIONS, version, answer.body)
        except (BadMessage, struct.error) as error:
            bad = BadAnswer(str(self.address), str(error))
            self.fail(bad)
            raise bad from error
        if said["error_code"] not in (Error.NONE, Error.UNSUPPORTED_VERSION):
            raise RequestFailed(said["error_code"], f"{self.address}: ApiVersions")
        self._served = {one["api_key"]: (one["min_version"], one["max_version"]) for one in said["api_keys"]}

    def version(self, api: Api) -> int:
        """The highest version of a request that both sides speak. Raises NotSupported."""
        ours = SPOKEN.get(api, (0, -1))
        theirs = self._served.get(api, (0, -1))
        best = min(ours[1], theirs[1])
        if best < max(ours[0], theirs[0]):
            raise NotSupported(str(self.address), api.name)
        return best

    async def ask(self, request: Request) -> Answer:
        """Send a request, and wait for its answer if there will be one. Raises QuorateError."""
        version = self.version(request.api)
        return await self._send(request.api, version, request.encode(version), request.timeout_s, request.answered)

    async def _send(self, api: Api, version: int, body: Sequence[Buffer], timeout_s: float, answered: bool) -> Answer:
        transport = self._transport
        if self.lost is not None or transport is None:
            # It was never sent, whatever became of what was sent before.
            raise ConnectionLost(str(self.address), str(self.lost or "not connected"), True)
        self._number = number = self._number % _NUMBERS + 1
        head = bytearray(4)
        write_request_header(head, api, version, number, self._settings.client_id)
        size = len(head) - 4 + sum(memoryview(part).nbytes for part in body)
        head[:4] = size.to_bytes(4, "big")
        transport.writelines([head, *body])
        if not answered:
            return Answer(version, memoryview(b""))
        waiting = _Waiting(api, version, number, timeout_s, self._loop)
        self._waiting.append(waiting)
        waiting.timer = self._loop.call_later(timeout_s, self._check, waiting)
        return await waiting.answer

    def _on_frame(self, frame: memoryview) -> None:
        if self.lost is not None:
            return
        if not self._waiting:
            raise BadFrame("an answer that nobody asked for")
        waiting = self._waiting[0]
        number, at = decode_response_header(waiting.api, waiting.version, frame)
        if number != waiting.number:
            raise BadFrame(f"an answer to request {number} and not to {waiting.number}")
        self._waiting.popleft()
        if waiting.timer is not None:
            waiting.timer.cancel()
        if not waiting.answer.done():
            waiting.answer.set_result(Answer(waiting.version, frame[at:]))

    def _check(self, waiting: _Waiting) -> None:
        """A request's time is over, unless its answer is arriving."""
        silent_since = waiting.sent_at
        if self._receiver.partial and self._waiting and self._waiting[0] is waiting:
            silent_since = max(silent_since, self._heard_at)
        left = silent_since + waiting.timeout_s - self._loop.time()
        if left > 0.001:
            waiting.timer = self._loop.call_later(left, self._check, waiting)
            return
        after_ms = round(waiting.timeout_s * 1000)
        name = Api(waiting.api).name
        if not waiting.answer.done():
            waiting.answer.set_exception(TimedOut(str(self.address), name, after_ms))
        # What stands behind it cannot be answered before it.
        self.fail(ConnectionLost(str(self.address), f"given up: {name} was not answered within {after_ms} ms"))

    # The end.

    def fail(self, error: QuorateError) -> None:
        """End it at once: whatever is under way fails with this error."""
        if self.lost is not None:
            return
        self.lost = error
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            if one.timer is not None:
                one.timer.cancel()
            if not one.answer.done():
                one.answer.set_exception(copy(error))
        if self._transport is not None:
            self._transport.abort()
