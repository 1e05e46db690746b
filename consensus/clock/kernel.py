"""The machine's clock, and how far it may be off: the kernel's NTP state, read with adjtimex."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Final, Protocol

from quorate.consensus.core import Millis

_STA_UNSYNC: Final = 0x0040
_TIME_ERROR: Final = 5
_MICROS: Final = 1_000


class TimeSource(Protocol):
    """Where a hybrid clock has its time from."""

    def now(self) -> Millis:
        """The wall clock. It may jump, in both directions."""

    def uncertainty_ms(self) -> int | None:
        """How far `now` may be from the true time, either way; None if nobody knows."""


class Timex(ctypes.Structure):
    """The kernel's `struct timex`, as far as it is read, and room for the rest."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def judge(answer: int, status: int, maxerror_us: int) -> int | None:
    """The uncertainty that adjtimex's answer means, in whole milliseconds, rounded up."""
    if answer in (-1, _TIME_ERROR) or status & _STA_UNSYNC or maxerror_us < 0:
        return None
    return -(-maxerror_us // _MICROS)


class SystemTime:
    """This machine's clock. With `uncertainty_ms` the operator vouches for it; without, the kernel is asked each time."""

    def __init__(self, uncertainty_ms: int | None = None) -> None:
        if uncertainty_ms is not None and uncertainty_ms < 0:
            raise ValueError(f"uncertainty_ms must not be negative, not {uncertainty_ms}")
        self._configured = uncertainty_ms
        self._adjtimex = _find_adjtimex()

    def now(self) -> Millis:
        return Millis(time.time_ns() // 1_000_000)

    def uncertainty_ms(self) -> int | None:
        if self._configured is not None:
            return self._configured
        if self._adjtimex is None:
            return None
        state = Timex(modes=0)  # reads, and needs no right to change anything
        return judge(self._adjtimex(ctypes.byref(state)), state.status, state.maxerror)


def _find_adjtimex() -> Callable[..., int] | None:
    """The C library's function, where there is one."""
    library = ctypes.CDLL(None, use_errno=True)
    try:
        function = library.adjtimex
    except AttributeError:
        return None
    function.argtypes = (ctypes.POINTER(Timex),)
    function.restype = ctypes.c_int
    return function
