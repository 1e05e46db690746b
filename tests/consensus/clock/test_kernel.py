"""The kernel's word on its clock."""

from __future__ import annotations

import time

import pytest

from quorate.consensus.clock.kernel import SystemTime, judge


@pytest.mark.parametrize(
    ("answer", "status", "maxerror", "expected"),
    [
        (0, 0, 0, 0),
        (0, 0x0001, 1, 1),
        (0, 0x2001, 1_000, 1),
        (1, 0x0001, 1_001, 2),
        (5, 0, 10, None),
        (0, 0x0040, 16_000_000, None),
        (-1, 0, 0, None),
        (0, 0, -1, None),
    ],
)
def test_what_adjtimex_says(answer: int, status: int, maxerror: int, expected: int | None) -> None:
    assert judge(answer, status, maxerror) == expected


def test_this_machine_answers() -> None:
    source = SystemTime()
    known = source.uncertainty_ms()
    assert known is None or 0 <= known < 60_000
    assert abs(source.now() - time.time() * 1_000) < 60_000


def test_the_operator_may_vouch_for_the_clock() -> None:
    assert SystemTime(uncertainty_ms=7).uncertainty_ms() == 7
    with pytest.raises(ValueError, match="uncertainty_ms"):
        SystemTime(uncertainty_ms=-1)
