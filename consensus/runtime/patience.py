"""Whether the disk is quick enough to be waited for on the event loop's own thread.

A small synced write that nothing overlaps with is fastest without a change of thread. But while it lasts nothing else
happens on the node, so a disk that was slow once is not waited for again for a while.
"""

from __future__ import annotations

import asyncio

_LONG_S = 0.030
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_QUICK_TO_FORGIVE = 1_000


class Patience:
    """Lost after a long wait, for a pause that doubles each time; after many short waits the pause is short again."""

    __slots__ = ("_loop", "_pause_s", "_quick", "_until")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._until = 0.0
        self._pause_s = _FIRST_PAUSE_S
        self._quick = 0

    def left(self) -> bool:
        """Whether the disk may be waited for."""
        return self._loop.time() >= self._until

    def spent(self, seconds: float) -> None:
        """It was waited for so long."""
        if seconds < _LONG_S:
            self._quick += 1
            if self._quick >= _QUICK_TO_FORGIVE:
                self._quick, self._pause_s = 0, _FIRST_PAUSE_S
            return
        self._quick = 0
        self._until = self._loop.time() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
