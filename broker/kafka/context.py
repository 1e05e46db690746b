"""What every handler is given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple

from quorate.broker.kafka.backend import Backend
from quorate.broker.kafka.budget import Budget
from quorate.broker.kafka.settings import ListenerSettings

Message = dict[str, Any]
"""A request's or an answer's fields, by name."""
Later = Coroutine[Any, Any, Message]

NO_OPERATIONS = -(1 << 31)
"""For "authorised operations": not asked for, or not known."""


class CannotAnswer(Exception):
    """Any answer would be misunderstood. The connection is closed instead, and the client asks elsewhere, or again."""


@dataclass(frozen=True, slots=True)
class Context:
    """The node behind the listener, and the listener's own means."""

    backend: Backend
    settings: ListenerSettings
    loop: asyncio.AbstractEventLoop
    answers: Budget
    """What is read for answers to Fetch, and was not taken by its clients."""
    spawn: Callable[[Coroutine[Any, Any, None]], None]
    """Run a coroutine beside everything else; the listener sees to its end."""


class Call(NamedTuple):
    """Who asks, and in which version."""

    api: int
    version: int
    client_id: str
    host: str
