"""One log line for each thing that a client does wrong, not one for each time: a client in a loop must not fill the disk."""

from __future__ import annotations

import logging
from collections.abc import Callable

_QUIET_S = 10.0
_MOST_ADDRESSES = 1024


class Complaints:
    """Logs about addresses, each at most once in a while; what was left out is counted in the next line."""

    __slots__ = ("_left_out", "_log", "_now", "_said")

    def __init__(self, log: logging.Logger, now: Callable[[], float]) -> None:
        self._log = log
        self._now = now
        self._said: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def about(self, address: str, what: str) -> None:
        """Say `what` about an address, unless something was said lately."""
        now = self._now()
        said = self._said.get(address)
        if said is not None and now - said < _QUIET_S:
            self._left_out[address] = self._left_out.get(address, 0) + 1
            return
        left_out = self._left_out.pop(address, 0)
        if len(self._said) >= _MOST_ADDRESSES:
            self._forget(now)
        self._said[address] = now
        more = f" (and {left_out} more lately)" if left_out else ""
        self._log.warning("client %s: %s%s", address, what, more)

    def _forget(self, now: float) -> None:
        """Make room: those of long ago go, and if there are none, all."""
        kept = {address: said for address, said in self._said.items() if now - said < _QUIET_S}
        self._said = kept if len(kept) < _MOST_ADDRESSES else {}
        self._left_out = {address: count for address, count in self._left_out.items() if address in self._said}
