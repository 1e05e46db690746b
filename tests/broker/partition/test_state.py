"""Replicated state: replayed equals live however it is cut, and producers are judged as Kafka judges them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.partition.producers import InFlight, Producers
from quorate.broker.partition.state import Kept, PartitionState, log_start_batch
from quorate.broker.partition.values import KafkaFailure
from quorate.broker.protocol.builder import Producer
from quorate.consensus.batch.control import ControlType, build_control
from quorate.consensus.batch.errors import BadBatch
from quorate.consensus.batch.header import Header, read_header, stamp, stamp_append_time
from quorate.consensus.core import Batch, BatchKind, Millis, Offset, Term
from quorate.consensus.runtime import Proposed, Superseded
from tests.broker.partition.lab import batch
from tests.support.batches import noop

LAST = 2**31 - 1
EXPIRY = 50


def placed(data: bytearray, base: int, time: int) -> Batch:
    """A batch as the log has it."""
    header = read_header(data)
    stamp(data, base, 1)
    stamp_append_time(data, time)
    return Batch(Offset(base), Offset(base + header.last_delta), Term(1), BatchKind.DATA, data)


def header(producer: int, epoch: int, first: int, count: int = 1) -> Header:
    return read_header(batch(count, Producer(producer, epoch, first)))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.integers(1, 4), st.integers(0, 2), st.integers(0, 40)),
        st.tuples(st.just("plain"), st.just(0), st.just(0), st.integers(0, 40)),
        st.tuples(st.just("noop"), st.just(0), st.just(0), st.just(0)),
        st.tuples(st.just("start"), st.just(0), st.integers(0, 30), st.integers(0, 40)),
    ),
    max_size=40,
)


def log_of(steps: list[tuple[str, int, int, int]]) -> list[Batch]:
    log: list[Batch] = []
    base, time, sequence = 0, 1_000, 0
    for what, producer, number, pause in steps:
        time += pause
        if what == "produce":
            log.append(placed(batch(2, Producer(producer, number, sequence)), base, time))
            sequence += 2
        elif what == "plain":
            log.append(placed(batch(3), base, time))
        elif what == "start":
            log.append(placed(log_start_batch(number), base, time))
        else:
            log.append(noop(base))
        base = log[-1].last + 1
    return log


@given(STEPS, st.lists(st.integers(1, 5), min_size=1), st.integers(0, 40))
def test_replayed_equals_live(steps: list[tuple[str, int, int, int]], sizes: list[int], restart: int) -> None:
    log = log_of(steps)
    live = PartitionState()
    for one in log:
        live.apply([one], EXPIRY)
    replayed, at, turn = PartitionState(), 0, 0
    while at < len(log):
        size = sizes[turn % len(sizes)]
        replayed.apply(log[at : at + size], EXPIRY)
        at, turn = at + size, turn + 1
        if turn == restart:
            replayed = PartitionState.load(replayed.save())
    assert replayed.save() == live.save()
    assert PartitionState.load(live.save()).save() == live.save()


def test_a_state_that_cannot_be_read_is_refused() -> None:
    good = PartitionState().save()
    one = PartitionState()
    one.apply([placed(batch(1, Producer(1, 0, 0)), 0, 1_000)], EXPIRY)
    saved = one.save()
    twice = saved[:25] + (2).to_bytes(4, "big") + 2 * saved[29:]
    for bad in (b"\x09" + good[1:], good + b"x", good[:-1], saved[:-1], saved[:40], twice):
        with pytest.raises(ValueError, match="a partition's state"):
            PartitionState.load(bad)
    assert PartitionState.load(b"").log_start == 0


def test_a_producer_that_appends_nothing_is_forgotten_by_log_time() -> None:
    state = PartitionState()
    state.apply([placed(batch(1, Producer(1, 0, 0)), 0, 1_000), placed(batch(1, Producer(2, 0, 0)), 1, 1_030)], EXPIRY)
    state.apply([placed(batch(), 2, 1_050)], EXPIRY)
    assert set(state.producers) == {1, 2}
    state.apply([placed(batch(), 3, 1_051)], EXPIRY)
    assert set(state.producers) == {2}


def test_the_log_start_never_falls_and_never_passes_the_batch_that_moves_it() -> None:
    state = PartitionState()
    state.apply([placed(batch(4), 0, 1), placed(log_start_batch(99), 4, 2), placed(log_start_batch(2), 5, 3)], EXPIRY)
    assert (state.log_start, state.data_end) == (4, 4)


@pytest.mark.parametrize("control", [ControlType.LOG_START, ControlType.STAGE, ControlType.STAGE_DROP])
def test_a_control_batch_of_ours_with_another_value_is_refused(control: ControlType) -> None:
    batch = bytearray(build_control(0, 0, control, b"\x01"))
    with pytest.raises(BadBatch, match="1 bytes"):
        PartitionState().apply([placed(batch, 4, 2)], EXPIRY)


class Bench:
    """A leader's producers over a log in memory."""

    def __init__(self) -> None:
        self.producers = Producers(PartitionState())
        self.base = 0

    def appended(self, epoch: int, first: int, count: int = 1) -> InFlight:
        return self.producers.appended(header(7, epoch, first, count), lambda outcome: None)

    def commit(self, entry: InFlight, count: int = 1) -> None:
        self.producers.decided(entry, Proposed(Offset(self.base), Millis(5), Term(1)))
        data = batch(count, Producer(7, entry.epoch, entry.first))
        self.producers.applied(self.producers.state.apply([placed(data, self.base, 5)], EXPIRY))
        self.base += count

    def judge(self, epoch: int, first: int, count: int = 1) -> InFlight | Kept | None:
        return self.producers.judge(header(7, epoch, first, count))

    def error(self, epoch: int, first: int, count: int = 1) -> int:
        with pytest.raises(KafkaFailure) as caught:
            self.judge(epoch, first, count)
        return caught.value.error


def test_the_last_five_batches_are_known_as_duplicates() -> None:
    bench = Bench()
    assert bench.judge(0, 17) is None, "an unknown producer may begin anywhere"
    for number in range(7):
        bench.commit(bench.appended(0, 10 * number, 10), 10)
    assert bench.producers.in_flight == 0
    for number in range(2, 7):
        assert bench.judge(0, 10 * number, 10) == Kept(10 * number, 10 * number + 9, 10 * number, 5)
    assert bench.error(0, 10, 10) == 45
    assert bench.error(0, 60, 9) == 45, "the same first sequence, but not the same batch"
    assert bench.judge(0, 70) is None
    assert bench.error(0, 71) == 45


def test_epochs() -> None:
    bench = Bench()
    bench.commit(bench.appended(3, 0))
    assert bench.error(2, 1) == 47
    assert bench.error(4, 1) == 45
    assert bench.judge(4, 0) is None
    flying = bench.appended(4, 0)
    assert bench.error(3, 1) == 47, "the new epoch counts from its first append on"
    bench.commit(flying)
    assert bench.judge(4, 1) is None


def test_sequences_wrap() -> None:
    bench = Bench()
    bench.commit(bench.appended(0, LAST - 1, 4), 4)  # LAST-1, LAST, 0, 1
    assert isinstance(bench.judge(0, LAST - 1, 4), Kept)
    assert bench.judge(0, 2) is None
    other = Bench()
    other.commit(other.appended(0, LAST))
    assert other.judge(0, 0) is None


def test_what_is_in_flight_counts_and_what_failed_is_forgotten() -> None:
    bench = Bench()
    first = bench.appended(0, 0)
    second = bench.appended(0, 1)
    assert bench.judge(0, 0) is first
    assert bench.judge(0, 2) is None
    outcomes: list[object] = []
    first.settled.append(outcomes.append)
    for entry in (first, second):
        bench.producers.decided(entry, Superseded("gone"))
    assert len(outcomes) == 1
    assert bench.producers.in_flight == 0
    assert bench.judge(0, 0) is None


def test_a_snapshot_takes_the_place_of_what_was_in_flight() -> None:
    bench = Bench()
    entry, waits = bench.appended(0, 0), bench.appended(0, 1)
    bench.producers.decided(entry, Proposed(Offset(3), Millis(5), Term(1)))
    bench.producers.replaced(PartitionState(), Offset(9))
    assert bench.judge(0, 1) is waits
    assert bench.producers.in_flight == 1
