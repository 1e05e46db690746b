"""Log time never goes backwards and closed time stays closed, whatever the wall clocks do and whoever leads."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from quorate.consensus.clock.hybrid import ClockUncertain, HybridClock
from quorate.consensus.core import Millis


class Wall:
    """A wall clock that stands where it is put."""

    def __init__(self, now: int = 1_000_000, uncertainty: int | None = 5) -> None:
        self.time = now
        self.uncertainty = uncertainty

    def now(self) -> Millis:
        return Millis(self.time)

    def uncertainty_ms(self) -> int | None:
        return self.uncertainty


def test_stamps_follow_the_wall_clock() -> None:
    wall = Wall(500)
    clock = HybridClock(wall)
    assert clock.stamp() == 500
    wall.time = 777
    assert clock.stamp() == 777


def test_a_jump_back_stops_time_and_a_jump_forward_is_followed() -> None:
    wall = Wall(1_000)
    clock = HybridClock(wall)
    clock.stamp()
    wall.time = 10
    assert [clock.stamp(), clock.stamp()] == [1_000, 1_000]
    assert clock.status().ahead_ms == 990
    wall.time = 90_000
    assert clock.stamp() == 90_000


def test_a_restart_or_a_new_leader_goes_on_from_the_log() -> None:
    clock = HybridClock(Wall(1_000, uncertainty=None))
    clock.lead(Millis(5_000))
    assert clock.stamp() == 5_000
    clock.observe(Millis(4_000))
    assert clock.stamp() == 5_000


def test_a_new_leader_begins_at_the_latest_its_clock_can_mean() -> None:
    clock = HybridClock(Wall(1_000, uncertainty=30))
    clock.lead(Millis(5))
    assert clock.stamp() == 1_030


@pytest.mark.parametrize("uncertainty", [None, 11])
def test_too_uncertain_a_clock_refuses_when_asked_to(uncertainty: int | None) -> None:
    wall = Wall(1_000, uncertainty)
    assert HybridClock(wall).stamp() == 1_000
    clock = HybridClock(wall, bound_ms=10)
    with pytest.raises(ClockUncertain) as refused:
        clock.stamp()
    assert (refused.value.uncertainty_ms, refused.value.definite, refused.value.retriable) == (uncertainty, True, True)
    assert clock.status().last == -1
    wall.uncertainty = 10
    assert clock.stamp() == 1_000


def test_closed_time_is_what_the_clock_is_sure_of() -> None:
    wall = Wall(1_000, uncertainty=20)
    clock = HybridClock(wall)
    assert clock.closed() == 979
    assert clock.stamp() == 1_000


def test_nothing_is_stamped_at_or_below_a_closed_time() -> None:
    wall = Wall(1_000, uncertainty=0)
    clock = HybridClock(wall)
    assert clock.closed() == 999
    wall.time = 10
    assert clock.stamp() == 1_000
    assert clock.closed() == 999


def test_pending_appends_hold_closed_time_back() -> None:
    wall = Wall(1_000, uncertainty=0)
    clock = HybridClock(wall)
    stamp = clock.stamp()
    wall.time = 2_000
    assert clock.closed(oldest_pending=stamp) == 999
    assert clock.closed(committed=stamp) == 1_999


def test_without_a_known_uncertainty_only_the_log_closes_time() -> None:
    clock = HybridClock(Wall(9_000, uncertainty=None))
    assert clock.closed() == -1
    stamp = clock.stamp()
    assert clock.closed(oldest_pending=stamp) == -1
    assert clock.closed(committed=stamp) == stamp - 1


def test_a_bound_must_make_sense() -> None:
    with pytest.raises(ValueError, match="bound_ms"):
        HybridClock(Wall(), bound_ms=-1)


@given(st.lists(st.tuples(st.integers(0, 10_000), st.one_of(st.none(), st.integers(0, 500))), min_size=1))
def test_stamps_never_fall_and_never_lag(jumps: list[tuple[int, int | None]]) -> None:
    wall = Wall()
    clock = HybridClock(wall)
    before = Millis(-1)
    for wall.time, wall.uncertainty in jumps:
        closed = clock.closed(before)
        stamp = clock.stamp()
        assert stamp >= before
        assert stamp > closed
        assert stamp >= wall.time
        before = stamp


class Leaders(RuleBasedStateMachine):
    """Three nodes lead one after another. Each wall clock is wrong by no more than it says, or does not know."""

    closed_by_leader: Millis

    @initialize(known=st.sampled_from([[True, True, True], [True, True, False], [False, False, False]]))
    def begin(self, known: list[bool]) -> None:
        self.true = 1_000
        self.walls = [Wall(1_000, 0) for _ in range(3)]
        self.known = known
        self.log: list[Millis] = []
        self.committed = 0
        self.closed = Millis(-1)
        self.set_clocks([0, 0, 0], [0, 0, 0])
        self.take_over(0)

    @rule(
        errors=st.lists(st.integers(-100, 100), min_size=3, max_size=3),
        spare=st.lists(st.integers(0, 50), min_size=3, max_size=3),
    )
    def set_clocks(self, errors: list[int], spare: list[int]) -> None:
        """Clocks jump, back or forward."""
        for wall, error, more, known in zip(self.walls, errors, spare, self.known, strict=True):
            wall.time = self.true + (error if known else error * 30)
            wall.uncertainty = abs(error) + more if known else None

    @rule(pass_ms=st.integers(1, 200))
    def pass_time(self, pass_ms: int) -> None:
        self.true += pass_ms
        for wall in self.walls:
            wall.time += pass_ms

    @rule()
    def append(self) -> None:
        stamp = self.clock.stamp()
        assert not self.log or stamp >= self.log[-1], "log time went back"
        assert stamp > self.closed, "a closed time was appended to"
        self.log.append(stamp)

    @rule(share=st.floats(0, 1))
    def commit(self, share: float) -> None:
        self.committed += round(share * (len(self.log) - self.committed))

    @rule()
    def close(self) -> None:
        pending = self.log[self.committed] if self.committed < len(self.log) else None
        committed = self.log[self.committed - 1] if self.committed else Millis(-1)
        closed = self.clock.closed(committed, pending)
        assert closed >= self.closed_by_leader
        self.closed_by_leader = closed
        assert pending is None or closed < pending
        self.closed = max(self.closed, closed)

    @rule(who=st.integers(0, 2), keep=st.floats(0, 1))
    def change_leader(self, who: int, keep: float) -> None:
        """What was not committed may be lost. A leader who does not know its error relies on nothing closed by clocks."""
        del self.log[self.committed + round(keep * (len(self.log) - self.committed)) :]
        self.take_over(who)

    def take_over(self, who: int) -> None:
        self.clock = HybridClock(self.walls[who])
        self.closed_by_leader = Millis(-1)  # a new leader may be less sure: readers keep the highest they have seen
        self.clock.lead(self.log[-1] if self.log else Millis(-1))
        if not self.known[who]:
            # It cannot honour what was closed by a clock; the closed time of a group needs clocks that are known everywhere.
            self.closed = Millis(min(self.closed, (self.log[self.committed - 1] if self.committed else 0) - 1))


TestLeaders = Leaders.TestCase
TestLeaders.settings = settings(max_examples=300, stateful_step_count=30, deadline=None)
