"""The memory that all requests of a node may hold together, and who waits for some of it to be free again."""

from __future__ import annotations

from collections.abc import Callable


class Budget:
    """Bytes that are held. Invariant: held >= 0; nobody waits while there is room."""

    __slots__ = ("_limit", "_waiting", "held")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.held = 0
        self._waiting: dict[Callable[[], None], None] = {}

    @property
    def exhausted(self) -> bool:
        """Whether nobody should begin anything new."""
        return self.held >= self._limit

    def take(self, count: int) -> None:
        """Hold more. Never refused: the limit is kept by those who look at `exhausted` first."""
        self.held += count

    def give(self, count: int) -> None:
        """Hold less, and tell those who wait, if that makes room."""
        self.held -= count
        if self._waiting and self.held < self._limit:
            waiting, self._waiting = self._waiting, {}
            for wake in waiting:
                wake()

    def wait(self, wake: Callable[[], None]) -> None:
        """Call `wake` once when there is room."""
        self._waiting[wake] = None

    def leave(self, wake: Callable[[], None]) -> None:
        """Do not call `wake` any more."""
        self._waiting.pop(wake, None)
