"""One replica's view of its log: bounds, terms, configurations, and the newest batches in memory.

The bytes of older batches are on disk, which the core does not see. Terms and configurations are known for the whole log.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import NamedTuple

from quorate.consensus.core.membership import Configuration, History
from quorate.consensus.core.terms import TermRuns
from quorate.consensus.core.types import (
    NO_OFFSET,
    NO_TERM,
    Batch,
    BatchKind,
    HardState,
    LogStart,
    Offset,
    Snapshot,
    Term,
)


class Restored(NamedTuple):
    """What a replica finds on its disk when it starts."""

    hard_state: HardState
    start: LogStart
    runs: tuple[tuple[Offset, Offset, Term], ...] = ()
    """(base, last, term) of every batch, or of whole runs of batches of one term, from the start on."""
    configurations: tuple[tuple[Offset, Configuration], ...] = ()
    """Every configuration batch in the log, by offset."""
    applied: Offset = NO_OFFSET
    """Up to where the state machine's own durable state reaches; at least the start."""


def new_group(configuration: Configuration) -> Restored:
    """The state of a replica that starts a new group (every first member is given the same configuration)."""
    return Restored(HardState(), LogStart(NO_OFFSET, NO_TERM, configuration))


def new_replica() -> Restored:
    """The state of a replica that was added to a group that exists: it knows nobody and waits to be told."""
    return new_group(Configuration(voters=frozenset()))


class Log:
    """The log of one replica, in offsets.

    Invariants: start <= applied <= commit <= last; start <= stable <= handed <= last;
    the tail holds the batches `[tail_first, last]` without a gap, among them all above `stable`.
    """

    __slots__ = (
        "_bases",
        "_tail",
        "_tail_limit",
        "applied",
        "commit",
        "handed",
        "history",
        "stable",
        "tail_bytes",
        "terms",
    )

    def __init__(self, restored: Restored, tail_limit: int) -> None:
        start = restored.start
        self.terms = TermRuns.rebuild(start.offset, start.term, restored.runs)
        self.history = History(start.offset, start.configuration)
        for offset, configuration in restored.configurations:
            self.history.append(offset, configuration)
        last = self.terms.last
        self.stable = last
        """Everything up to here is durable here."""
        self.handed = last
        """Everything up to here was given to the disk."""
        self.applied = max(start.offset, min(restored.applied, last))
        self.commit = Offset(min(max(restored.hard_state.commit, self.applied), last))
        self._bases: list[Offset] = []
        self._tail: list[Batch] = []
        self.tail_bytes = 0
        self._tail_limit = tail_limit

    @property
    def start(self) -> Offset:
        return self.terms.start

    @property
    def last(self) -> Offset:
        return self.terms.last

    @property
    def last_term(self) -> Term:
        return self.terms.last_term

    def log_start(self) -> LogStart:
        """Where the log begins, as it is stored and as a snapshot tells it."""
        return LogStart(self.terms.start, self.terms.start_term, self.history.at(self.terms.start))

    def append(self, batch: Batch, configuration: Configuration | None = None) -> None:
        """Add a batch at the end; `configuration` is the decoded content of a configuration batch."""
        self.terms.append(batch.base, batch.last, batch.term)
        self._bases.append(batch.base)
        self._tail.append(batch)
        self.tail_bytes += batch.size
        if configuration is not None:
            self.history.append(batch.last, configuration)

    def truncate(self, last: Offset) -> bool:
        """Drop every batch above `last`; whether that rolled a configuration back."""
        keep = bisect_left(self._bases, last + 1)
        for batch in self._tail[keep:]:
            self.tail_bytes -= batch.size
        del self._bases[keep:]
        del self._tail[keep:]
        self.terms.truncate(last)
        self.stable = min(self.stable, last)
        self.handed = min(self.handed, last)
        return self.history.truncate(last)

    def compact(self, start: Offset) -> None:
        """Forget everything up to `start`, which is applied and a batch's end."""
        self.terms.compact(start)
        self.history.compact(start)
        drop = bisect_left(self._bases, start + 1)
        self.tail_bytes -= sum(batch.size for batch in self._tail[:drop])
        del self._bases[:drop]
        del self._tail[:drop]

    def install(self, snapshot: Snapshot) -> None:
        """Start over from a snapshot: an empty log after its offset."""
        offset, term, configuration = snapshot.start
        self.terms = TermRuns(offset, term)
        self.history = History(offset, configuration)
        self._bases.clear()
        self._tail.clear()
        self.tail_bytes = 0
        self.stable = self.handed = self.commit = self.applied = offset

    def slice(self, first: Offset, max_bytes: int) -> tuple[Batch, ...] | None:
        """Batches from `first` (a batch's base) on, at least one; None if they are no longer in memory."""
        bases = self._bases
        index = bisect_left(bases, first)
        if index == len(bases) or bases[index] != first:
            return None
        tail = self._tail
        size = tail[index].size
        end = index + 1
        while end < len(tail):
            size += tail[end].size
            if size > max_bytes:
                break
            end += 1
        return tuple(tail[index:end])

    def may_end_at(self, offset: Offset) -> bool:
        """Whether a batch may end at `offset`: not past the log, and not inside a batch as far as memory reaches."""
        if offset >= self.last:
            return offset == self.last
        index = bisect_left(self._bases, offset + 1)
        return index == 0 or (index < len(self._bases) and self._bases[index] == offset + 1)

    def unhanded(self) -> tuple[Batch, ...]:
        """The batches that the disk was not given yet; from now on it was."""
        first = bisect_left(self._bases, self.handed + 1)
        self.handed = self.last
        return tuple(self._tail[first:])

    def trim(self) -> None:
        """Let go of the oldest durable batches in memory when there are too many bytes of them."""
        if self.tail_bytes <= self._tail_limit:
            return
        drop, stable = 0, self.stable
        for batch in self._tail:
            if self.tail_bytes <= self._tail_limit or batch.last > stable:
                break
            self.tail_bytes -= batch.size
            drop += 1
        del self._bases[:drop]
        del self._tail[:drop]

    def check_invariants(self) -> None:
        """Raise AssertionError if the fields contradict each other. Called by tests after every step."""
        terms, tail = self.terms, self._tail
        assert terms.start <= self.applied <= self.commit <= terms.last, "start <= applied <= commit <= last"
        assert terms.start <= self.stable <= self.handed <= terms.last, "start <= stable <= handed <= last"
        assert [batch.base for batch in tail] == self._bases
        assert self.tail_bytes == sum(batch.size for batch in tail)
        for before, after in pairwise(tail):
            assert after.base == before.last + 1, "the tail has a gap"
        if tail:
            assert tail[-1].last == terms.last, "the tail ends before the log"
            assert tail[0].base <= self.stable + 1, "an unstable batch is not in memory"
        else:
            assert self.stable == terms.last, "an unstable batch is not in memory"
        assert self.history.current_offset <= terms.last, "a configuration outlived its batch"


def decode_configurations(batches: tuple[Batch, ...]) -> dict[Offset, Configuration]:
    """The configurations among these batches, by offset. Raises ValueError for one that cannot be read."""
    return {batch.last: Configuration.decode(batch.data) for batch in batches if batch.kind is BatchKind.CONFIG}
