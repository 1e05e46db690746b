"""What is known of a log without reading it: where it begins and ends, its terms and its configurations.

A view is a value. A write makes the next one, so readers in other threads always see a whole one.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from quorate.consensus.core import Configuration, HardState, Millis, Offset, Restored, Term
from quorate.consensus.storage.keys import Beginning, Index, Mark


class View(NamedTuple):
    """The state of one replica's log after `mark.counter` writes."""

    # start <= last. `firsts` and `terms` are parallel, terms rise strictly; terms[0] is the start's, its run may be empty.
    # The offsets of configurations rise, and are above the start.
    mark: Mark
    beginning: Beginning
    applied: Offset
    has_state: bool
    firsts: tuple[Offset, ...]
    terms: tuple[Term, ...]
    configurations: tuple[tuple[Offset, Configuration], ...]

    def with_mark(self, mark: Mark) -> View:
        """The same with another mark: what most writes lead to."""
        _, beginning, applied, has_state, firsts, terms, configurations = self
        return View(mark, beginning, applied, has_state, firsts, terms, configurations)

    def to_index(self) -> Index:
        """The part of it that is stored in an index."""
        return Index(self.beginning, self.applied, self.has_state, self.firsts, self.terms, self.configurations)

    @property
    def start(self) -> Offset:
        return self.beginning.start.offset

    @property
    def last(self) -> Offset:
        return self.mark.last

    @property
    def last_term(self) -> Term:
        return self.mark.last_term

    @property
    def hard_state(self) -> HardState:
        return self.mark.hard_state

    @property
    def size(self) -> int:
        return self.mark.size - self.beginning.size

    @property
    def stamp(self) -> Millis:
        return self.mark.stamp

    def term_at(self, offset: Offset) -> Term:
        """The term of an offset in the log."""
        firsts = self.firsts
        if offset >= firsts[-1]:
            return self.terms[-1]
        return self.terms[max(0, bisect_right(firsts, offset) - 1)]

    def runs(self) -> tuple[tuple[Offset, Offset, Term], ...]:
        """(first, last, term) of each run of batches of one term."""
        ends = [Offset(first - 1) for first in self.firsts[1:]] + [self.last]
        begins = [Offset(max(first, self.start + 1)) for first in self.firsts]
        return tuple(run for run in zip(begins, ends, self.terms, strict=True) if run[0] <= run[1])

    def restored(self) -> Restored:
        """What a replica that starts here is told."""
        applied = Offset(max(self.applied, self.start))
        return Restored(self.hard_state, self.beginning.start, self.runs(), self.configurations, applied)
