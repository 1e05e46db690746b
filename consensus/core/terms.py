"""The term cache: which term each offset of a log belongs to, in a few ints per leader change.

A log's terms never fall, so one (start, term) pair per run is the whole truth. It answers every consistency check and every
conflict hint without reading the disk.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from quorate.consensus.core.types import Offset, Term


class TermRuns:
    """Runs of equal terms over the offsets `(start, last]`, and the term of `start` itself.

    `start` is the last compacted offset: its batch is gone but its term is known, so that an append that joins there can
    be checked. Runs begin and end at batch boundaries, because one batch has one term.
    """

    __slots__ = ("_starts", "_terms", "last", "start")

    # _starts and _terms are parallel; starts rise strictly, terms rise strictly; _starts[0] <= start.
    def __init__(self, start: Offset, start_term: Term) -> None:
        self.start = start
        self.last = start
        self._starts: list[Offset] = [start]
        self._terms: list[Term] = [start_term]

    @property
    def last_term(self) -> Term:
        return self._terms[-1]

    @property
    def start_term(self) -> Term:
        return self._terms[0]

    def append(self, base: Offset, last: Offset, term: Term) -> None:
        """Add a batch right after `last`. Its term must not be lower than the one before."""
        if base != self.last + 1 or last < base or term < self._terms[-1]:
            raise ValueError(f"batch {base}-{last}@{term} does not follow {self.last}@{self._terms[-1]}")
        if term != self._terms[-1]:
            self._starts.append(base)
            self._terms.append(term)
        self.last = last

    def term_at(self, offset: Offset) -> Term | None:
        """The term of `offset`, or None where the log does not reach (compacted away, or past its end)."""
        if offset < self.start or offset > self.last:
            return None
        if offset >= self._starts[-1]:
            return self._terms[-1]
        return self._terms[bisect_right(self._starts, offset) - 1]

    def matches(self, offset: Offset, term: Term) -> bool:
        """Whether this log has `offset` and it belongs to `term`."""
        return self.term_at(offset) == term

    def truncate(self, last: Offset) -> None:
        """Forget everything after `last`, which must be a batch's end (or the start)."""
        if last < self.start:
            raise ValueError(f"cannot truncate to {last}: the log starts after {self.start}")
        if last >= self.last:
            return
        keep = bisect_right(self._starts, last)
        del self._starts[keep:]
        del self._terms[keep:]
        self.last = last

    def compact(self, start: Offset) -> None:
        """Forget everything up to and including `start`, except the term of `start` itself."""
        if not self.start <= start <= self.last:
            raise ValueError(f"cannot compact to {start}: the log holds {self.start}..{self.last}")
        drop = bisect_right(self._starts, start) - 1
        del self._starts[:drop]
        del self._terms[:drop]
        self._starts[0] = start
        self.start = start

    def last_at_or_below(self, offset: Offset, term: Term) -> Offset:
        """The highest offset <= `offset` whose term is <= `term`; the start if there is none above it.

        This is the conflict hint of both sides: whatever lies above it cannot be in the other log. It is always a
        batch's end if `offset` is one, because terms change only at batch boundaries.
        """
        offset = min(offset, self.last)
        if offset <= self.start:
            return self.start
        run = bisect_right(self._starts, offset) - 1
        if self._terms[run] <= term:
            return offset
        run = bisect_right(self._terms, term) - 1
        return self.start if run < 0 else Offset(max(self.start, self._starts[run + 1] - 1))

    def may_agree_at(self, offset: Offset, term: Term) -> Offset:
        """Where another log that holds `term` at `offset` may still agree with this one, as a batch's end in this log.

        The same term at the same offset means the same batch. Otherwise the other log has a lower term here (then it ends
        before this log's run began), or a higher one (then nothing of this log's run at `offset` is known to be shared).
        """
        if offset <= self.start:
            return self.start
        if offset > self.last:
            return self.last_at_or_below(self.last, term)
        run = bisect_right(self._starts, offset) - 1
        if self._terms[run] == term:
            return offset
        if self._terms[run] > term:
            return self.last_at_or_below(offset, term)
        return Offset(max(self.start, self._starts[run] - 1))

    def runs(self) -> list[tuple[Offset, Term]]:
        """(first offset, term) of each run above the start, for storage and for comparison in tests."""
        pairs = zip(self._starts, self._terms, strict=True)
        above = [(Offset(max(begin, self.start + 1)), term) for begin, term in pairs]
        following = [*self._starts[1:], Offset(self.last + 1)]
        return [pair for pair, end in zip(above, following, strict=True) if pair[0] < end]

    @classmethod
    def rebuild(cls, start: Offset, start_term: Term, batches: Iterable[tuple[Offset, Offset, Term]]) -> TermRuns:
        """From what the disk holds: the log start, then (base, last, term) of batches or of whole runs, in order."""
        runs = cls(start, start_term)
        for base, last, term in batches:
            runs.append(base, last, term)
        return runs
