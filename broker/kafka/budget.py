"""The memory that all requests of a node may hold together, and who waits for some of it to be free again; and the same for
answers, for which nobody waits."""

from __future__ import annotations

from typing import Protocol


class Waiter(Protocol):
    """Who waits: a connection."""

    def wake(self) -> None:
        """There may be room now: look again, but not from within this call."""


_PART = 4


class Budget:
    """Bytes that are held.

    Invariants: held >= 0; nobody waits to begin something while there is room; whoever waits for more room is behind
    somebody who has the right of way.
    """

    __slots__ = ("_growing", "_limit", "_waiting", "first", "held")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.held = 0
        self.first: Waiter | None = None
        """Who has the right of way: a request may arrive though it does not fit. Without that, requests that are half here
        could fill the budget and wait for each other for ever; with more than one, it would be no limit."""
        self._waiting: dict[Waiter, None] = {}
        self._growing: dict[Waiter, int] = {}

    @property
    def exhausted(self) -> bool:
        """Whether nobody should begin anything new."""
        return self.held >= self._limit

    @property
    def share(self) -> int:
        """What one of many may take: a part of what is left, so that there is always something left for the next."""
        return max(0, self._limit - self.held) // _PART

    def take(self, count: int) -> None:
        """Hold more. Never refused: the limit is kept by those who look at `exhausted`, or ask `may_grow`, first."""
        self.held += count

    def give(self, count: int) -> None:
        """Hold less, and tell those who wait, if that makes room."""
        self.held -= count
        if self._waiting and self.held < self._limit:
            waiting, self._waiting = self._waiting, {}
            for waiter in waiting:
                waiter.wake()
        if self._growing:
            self._offer()

    def wait(self, waiter: Waiter) -> None:
        """Wake it once when there is room."""
        self._waiting[waiter] = None

    def stop_waiting(self, waiter: Waiter) -> None:
        """Do not wake it any more."""
        self._waiting.pop(waiter, None)
        self._growing.pop(waiter, None)

    def leave(self, waiter: Waiter) -> None:
        """It is gone. If it had the right of way, the next one has it with the next `give`."""
        self.stop_waiting(waiter)
        if self.first is waiter:
            self.first = None

    # Requests that are arriving.

    def may_grow(self, waiter: Waiter, count: int) -> bool:
        """Whether `count` bytes more may be set aside for a request that is arriving. If not, `waiter` is woken once when it
        is worth asking again."""
        if self.held + count > self._limit:
            if self.first is None:
                self.first = waiter
            if self.first is not waiter:
                self._growing[waiter] = count
                return False
        self._growing.pop(waiter, None)
        return True

    def pass_on(self, waiter: Waiter) -> None:
        """Its request is answered: if it had the right of way, the next one has it now."""
        if self.first is waiter:
            self.first = None
            self._offer()

    def _offer(self) -> None:
        """Wake those who have waited longest for more room, as far as it reaches."""
        room = self._limit - self.held
        for waiter, count in list(self._growing.items()):
            if count > room:
                if self.first is not None and self.first is not waiter:
                    return
                self.first = waiter
            room -= count
            del self._growing[waiter]
            waiter.wake()
