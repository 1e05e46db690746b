"""One request on its way: where its answer goes, and that answers leave in the order of the requests."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from quorate.broker.kafka.backend import Buffer
from quorate.broker.protocol.kafka.codec import encode_response_frame
from quorate.broker.protocol.kafka.errors import BadValue

_LOG = logging.getLogger("quorate.kafka")


class Origin(Protocol):
    """What a request knows of its connection."""

    host: str

    def completed(self, request: Request) -> None:
        """The request has its answer."""

    def fail(self, why: str) -> None:
        """The request cannot be answered: end the connection."""


class Request:
    """A slot in its connection's queue. Completed exactly once, by `reply`, `send` or `no_answer`, in any order."""

    __slots__ = (
        "answer",
        "api",
        "body",
        "bulk",
        "client_id",
        "correlation_id",
        "due",
        "hurry",
        "origin",
        "overdue",
        "size",
        "version",
    )

    def __init__(
        self, origin: Origin, api: int, version: int, correlation_id: int, client_id: str | None, body: memoryview, size: int
    ) -> None:
        self.origin = origin
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body = body
        self.size = size
        self.answer: Sequence[Buffer] | None = None
        """None while it is not known; empty if there is none."""
        self.bulk = 0
        """Bytes of records that were read for the answer. They are counted among those of all answers, until it is taken."""
        self.hurry: Callable[[], None] | None = None
        """Answers at once with what there is, while the request waits for more; for when nobody wants to wait any longer."""
        self.due = math.inf
        """When `overdue` is to be called, if there is no answer by then; looked at now and then (loop time, in seconds)."""
        self.overdue: Callable[[], None] | None = None
        """Answers that the request's time is over."""

    def reply(self, value: dict[str, Any]) -> None:
        """Answer with a message. One that the request's version cannot tell ends the connection, and harms no other."""
        try:
            frame = encode_response_frame(self.api, self.version, self.correlation_id, value)
        except BadValue:
            _LOG.exception("the answer to api %d version %d cannot be written", self.api, self.version)
            return self.origin.fail("its request could not be answered")
        return self.send((frame,))

    def send(self, answer: Sequence[Buffer]) -> None:
        """Answer with a frame that is encoded already."""
        self.answer = answer
        self.origin.completed(self)

    def no_answer(self) -> None:
        """It is done with, and the client expects nothing."""
        self.send(())
