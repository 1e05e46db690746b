"""How a pipeline says what it does: to a `Watch`, which prints lines here and draws on a terminal in `quorate.cli`."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far it is."""

    messages: int
    """Read, since this start."""
    per_s: float
    behind: int | None = None
    """Messages that wait in the queue; None: not known."""
    total: int | None = None
    """Of how many, where that is known."""
    note: str = ""


class Watch(Protocol):
    """Who is told."""

    def say(self, text: str) -> None:
        """Something worth a line of its own."""

    def show(self, progress: Progress) -> None:
        """How far it is now; called often."""


@dataclass
class Lines:
    """Lines on standard error, one every so often: for logs, and for `spark-submit`."""

    every_s: float = 5.0
    _next: float = field(default=0.0, init=False)

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def show(self, progress: Progress) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self.every_s
            self.say(as_line(progress))


def as_line(progress: Progress) -> str:
    """In one line."""
    parts = [f"{progress.messages:,} messages", f"{progress.per_s:,.0f}/s"]
    if progress.total is not None:
        share = progress.messages / progress.total if progress.total else 1.0
        parts[0] = f"{progress.messages:,} of {progress.total:,} messages ({share:.0%})"
    if progress.behind is not None:
        parts.append(f"{progress.behind:,} behind")
    if progress.note:
        parts.append(progress.note)
    return ", ".join(parts)
