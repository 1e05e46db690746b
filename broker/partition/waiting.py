"""Long polls: who waits for an offset to be committed, or to be applied. Nobody polls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from quorate.consensus.core import Offset


class Waiting:
    """Callbacks by offset. They run in a later step of the loop: never inside the call that made them due."""

    __slots__ = ("_number", "_waiters")

    def __init__(self) -> None:
        self._number = 0
        self._waiters: dict[int, tuple[int, Callable[[], None]]] = {}

    def add(self, offset: int, wake: Callable[[], None]) -> Callable[[], None]:
        """Remember a wish; the result takes it back, and does nothing when that is too late."""
        self._number += 1
        number = self._number
        self._waiters[number] = offset, wake

        def cancel() -> None:
            self._waiters.pop(number, None)

        return cancel

    def reached(self, offset: Offset) -> None:
        """Everything up to `offset` is there."""
        if not self._waiters:
            return
        due = [number for number, (wanted, _) in self._waiters.items() if wanted <= offset]
        for number in due:
            self._wake(number)

    def all(self) -> None:
        """Whatever they wait for will not come from here."""
        for number in list(self._waiters):
            self._wake(number)

    def _wake(self, number: int) -> None:
        asyncio.get_running_loop().call_soon(self._run, number)

    def _run(self, number: int) -> None:
        # It may have been taken back, or woken twice, meanwhile.
        waiter = self._waiters.pop(number, None)
        if waiter is not None:
            waiter[1]()

    def __len__(self) -> int:
        return len(self._waiters)
