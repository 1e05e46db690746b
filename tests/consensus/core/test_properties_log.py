"""The term cache and the log in memory, against plain lists that hold every offset and every batch."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from quorate.consensus.core import (
    Batch,
    BatchKind,
    Configuration,
    HardState,
    LogStart,
    Offset,
    Restored,
    Snapshot,
    Term,
    new_group,
    replica_id,
)
from quorate.consensus.core.log import Log
from quorate.consensus.core.terms import TermRuns

GROWTH = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), max_size=12)
"""A log: for each batch its size in offsets, and by how much its term is higher than the one before."""


def batches_of(growth: list[tuple[int, int]], start: int = -1, term: int = 0) -> list[tuple[Offset, Offset, Term]]:
    result = []
    for count, rise in growth:
        term += rise
        result.append((Offset(start + 1), Offset(start + count), Term(term)))
        start += count
    return result


def terms_of(batches: list[tuple[Offset, Offset, Term]]) -> dict[int, int]:
    return {offset: term for base, last, term in batches for offset in range(base, last + 1)}


class TermRunsMachine(RuleBasedStateMachine):
    """TermRuns beside a dict from offset to term, and the ends of its batches."""

    @initialize(start=st.integers(-1, 5), term=st.integers(0, 3))
    def begin(self, start: int, term: int) -> None:
        self.runs = TermRuns(Offset(start), Term(term))
        self.start, self.last = start, start
        self.terms = {start: term}
        self.ends = [start]

    @rule(count=st.integers(1, 4), rise=st.sampled_from([0, 0, 0, 1, 2]))
    def append(self, count: int, rise: int) -> None:
        term = self.terms[self.last] + rise
        self.runs.append(Offset(self.last + 1), Offset(self.last + count), Term(term))
        self.terms.update(dict.fromkeys(range(self.last + 1, self.last + count + 1), term))
        self.last += count
        self.ends.append(self.last)

    @rule(back=st.integers(0, 5))
    def truncate(self, back: int) -> None:
        last = self.ends[max(0, len(self.ends) - 1 - back)]
        self.runs.truncate(Offset(last))
        self.terms = {offset: term for offset, term in self.terms.items() if offset <= last}
        self.ends = [end for end in self.ends if end <= last]
        self.last = last

    @rule(forward=st.integers(0, 5))
    def compact(self, forward: int) -> None:
        start = self.ends[min(len(self.ends) - 1, forward)]
        self.runs.compact(Offset(start))
        self.terms = {offset: term for offset, term in self.terms.items() if offset >= start}
        self.ends = [end for end in self.ends if end >= start]
        self.start = start

    @rule(gap=st.integers(-3, 3), count=st.integers(-1, 2), rise=st.integers(-2, 1))
    def append_what_does_not_follow(self, gap: int, count: int, rise: int) -> None:
        if gap or count < 1 or rise < 0:
            base, term = self.last + 1 + gap, self.terms[self.last] + rise
            with pytest.raises(ValueError, match="does not follow"):
                self.runs.append(Offset(base), Offset(base + count - 1), Term(term))

    @rule(beyond=st.integers(1, 3))
    def cut_outside(self, beyond: int) -> None:
        with pytest.raises(ValueError, match="cannot truncate"):
            self.runs.truncate(Offset(self.start - beyond))
        for wrong in (self.start - beyond, self.last + beyond):
            with pytest.raises(ValueError, match="cannot compact"):
                self.runs.compact(Offset(wrong))
        self.runs.truncate(Offset(self.last + beyond))

    @invariant()
    def agrees_with_the_list(self) -> None:
        runs = self.runs
        assert (runs.start, runs.last) == (self.start, self.last)
        assert (runs.start_term, runs.last_term) == (self.terms[self.start], self.terms[self.last])
        for offset in range(self.start - 2, self.last + 3):
            assert runs.term_at(Offset(offset)) == self.terms.get(offset)
            assert runs.matches(Offset(offset), Term(2)) is (self.terms.get(offset) == 2)

    @invariant()
    def hints_agree_with_the_list(self) -> None:
        for offset in range(self.start - 2, self.last + 3):
            for term in range(max(self.terms.values()) + 2):
                low = self.runs.last_at_or_below(Offset(offset), Term(term))
                assert low == max((o for o, t in self.terms.items() if o <= offset and t <= term), default=self.start)
                if offset in self.ends:
                    assert low in self.ends, "a hint is a batch's end"
                assert self.runs.may_agree_at(Offset(offset), Term(term)) == self.may_agree(offset, term)

    def may_agree(self, offset: int, term: int) -> int:
        """Word by word what the docstring says."""
        if offset <= self.start:
            return self.start
        mine = self.terms[min(offset, self.last)]
        if offset <= self.last and mine == term:
            return offset
        if offset > self.last or mine > term:
            return max((o for o, t in self.terms.items() if o <= offset and t <= term), default=self.start)
        return max((o for o, t in self.terms.items() if o < offset and t < mine), default=self.start)

    @invariant()
    def runs_rebuild_the_same_cache(self) -> None:
        pairs = self.runs.runs()
        firsts = [
            o for o in range(self.start + 1, self.last + 1) if o == self.start + 1 or self.terms[o] != self.terms[o - 1]
        ]
        assert pairs == [(first, self.terms[first]) for first in firsts]
        ends = [first - 1 for first, _ in pairs[1:]] + [self.last]
        whole = [(first, Offset(end), term) for (first, term), end in zip(pairs, ends, strict=False)]
        again = TermRuns.rebuild(Offset(self.start), Term(self.terms[self.start]), whole)
        assert (again.runs(), again.last, again.last_term) == (pairs, self.last, self.runs.last_term)


# Every invariant looks at every offset and every term: few long runs cost more than they find.
TestTermRuns = TermRunsMachine.TestCase
TestTermRuns.settings = settings(max_examples=40, stateful_step_count=20)


@given(GROWTH, GROWTH, GROWTH)
def test_the_hints_of_both_sides_find_where_two_logs_agree(
    shared: list[tuple[int, int]], mine: list[tuple[int, int]], theirs: list[tuple[int, int]]
) -> None:
    """The search of section 5.3 ends, at the last offset that the logs share, and each step goes strictly back."""
    common = batches_of(shared)
    end, term = (common[-1][1], common[-1][2]) if common else (-1, 0)
    # Two leaders of different terms wrote the rest: odd terms here, even terms there.
    left = common + [(b, last, Term(2 * (t - term) - 1 + term)) for b, last, t in batches_of(mine, end, term + 1) if t]
    right = common + [(b, last, Term(2 * (t - term) + term)) for b, last, t in batches_of(theirs, end, term + 1) if t]
    leader, follower = (TermRuns.rebuild(Offset(-1), Term(0), log) for log in (left, right))
    probe, steps = leader.last, 0
    while not follower.matches(probe, leader.term_at(probe) or Term(0)):
        previous_term = leader.term_at(probe)
        assert previous_term is not None
        hint = follower.last_at_or_below(Offset(min(probe, follower.last)), previous_term)
        agree = leader.may_agree_at(hint, follower.term_at(hint) or Term(0))
        assert agree < probe, "every rejection brings the leader back"
        assert agree >= end, "and never past what is shared"
        probe, steps = agree, steps + 1
    assert probe == end
    assert steps <= 1 + len(mine) + len(theirs)


def small(base: int, count: int, term: int, size: int) -> Batch:
    return Batch(Offset(base), Offset(base + count - 1), Term(term), BatchKind.DATA, bytes(size))


class LogMachine(RuleBasedStateMachine):
    """The log in memory beside a list of all its batches."""

    limit = 200

    @initialize()
    def begin(self) -> None:
        self.log = Log(new_group(Configuration(voters=frozenset({replica_id(1)}))), self.limit)
        self.batches: list[Batch] = []
        self.start, self.first_in_memory = -1, 0

    @property
    def last(self) -> int:
        return self.batches[-1].last if self.batches else self.start

    @rule(count=st.integers(1, 3), size=st.integers(0, 150), rise=st.integers(0, 1))
    def append(self, count: int, size: int, rise: int) -> None:
        batch = small(self.last + 1, count, self.log.last_term + rise, size)
        self.log.append(batch)
        self.batches.append(batch)

    @rule()
    def hand_over(self) -> None:
        handed = self.log.handed
        assert self.log.unhanded() == tuple(batch for batch in self.batches if batch.base > handed)
        assert self.log.unhanded() == ()

    @rule(share=st.integers(0, 5))
    def durable(self, share: int) -> None:
        ends = [b.last for b in self.batches if self.log.stable < b.last <= self.log.handed]
        if ends:
            self.log.stable = ends[min(share, len(ends) - 1)]

    @rule(share=st.integers(0, 5))
    def commit_and_apply(self, share: int) -> None:
        ends = [b.last for b in self.batches if self.log.commit < b.last]
        if ends:
            self.log.commit = ends[min(share, len(ends) - 1)]
        self.log.applied = max(self.log.applied, min(self.log.commit, self.log.stable))

    @rule(back=st.integers(0, 4))
    def truncate(self, back: int) -> None:
        ends = [end for end in (self.start, *(b.last for b in self.batches)) if end >= self.log.commit]
        last = ends[max(0, len(ends) - 1 - back)]
        assert self.log.truncate(Offset(last)) is False
        self.batches = [batch for batch in self.batches if batch.last <= last]

    @rule(share=st.integers(0, 4))
    def compact(self, share: int) -> None:
        ends = [b.last for b in self.batches if b.last <= min(self.log.applied, self.log.stable)]
        if ends:
            self.start = ends[min(share, len(ends) - 1)]
            self.log.compact(Offset(self.start))
            self.batches = [batch for batch in self.batches if batch.base > self.start]

    @rule()
    def trim(self) -> None:
        before = self.log.tail_bytes
        self.log.trim()
        assert self.log.tail_bytes <= before
        durable_kept = [b for b in self.in_memory() if b.last <= self.log.stable]
        if self.log.tail_bytes > self.limit:
            assert durable_kept == [], "what is not durable may not go; everything else did"

    @precondition(lambda self: self.batches)
    @rule(ahead=st.integers(1, 10))
    def install(self, ahead: int) -> None:
        self.start = self.last + ahead
        start = LogStart(Offset(self.start), self.log.last_term, self.log.history.current)
        self.log.install(Snapshot(start, b""))
        self.batches = []
        assert self.log.log_start() == start

    def in_memory(self) -> list[Batch]:
        return [batch for batch in self.batches if self.log.slice(batch.base, 0) is not None]

    @invariant()
    def bounds_and_tail_agree(self) -> None:
        self.log.check_invariants()
        assert (self.log.start, self.log.last) == (self.start, self.last)
        held = self.in_memory()
        assert held == self.batches[len(self.batches) - len(held) :], "memory holds the end of the log"

    @invariant()
    def slices_are_bounded_and_hold_at_least_one(self) -> None:
        for first in range(self.start - 1, self.last + 3):
            for limit in (0, 100, 300, 10_000):
                got = self.log.slice(Offset(first), limit)
                if got is None:
                    continue
                assert got[0].base == first
                index = self.batches.index(got[0])
                assert list(got) == self.batches[index : index + len(got)]
                size = sum(batch.size for batch in got)
                assert size <= limit or len(got) == 1
                following = self.batches[index + len(got) : index + len(got) + 1]
                assert not following or size + following[0].size > limit, "as much as fits"


TestLog = LogMachine.TestCase
TestLog.settings = settings(max_examples=60, stateful_step_count=25)


@given(GROWTH, st.integers(-5, 60), st.integers(-5, 60))
def test_a_restored_log_keeps_its_bounds_in_order(growth: list[tuple[int, int]], commit: int, applied: int) -> None:
    start = LogStart(Offset(4), Term(1), Configuration(voters=frozenset({replica_id(1)})))
    batches = tuple(batches_of(growth, 4, 1))
    log = Log(Restored(HardState(Term(9), commit=Offset(commit)), start, batches, (), Offset(applied)), 100)
    log.check_invariants()
    assert log.last == log.stable == log.handed == (batches[-1][1] if batches else 4)
    assert log.applied == max(4, min(applied, log.last))
    assert log.commit == min(max(commit, log.applied), log.last)
    assert terms_of(list(batches)) == {o: log.terms.term_at(Offset(o)) for o in range(5, log.last + 1)}
