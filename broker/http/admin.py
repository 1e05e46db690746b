"""What the HTTP front end needs of the node that it runs in, and how a refusal looks there."""

from __future__ import annotations

from typing import Any, Protocol

Facts = dict[str, Any]
"""An answer's JSON object."""


class AdminFailure(Exception):
    """A refusal. `definite`: nothing has happened. `retriable`: the same request may succeed later."""

    def __init__(self, status: int, code: str, message: str, *, definite: bool = True, retriable: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.definite = definite
        self.retriable = retriable

    def facts(self) -> Facts:
        """The error as every answer has it."""
        return {
            "error": {
                "code": self.code,
                "message": str(self),
                "definite": self.definite,
                "retriable": self.retriable,
            }
        }


class Admin(Protocol):
    """The node behind the front end. All coroutines raise AdminFailure."""

    @property
    def ready(self) -> bool:
        """Whether requests can be served: the node knows its cluster and has started what it holds."""

    def cluster(self) -> Facts:
        """The cluster in a few figures."""

    def nodes(self) -> list[Facts]:
        """Every node, with its state and what it holds."""

    async def queues(self) -> list[Facts]:
        """Every queue, with its partitions, who leads them, and how far those are that move."""

    async def drain(self, node: int) -> None:
        """Move everything off a node."""

    async def undrain(self, node: int) -> None:
        """Let a node take replicas again."""

    async def remove(self, node: int) -> None:
        """Forget a node that holds nothing."""

    async def rebalance(self, *, dry_run: bool) -> list[Facts]:
        """The moves that would even the nodes out; unless `dry_run`, as many are begun as may be under way at a time."""

    async def join(self, said: Facts) -> Facts:
        """A new node asks to be let in; what it needs to know."""
