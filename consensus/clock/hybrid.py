"""The hybrid clock of one partition: log time never goes backwards, and a closed time is never appended to again.

No clock is read here but the one that is handed in. Times are milliseconds.
"""

from __future__ import annotations

from typing import NamedTuple

from quorate.consensus.clock.kernel import TimeSource
from quorate.consensus.core import Millis

NO_STAMP = Millis(-1)


class ClockUncertain(Exception):
    """The clock may be further off than this queue allows: nothing was stamped. It passes when the clock is synchronized."""

    definite = True
    retriable = True

    def __init__(self, uncertainty_ms: int | None, bound_ms: int) -> None:
        known = "unknown" if uncertainty_ms is None else f"{uncertainty_ms} ms"
        super().__init__(f"the clock's uncertainty is {known}, above the bound of {bound_ms} ms")
        self.uncertainty_ms = uncertainty_ms
        self.bound_ms = bound_ms


class ClockStatus(NamedTuple):
    """For metrics and people."""

    now: Millis
    last: Millis
    closed: Millis
    uncertainty_ms: int | None
    """None: not synchronized, nobody knows."""
    ahead_ms: int
    """How far stamps run ahead of the wall clock, because it went back or an earlier leader's was fast."""


class HybridClock:
    """Stamps the appends of one partition, while this node leads it.

    Rules: a stamp is never below an earlier one, nor below one seen in the log; it is above every closed time.
    After a change of leader both hold without a word from the old leader: stamps because they are in the log, the closed
    time because the old leader closed nothing that might have been in the future, and the new one stamps nothing
    that might be in the past.
    """

    __slots__ = ("_bound_ms", "_closed", "_last", "_source")

    # Every stamp given so far <= _last; every later one is >= _last and > _closed.
    def __init__(self, source: TimeSource, bound_ms: int | None = None) -> None:
        if bound_ms is not None and bound_ms < 0:
            raise ValueError(f"bound_ms must not be negative, not {bound_ms}")
        self._source = source
        self._bound_ms = bound_ms
        """Above this uncertainty nothing is stamped. None: everything is."""
        self._last = NO_STAMP
        self._closed = NO_STAMP

    def stamp(self) -> Millis:
        """The time of an append that is made now. Raises ClockUncertain if the queue asks for a better clock."""
        if self._bound_ms is not None:
            uncertainty = self._source.uncertainty_ms()
            if uncertainty is None or uncertainty > self._bound_ms:
                raise ClockUncertain(uncertainty, self._bound_ms)
        self._last = Millis(max(self._source.now(), self._last, self._closed + 1))
        return self._last

    def observe(self, stamp: Millis) -> None:
        """This stamp is in the log, whoever gave it: none of ours will be lower."""
        if stamp > self._last:
            self._last = stamp

    def lead(self, last_stamp: Millis) -> None:
        """Begin to stamp for a log that ends with `last_stamp`, as its new leader or after a restart.

        What the leader before closed, it closed by the earliest that its clock could mean. To be above that, begin at the
        latest that ours can mean.
        """
        self.observe(last_stamp)
        uncertainty = self._source.uncertainty_ms()
        if uncertainty is not None:
            self._last = Millis(max(self._last, self._source.now() + uncertainty))

    def closed(self, committed: Millis = NO_STAMP, oldest_pending: Millis | None = None) -> Millis:
        """A time T so that no later append gets a stamp at or below it, on this leader or on the next. T never falls.

        `committed` is the highest stamp in the committed log: every later leader has seen it. `oldest_pending` is the
        lowest stamp among appends that are not committed yet: they count as later ones. Without a known uncertainty
        nothing but committed stamps closes time.

        A leader that was deposed and does not know it may close too much: publish T only after a quorum has confirmed
        (as for a linearizable read) that this replica led when it asked.
        """
        time = Millis(committed - 1)
        uncertainty = self._source.uncertainty_ms()
        if uncertainty is not None:
            time = Millis(max(time, self._source.now() - uncertainty - 1))
        if oldest_pending is not None:
            time = Millis(min(time, oldest_pending - 1))
        if time > self._closed:
            self._closed = time
        return self._closed

    def status(self) -> ClockStatus:
        """Where the clock stands."""
        now = self._source.now()
        return ClockStatus(now, self._last, self._closed, self._source.uncertainty_ms(), max(0, self._last - now))
