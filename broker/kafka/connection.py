"""One client's connection: requests in, answers out in the same order, and no more of either than the limits allow.

Nothing is read from a client that has too much under way or does not take its answers, and no more of a large request than
the node has room for. A Fetch that waits holds back what comes after it, as in Kafka, so that the answers of one connection
never pile up; everything else is served as it arrives.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol, cast

from quorate.broker.kafka.backend import Buffer
from quorate.broker.kafka.budget import Budget
from quorate.broker.kafka.receive import BadFrame, Receiver
from quorate.broker.kafka.request import Request
from quorate.broker.kafka.settings import ListenerSettings
from quorate.broker.protocol.kafka.apis import Api
from quorate.broker.protocol.kafka.errors import BadMessage
from quorate.broker.protocol.kafka.header import decode_request_header

_PRODUCE, _FETCH = int(Api.PRODUCE), int(Api.FETCH)
_BULK = frozenset((int(Api.PRODUCE), int(Api.STAGE)))
"""Requests that carry records."""


class Hub(Protocol):
    """What all connections of a listener share."""

    settings: ListenerSettings
    budget: Budget
    answers: Budget
    held: bool
    loop: asyncio.AbstractEventLoop

    def admit(self, connection: Connection) -> bool:
        """Whether there is room for one more connection."""

    def lost(self, connection: Connection) -> None:
        """A connection that was admitted is gone."""

    def serve(self, request: Request) -> None:
        """See to it that a request is completed. Raises BadMessage if it cannot be understood."""

    def drained(self) -> None:
        """What was read in one go has been served."""

    def complain(self, host: str, what: str) -> None:
        """Log what a client did."""


class Connection(asyncio.BufferedProtocol):
    """Invariants: `slots` are in the order of arrival; `held` is the sum of their sizes, and part of the node's budget."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.host = "?"
        self.slots: deque[Request] = deque()
        self.held = 0
        self._transport: asyncio.Transport | None = None
        self._receiver = Receiver(self._on_frame, hub.settings.max_request_bytes, self._room)
        self._set_aside = 0
        self._unsent = 0
        """Bytes of records in answers that were given to the socket, and that the client has not taken."""
        self._busy = False
        """Requests are being served: answers leave together when that is done."""
        self._produced = False
        self._flush_planned = self._resume_planned = False
        self._barrier: Request | None = None
        self._reading_paused = False
        self._closing = False
        self._unread_since: float | None = None
        """Since when the client has not taken its answers."""
        self._heard_at = hub.loop.time()
        self._frame_since: float | None = None
        """When the request that is not here as a whole began to arrive; None while its time stands still, because it is we
        who do not read."""
        self._frame_used = 0.0
        """How much of its time it had used up when that began."""
        self._starved = False
        """It waits for the node to have room."""

    # The event loop's calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple) and peer:
            self.host = str(peer[0])
        if not self.hub.admit(self):
            self._closing = True
            self._transport.abort()
            self._transport = None
            return
        self._transport.set_write_buffer_limits(high=self.hub.settings.write_buffer_bytes)
        self._receiver.halted = self.hub.held

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:
            return
        self._transport = None
        self._closing = True
        self.hub.budget.leave(self)
        self.hub.budget.give(self.held + self._set_aside)
        self.held = self._set_aside = 0
        slots, self.slots = self.slots, deque()
        self._taken(self._unsent)
        self._unsent = 0
        for request in slots:
            if request.answer is not None:
                self._taken(request.bulk)
            elif request.hurry is not None:
                request.hurry()
        self.hub.lost(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receiver.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        receiver = self._receiver
        self._heard_at = now = self.hub.loop.time()
        if self._frame_since is not None:
            self._frame_used = now - self._frame_since
            self._frame_since = None
        self._busy = True
        try:
            receiver.received(nbytes)
        except (BadFrame, BadMessage) as error:
            return self._refuse(str(error))
        finally:
            self._busy = False
        self._time_frame(now)
        self._end_turn()

    def pause_writing(self) -> None:
        self._unread_since = self.hub.loop.time()
        self._receiver.halted = True

    def resume_writing(self) -> None:
        self._unread_since = None
        self._taken(self._unsent)
        self._unsent = 0
        self.wake()

    # Requests.

    def _on_frame(self, frame: memoryview) -> None:
        if self._closing:
            return
        header = decode_request_header(frame)
        size = len(frame)
        if size > self.hub.settings.max_command_bytes and header.api not in _BULK:
            raise BadMessage(f"api {header.api}: a request of {size} bytes that carries no records")
        request = Request(
            self, header.api, header.version, header.correlation_id, header.client_id, frame[header.body_at :], size
        )
        self._frame_used = 0.0
        self.slots.append(request)
        self.held += size
        hub = self.hub
        hub.budget.take(size - self._set_aside)  # what was set aside, was so for this one
        self._set_aside = 0
        hub.serve(request)
        if header.api == _PRODUCE:
            self._produced = True
        elif header.api == _FETCH and request.answer is None:
            self._barrier = request
        if not self._may_go_on():
            self._receiver.halted = True

    def _may_go_on(self) -> bool:
        """Whether one more request may be begun."""
        settings, budget = self.hub.settings, self.hub.budget
        return (
            self._barrier is None
            and len(self.slots) < settings.max_in_flight
            and self.held < settings.max_in_flight_bytes
            and (not budget.exhausted or (budget.first is self and not self.slots))
            and self._unread_since is None
            and not self.hub.held
            and not self._closing
        )

    def _room(self, count: int) -> bool:
        """Whether so many bytes more may be set aside for a request that is arriving."""
        if self.hub.budget.may_grow(self, count):
            return True
        self._starved = True
        return False

    def _count_arriving(self) -> None:
        change, self._set_aside = self._receiver.set_aside - self._set_aside, self._receiver.set_aside
        if change > 0:
            self.hub.budget.take(change)
        elif change:
            self.hub.budget.give(-change)

    def _time_frame(self, now: float) -> None:
        """Go on with the time of the request that is not here as a whole, if there is one and it is read."""
        receiver = self._receiver
        if receiver.partial and not receiver.halted and not receiver.short:
            self._frame_since = now - self._frame_used

    def _end_turn(self) -> None:
        """All that was here has been served, or reading is halted."""
        if self._produced:
            self._produced = False
            self.hub.drained()
        if self.slots and self.slots[0].answer is not None:
            self._flush()
        receiver, budget = self._receiver, self.hub.budget
        self._count_arriving()
        if receiver.halted or receiver.short:
            if receiver.halted and budget.exhausted:
                self._starved = True
                budget.wait(self)
            if receiver.full and not self._reading_paused and self._transport is not None:
                self._reading_paused = True
                self._transport.pause_reading()
        if budget.first is not None and not self.slots and not self._set_aside:
            budget.pass_on(self)

    def completed(self, request: Request) -> None:
        """A request has its answer: it leaves, with all that are ready behind it, once all before it have left."""
        slots = self.slots
        if self._transport is None and request.bulk:
            self._taken(request.bulk)
        if self._busy or self._flush_planned or not slots or slots[0] is not request:
            return
        if len(slots) == 1:
            self._flush()
        else:
            # More answers are likely to become ready in this turn of the loop.
            self._flush_planned = True
            self.hub.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_planned = False
        slots, transport = self.slots, self._transport
        ready: list[Buffer] = []
        freed = bulk = 0
        while slots:
            request = slots[0]
            answer = request.answer
            if answer is None:
                break
            slots.popleft()
            freed += request.size
            bulk += request.bulk
            ready.extend(answer)
            if request is self._barrier:
                self._barrier = None
        if transport is None:
            return
        if ready:
            transport.writelines(ready)
        if bulk and self._unread_since is not None:
            self._unsent += bulk
        elif bulk:
            self._taken(bulk)
        self.held -= freed
        self.hub.budget.give(freed)
        if self._closing:
            return self._close_if_done()
        if self.hub.budget.first is not None and not slots and not self._set_aside:
            self.hub.budget.pass_on(self)
        if self._receiver.halted:
            self.wake()

    def _taken(self, bulk: int) -> None:
        """So much of what was read for answers is off our hands."""
        self.hub.answers.give(bulk)

    # Beginning to read again.

    def wake(self) -> None:
        """There may be room again for what was left in the buffer, or on the socket: look soon."""
        receiver = self._receiver
        if not self._resume_planned and (receiver.halted or receiver.short) and not self._closing:
            self._resume_planned = True
            self.hub.loop.call_soon(self._resume)

    def _resume(self) -> None:
        self._resume_planned = False
        if self._starved:
            self._starved = False
            self.hub.budget.stop_waiting(self)
        receiver, transport = self._receiver, self._transport
        if transport is None or self._closing:
            return
        if receiver.short:
            going_on = receiver.grow()
        else:
            going_on = self._may_go_on() and self._cut()
        if going_on:
            if self._reading_paused and not receiver.full:
                self._reading_paused = False
                transport.resume_reading()
            self._time_frame(self.hub.loop.time())
        if not self._closing:
            self._end_turn()

    def _cut(self) -> bool:
        """Serve what was left in the buffer; False if the client has to go for it."""
        self._receiver.halted = False
        self._busy = True
        served = False
        try:
            self._receiver.cut()
            served = True
        except (BadFrame, BadMessage) as error:
            self._refuse(str(error))
        finally:
            self._busy = False
            if not served:
                # After a mistake of ours nobody would answer any more, and the client must not wait for it.
                self.abort()
        return served

    # The end.

    def check(self, now: float) -> None:
        """Answer requests whose time is over, and close the connection if it has been idle, or slow, for too long."""
        settings = self.hub.settings
        if self.slots or self._starved:
            self._heard_at = now  # who waits for us is not idle, and has its time again afterwards
        for request in [one for one in self.slots if one.due <= now]:
            if request.answer is None and request.overdue is not None:
                request.overdue()
        if self._frame_since is not None and now - self._frame_since >= settings.frame_ms / 1000:
            self._refuse("a request did not arrive in time")
        elif self._unread_since is not None:
            if now - self._unread_since >= settings.idle_ms / 1000:
                self._refuse("it does not take its answers")
        elif now - self._heard_at >= settings.idle_ms / 1000 and self._transport is not None:
            self._closing = True
            self._transport.close()

    def finish(self) -> None:
        """Take no further requests, answer those that are here, and close."""
        self._closing = True
        self._receiver.halted = True
        for request in list(self.slots):
            if request.answer is None and request.hurry is not None:
                request.hurry()
        self._close_if_done()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def fail(self, why: str) -> None:
        """Something went wrong on our side: this client cannot be answered, the others can."""
        self._refuse(why)

    def _close_if_done(self) -> None:
        if not self.slots and self._transport is not None:
            self._transport.close()

    def _refuse(self, why: str) -> None:
        """Say why, and close at once."""
        if self._transport is None:
            return
        self._closing = True
        self._receiver.halted = True
        self.hub.complain(self.host, f"{why}; closing its connection")
        if self._produced:
            self._produced = False
            self.hub.drained()
        self.abort()
