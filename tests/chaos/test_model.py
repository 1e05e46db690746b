"""Right histories pass every checker; the same histories with one thing made wrong are flagged by the checker for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.chaos.history import Action, History, Operation, Record
from tests.chaos.model import Model
from tests.chaos.story import found, names_of, replaced

seeds = st.integers(0, 2**32)


@given(seed=seeds, steps=st.integers(0, 300))
@settings(deadline=None, max_examples=100)
def test_right_histories_pass(seed: int, steps: int) -> None:
    assert names_of(Model(Random(seed)).tell(steps)) == set()


# Each of these makes one thing wrong; None if this history has nothing that it could happen to.


def _finals(history: History) -> Iterator[Operation]:
    return (one for one in history.of(Action.FINAL) if one.records)


def _with_final(history: History, change: Callable[[list[Record]], list[Record] | None]) -> History | None:
    for final in _finals(history):
        records = change(list(final.records))
        if records is not None:
            return replaced(history, [replace(final, records=tuple(records))])
    return None


def lose(history: History, random: Random) -> History | None:
    acknowledged = {one.value for one in history.of(Action.PRODUCE) if one.outcome == "ok"}

    def drop(records: list[Record]) -> list[Record] | None:
        victims = [one for one in records if one.value in acknowledged]
        if not victims:
            return None
        records.remove(random.choice(victims))
        return records

    return _with_final(history, drop)


def double(history: History, random: Random) -> History | None:
    def again(records: list[Record]) -> list[Record]:
        return [*records, random.choice(records)._replace(offset=records[-1].offset + 1, stamp=records[-1].stamp)]

    return _with_final(history, again)


def rewrite(history: History, random: Random) -> History | None:
    for final in _finals(history):
        acknowledged = {one.offset for one in history.of(Action.PRODUCE) if one.outcome == "ok" and one.place == final.place}
        at = [index for index, record in enumerate(final.records) if record.offset in acknowledged]
        if at:
            records = list(final.records)
            chosen = random.choice(at)
            records[chosen] = records[chosen]._replace(value="other")
            return replaced(history, [replace(final, records=tuple(records))])
    return None


def _read_of(history: History, random: Random, least: int) -> Operation | None:
    reads = [one for one in history.of(Action.READ) if len(one.records) >= least]
    return random.choice(reads) if reads else None


def skip(history: History, random: Random) -> History | None:
    read = _read_of(history, random, 2)
    if read is None:
        return None
    at = random.randrange(len(read.records) - 1)
    return replaced(history, [replace(read, records=read.records[:at] + read.records[at + 1 :])])


def go_back(history: History, random: Random) -> History | None:
    read = _read_of(history, random, 1)
    return None if read is None else replaced(history, [replace(read, records=(*read.records, random.choice(read.records)))])


def show_uncommitted(history: History, random: Random) -> History | None:
    read = _read_of(history, random, 1)
    if read is None:
        return None
    shown = random.choice(read.records)
    final = next(one for one in _finals(history) if one.place == read.place)
    return replaced(history, [replace(final, records=tuple(one for one in final.records if one != shown))])


def turn_time_back(history: History, random: Random) -> History | None:
    def late(records: list[Record]) -> list[Record] | None:
        if len(records) < 2:
            return None
        at = random.randrange(1, len(records))
        records[at] = records[at]._replace(stamp=records[at - 1].stamp - 1)
        return records

    # Nobody else must have read it: the first stamp that is seen of an offset counts.
    alone = replaced(history, [replace(one, records=()) for one in history.of(Action.READ)])
    return _with_final(alone, late)


def swap(history: History, random: Random) -> History | None:
    acknowledged = [one for one in history.of(Action.PRODUCE) if one.outcome == "ok"]
    random.shuffle(acknowledged)
    for first in acknowledged:
        for second in acknowledged:
            if first.place == second.place and (first.ended_ns or 0) < second.began_ns:
                return replaced(history, [replace(first, offset=second.offset), replace(second, offset=first.offset)])
    return None


def deny(history: History, random: Random) -> History | None:
    there = {record.value for final in _finals(history) for record in final.records}
    written = [one for one in history.of(Action.PRODUCE) if one.value in there]
    return replaced(history, [replace(random.choice(written), outcome="fail", offset=-1)]) if written else None


def forget_commits(history: History, random: Random) -> History | None:
    asked = [one for one in history.of(Action.COMMITTED) if one.offset >= 0]
    acknowledged = [one for one in history.of(Action.COMMIT) if one.outcome == "ok"]
    victims = [one for one in asked if any(c.place == one.place and (c.ended_ns or 0) < one.began_ns for c in acknowledged)]
    return replaced(history, [replace(random.choice(victims), offset=-1)]) if victims else None


def starve(history: History, random: Random) -> History | None:
    """A member was never given a message below what its group committed."""
    for commit in reversed(history.of(Action.COMMIT)):
        reads = [one for one in history.of(Action.READ) if one.group and one.place == commit.place and one.records]
        if commit.outcome == "ok" and commit.offset > 0 and reads and reads[0].records[0].offset < commit.offset:
            return replaced(history, [replace(reads[0], records=reads[0].records[1:])])
    return None


def flip(history: History, random: Random) -> History | None:
    for replica in history.of(Action.REPLICA):
        others = [one for one in history.of(Action.REPLICA) if one.place == replica.place and one is not replica]
        end = min(replica.offset, max(one.offset for one in others))
        at = [index for index, record in enumerate(replica.records) if record.stamp <= end]
        if at:
            records, chosen = list(replica.records), random.choice(at)
            records[chosen] = records[chosen]._replace(value="flipped")
            return replaced(history, [replace(replica, records=tuple(records))])
    return None


def answer_late(history: History, random: Random) -> History | None:
    """A leader that was deposed says where the log ended then."""
    acknowledged = [one for one in history.of(Action.PRODUCE) if one.outcome == "ok"]
    for asked in reversed(history.of(Action.LATEST)):
        for known in acknowledged:
            if known.place == asked.place and (known.ended_ns or 0) < asked.began_ns:
                return replaced(history, [replace(asked, offset=known.offset)])
    return None


MUTATIONS = [
    (lose, "lost"),
    (double, "duplicate"),
    (rewrite, "two-values"),
    (skip, "reader"),
    (go_back, "reader"),
    (show_uncommitted, "uncommitted"),
    (turn_time_back, "time-back"),
    (swap, "order"),
    (deny, "false-fail"),
    (forget_commits, "commit-back"),
    (starve, "group-skipped"),
    (flip, "replicas"),
    (answer_late, "stale"),
]


@pytest.mark.parametrize(("mutate", "checker"), MUTATIONS, ids=[mutate.__name__ for mutate, _ in MUTATIONS])
def test_wrong_histories_are_flagged(mutate: Callable[[History, Random], History | None], checker: str) -> None:
    tried = 0

    @given(seed=seeds)
    @settings(deadline=None, max_examples=30, database=None)
    def flagged(seed: int) -> None:
        nonlocal tried
        random = Random(seed)
        mutated = mutate(Model(random).tell(250), random)
        if mutated is not None:
            tried += 1
            assert found(mutated, checker)

    flagged()
    assert tried >= 15, "the mutation must find something to make wrong in most histories"
