"""How fast new replicas are fed from the disk: so many bytes a second for the whole node, so that clients do not feel it."""

from __future__ import annotations


class Allowance:
    """Bytes that may be spent, as time brings them. Nothing is saved up, so a pause is not followed by a rush."""

    __slots__ = ("_free_at", "_per_s")

    def __init__(self, per_s: int) -> None:
        self._per_s = per_s
        self._free_at = 0.0

    def wait_s(self, size: int, now: float) -> float:
        """Spend `size` bytes; how long to wait before they may go."""
        begin = max(self._free_at, now)
        self._free_at = begin + size / self._per_s
        return begin - now
