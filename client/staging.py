"""Exactly once into a queue: closed times, and stages that are committed together. Only Quorate's own nodes know these."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NoReturn

from quorate.client.core import Core, Part
from quorate.client.errors import NotSupported
from quorate.client.values import Buffer, Closed, Committed, Stage


async def closed_time(
    core: Core, parts: Collection[Part], *, at_least: int = -1, max_wait_ms: int = 0
) -> dict[Part, Closed]:
    """How far each partition's time is closed; waits until it is so up to `at_least`, or `max_wait_ms` is over."""
    _missing(core, "CLOSED_TIME")


async def stage(core: Core, part: Part, batch: Buffer) -> int:
    """Keep a batch of an idempotent producer for a later commit."""
    _missing(core, "STAGE")


async def commit_staged(
    core: Core, application_id: str, batch_id: int, stages: Sequence[Stage], *, timeout_ms: int
) -> Committed:
    """Commit stages together, unless this batch of this application was committed before."""
    _missing(core, "COMMIT_STAGED")


async def drop_staged(core: Core, stages: Sequence[Stage]) -> None:
    """Forget stages that are not committed."""
    _missing(core, "DROP_STAGED")


def _missing(core: Core, what: str) -> NoReturn:
    raise NotSupported(str(core.settings.addresses[0]), what)
