"""Staged batches in the replicated state: replayed equals live, order and gaps, what ended stays ended, old states load."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.partition.stages import ENDED_MS, Stages, stage_batch, stage_drop_batch
from quorate.broker.partition.state import PartitionState, log_start_batch
from quorate.broker.protocol.builder import Producer
from quorate.consensus.batch.control import ControlType, read_control
from quorate.consensus.batch.header import CONTROL, read_header
from quorate.consensus.core import Batch
from tests.broker.partition.lab import batch
from tests.broker.partition.test_state import placed
from tests.support.batches import noop

EXPIRY = 50
Step = tuple[str, int, int, int]

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("stage"), st.integers(1, 3), st.integers(0, 3), st.integers(0, 40)),
        st.tuples(st.just("publish"), st.integers(1, 3), st.just(0), st.integers(0, 40)),
        st.tuples(st.just("drop"), st.integers(1, 3), st.just(0), st.integers(0, 40)),
        st.tuples(st.just("produce"), st.integers(1, 4), st.integers(0, 3), st.integers(0, 40)),
        st.tuples(st.just("wait"), st.just(0), st.just(0), st.integers(0, 2 * ENDED_MS)),
        st.tuples(st.just("start"), st.just(0), st.integers(0, 30), st.integers(0, 40)),
        st.tuples(st.just("noop"), st.just(0), st.just(0), st.just(0)),
    ),
    max_size=60,
)


def staged(producer: int, first: int, count: int, base: int, time: int) -> Batch:
    return placed(stage_batch(batch(count, Producer(producer, 0, first))), base, time)


class Log:
    """A log that is written as a leader would write it, and the state that follows from it."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.state = PartitionState()
        self.base, self.time = 0, 1_000

    def add(self, one: Batch) -> None:
        self.batches.append(one)
        self.state.apply([one], EXPIRY)
        self.base = one.last + 1

    def step(self, step: Step) -> None:
        what, producer, number, pause = step
        self.time += pause
        if what == "stage":
            # Also out of order, twice, and after the end.
            self.add(staged(producer, number * 2, 2, self.base, self.time))
        elif what == "publish":
            stage = self.state.stages.open.get(producer)
            if stage is not None:
                first = stage.batches[stage.published].first
                self.add(placed(batch(2, Producer(producer, 0, first)), self.base, self.time))
        elif what == "drop":
            self.add(placed(stage_drop_batch([producer, producer + 1]), self.base, self.time))
        elif what == "produce":
            self.add(placed(batch(2, Producer(producer, 0, number * 2)), self.base, self.time))
        elif what == "start":
            self.add(placed(log_start_batch(number), self.base, self.time))
        else:
            self.add(noop(self.base))


def check(stages: Stages) -> None:
    assert not stages.open.keys() & stages.ended.keys()
    assert list(stages.ended.values()) == sorted(stages.ended.values())
    for stage in stages.open.values():
        assert stage.batches
        assert 0 <= stage.published < len(stage.batches)
        following = 0
        for one in stage.batches:
            assert one.first == following
            following = one.last + 1
    pins = [one.offset for stage in stages.open.values() for one in stage.batches[stage.published :]]
    assert stages.pin == min(pins, default=None)


@given(STEPS, st.lists(st.integers(1, 5), min_size=1), st.integers(0, 40))
def test_replayed_equals_live(steps: list[Step], sizes: list[int], restart: int) -> None:
    log = Log()
    for step in steps:
        log.step(step)
        check(log.state.stages)
    replayed, at, turn = PartitionState(), 0, 0
    while at < len(log.batches):
        size = sizes[turn % len(sizes)]
        replayed.apply(log.batches[at : at + size], EXPIRY)
        at, turn = at + size, turn + 1
        if turn == restart:
            replayed = PartitionState.load(replayed.save())
    assert replayed.save() == log.state.save()
    assert PartitionState.load(log.state.save()).save() == log.state.save()


@given(STEPS)
def test_a_stage_is_published_once_at_most(steps: list[Step]) -> None:
    """However often and in whatever order its parts come: what has ended does not begin again."""
    log = Log()
    ended: set[int] = set()
    for step in [step for step in steps if step[0] != "wait"]:
        before = set(log.state.stages.ended)
        log.step(step)
        ended |= before
        assert not ended & log.state.stages.open.keys()


def test_a_stage_is_wrapped_whole() -> None:
    inner = batch(3, Producer(9, 0, 0))
    outer = stage_batch(inner)
    header = read_header(outer)
    assert header.attributes & CONTROL
    assert (header.records, header.last_delta, header.producer_id) == (1, 0, -1), "one offset, and nobody's"
    control, value = read_control(outer)
    assert control == ControlType.STAGE
    assert bytes(value) == inner
    assert len(outer) - len(inner) < 100


def test_a_batch_that_leaves_a_gap_is_not_part_of_the_stage() -> None:
    log = Log()
    for first in (0, 2, 6, 4, 4):
        log.step(("stage", 1, first // 2, 1))
    stage = log.state.stages.open[1]
    assert [one.first for one in stage.batches] == [0, 2, 4]
    assert (stage.records, stage.following) == (6, 6)
    log.step(("stage", 2, 1, 1))
    assert 2 not in log.state.stages.open, "it must begin at its beginning"


def test_published_batches_of_a_stage_are_no_longer_pinned_and_are_not_dropped() -> None:
    log = Log()
    for number in range(3):
        log.step(("stage", 1, number, 1))
    assert log.state.stages.pin == 0
    log.step(("publish", 1, 0, 1))
    assert log.state.stages.pin == 1
    log.step(("drop", 1, 0, 1))
    assert log.state.stages.pin == 1, "once it has begun it is carried through"
    assert log.state.stages.expired(1 << 50) == []
    log.step(("publish", 1, 0, 1))
    log.step(("publish", 1, 0, 1))
    pins = [log.state.stages.pin]
    assert pins == [None]
    assert set(log.state.stages.ended) == {1, 2}, "it was dropped together with another, which staged nothing"
    assert 1 not in log.state.producers, "the stage knows by itself what is published, however soon producers are forgotten"


def test_a_producer_that_appends_stages_nothing() -> None:
    log = Log()
    log.step(("produce", 4, 0, 1))
    log.add(staged(4, 0, 2, log.base, log.time))
    assert not log.state.stages.open


def test_what_ended_is_forgotten_after_a_while() -> None:
    log = Log()
    log.step(("drop", 1, 0, 1))
    log.step(("stage", 1, 0, ENDED_MS))
    assert 1 not in log.state.stages.open, "a request that was late"
    log.step(("stage", 3, 0, 2))
    assert not log.state.stages.ended
    assert set(log.state.stages.open) == {3}


def test_expiry_counts_from_the_last_batch() -> None:
    log = Log()
    log.step(("stage", 1, 0, 0))
    log.step(("stage", 2, 0, 10))
    log.step(("stage", 1, 1, 10))
    assert [stage.stamp for stage in log.state.stages.open.values()] == [1_020, 1_010]
    assert log.state.stages.expired(1_015) == [2]
    assert sorted(log.state.stages.expired(1_021)) == [1, 2]


def test_a_state_without_stages_is_loaded() -> None:
    """As releases before this one wrote it."""
    log = Log()
    log.step(("produce", 1, 0, 1))
    log.step(("start", 0, 1, 1))
    saved = log.state.save()
    nothing = Stages().save()
    assert saved.endswith(nothing)
    old = struct.pack(">b", 1) + saved[1 : -len(nothing)]
    assert PartitionState.load(old).save() == saved
