"""Doing something again, for as long as that is allowed, and more and more slowly."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final, NoReturn

from quorate.client.errors import QuorateError, UnknownTopic

_FIRST_PAUSE_S: Final = 0.03
_LONGEST_PAUSE_S: Final = 1.0
_UNKNOWN_S: Final = 3.0
"""A topic that was just created may be unknown to a node for a moment."""


class Attempts:
    """The attempts of one operation. `in_doubt` is set once one of them may have happened."""

    def __init__(self, retry_ms: Callable[[], int]) -> None:
        """`retry_ms`: how long, which may become longer on the way."""
        self._loop = asyncio.get_running_loop()
        self._retry_ms = retry_ms
        self._began = self._loop.time()
        self._unknown_since: float | None = None
        self._pause_s = _FIRST_PAUSE_S
        self._left = 0.0
        self.in_doubt = False

    def progress(self) -> None:
        """Something was achieved: the time begins anew."""
        self._began = self._loop.time()
        self._unknown_since = None
        self._pause_s = _FIRST_PAUSE_S

    def judge(self, error: QuorateError) -> None:
        """Raise the error unless another attempt makes sense and there is time for it."""
        now = self._loop.time()
        left = self._began + self._retry_ms() / 1000 - now
        if isinstance(error, UnknownTopic):
            if self._unknown_since is None:
                self._unknown_since = now
            left = min(left, self._unknown_since + _UNKNOWN_S - now)
        elif not error.retriable:
            left = -1.0
        if left <= 0:
            self.give_up(error)
        self.in_doubt = self.in_doubt or not error.definite
        self._left = left

    def give_up(self, error: QuorateError) -> NoReturn:
        """Raise the error, which is as definite as the least definite of all attempts."""
        if self.in_doubt:
            error.definite = False
        raise error

    async def pause(self, error: QuorateError) -> None:
        """Wait a moment before the next attempt. Raises the error if there is none."""
        self.judge(error)
        pause_s = self._pause_s * random.uniform(0.7, 1.3)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        await asyncio.sleep(min(pause_s, self._left))

    async def idle(self, error: QuorateError) -> None:
        """Nothing failed, but nothing was achieved either. Raises the error when time is over."""
        self.judge(error)
        await asyncio.sleep(0)
