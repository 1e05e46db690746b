"""The seams of chaos: a system under test, and a nemesis that breaks it. Everything else here talks to these two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

Phase = Literal["begin", "end", "failed"]


class NodeUnderTest(NamedTuple):
    """Where one node is. Addresses go through toxiproxy where there is one."""

    kafka: str
    """host:port"""
    http: str
    """URL; empty if it is not known."""
    log: Path | None = None
    data: Path | None = None


class System(Protocol):
    """A cluster under test: a local one behind toxiproxy, or a running one (`--against`)."""

    @property
    def bootstrap(self) -> str:
        """What clients connect to, through toxiproxy where there is one."""

    @property
    def nodes(self) -> Mapping[int, NodeUnderTest]:
        """Every node by its number. Filled once the system has started."""

    async def start(self) -> None:
        """Bring every node up, and return when clients are served."""

    async def stop(self) -> None:
        """Stop every node, and leave no process behind. May be called twice. A running cluster is left alone."""

    async def heal(self) -> None:
        """End all faults, bring all nodes up, and wait until every node is ready. Raises TimeoutError."""


@dataclass(frozen=True, kw_only=True)
class PlannedFault:
    """One fault of a schedule: when it begins and ends, counted from the start of the run."""

    at_s: float
    until_s: float
    kind: str
    target: str
    parameters: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FaultEvent:
    """What a nemesis did. `failed`: it tried and could not."""

    time_ns: int
    """Of the monotonic clock."""
    kind: str
    phase: Phase
    text: str


class Nemesis(Protocol):
    """A seeded schedule of faults: the same seed on the same kind of system plans the same."""

    def plan(self) -> Sequence[PlannedFault]:
        """The whole schedule, printable and replayable from the seed."""

    async def run(self, system: System, say: Callable[[FaultEvent], None]) -> None:
        """Carry the plan out, and tell of every beginning and end. When cancelled, leaves the rest to `System.heal`."""
