"""What a fault is: it draws its own parameters, says whom it hurts and what it needs for itself, and is then inflicted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any, ClassVar, NamedTuple, Protocol

from quorate.chaos.cluster import ClusterUnderTest
from quorate.chaos.links import Links

Parameters = Mapping[str, Any]
"""JSON values: they say all of what is done, so that a plan can be printed and done again."""


class Drawn(NamedTuple):
    """What a draw came to."""

    target: str
    """For people."""
    parameters: Parameters


class Fault(ABC):
    """One kind of fault. Has no state: everything is in its parameters, and in the cluster that it is inflicted on."""

    kind: ClassVar[str]
    lasts_s: ClassVar[tuple[float, float]] = (3.0, 9.0)
    """Between these it lasts."""
    fatal_to_majority: ClassVar[bool] = True
    """Whether a majority of victims would break a promise, or stop the cluster for as long. Without it all may be hit."""

    scars: ClassVar[bool] = False
    """Whether something may stay broken after its end: over a whole run it then hits a minority only."""

    @abstractmethod
    def draw(self, rng: Random, nodes: Sequence[int]) -> Drawn:
        """Choose whom and how, among at least one node."""

    @abstractmethod
    def victims(self, parameters: Parameters) -> frozenset[int]:
        """The nodes that cannot do their part while it lasts."""

    def claims(self, parameters: Parameters) -> frozenset[str]:
        """What no other fault may touch meanwhile."""
        return frozenset()

    @abstractmethod
    def inflict(self, cluster: ClusterUnderTest, parameters: Parameters) -> AbstractAsyncContextManager[None]:
        """Begin when it is entered, end when it is left."""


class Linked(Protocol):
    """A system whose links can be broken."""

    @property
    def links(self) -> Links: ...


class LinkFault(Fault):
    """A fault of links alone: where only those of clients are in our hands, it works on them."""

    @abstractmethod
    def inflict(self, cluster: Linked, parameters: Parameters) -> AbstractAsyncContextManager[None]: ...


def minority(nodes: Sequence[int]) -> int:
    """How many nodes may be missing while the others are still a majority. At least one where there is only one node."""
    return max(1, (len(nodes) - 1) // 2)


def some_of(rng: Random, nodes: Sequence[int]) -> list[int]:
    """A minority, of any size."""
    return sorted(rng.sample(sorted(nodes), rng.randint(1, minority(nodes))))


def listed(nodes: Sequence[int]) -> str:
    """For people."""
    return ("node " if len(nodes) == 1 else "nodes ") + ", ".join(map(str, nodes))
