"""The network between the nodes of a scenario: messages in flight, messages set aside, and links that are cut."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from quorate.consensus.core import NodeMessage, node_of
from quorate.consensus.core.messages import Beat, BeatAnswer
from tests.scenarios import show


def ends(message: NodeMessage) -> tuple[int, int]:
    """The nodes between which a message travels."""
    if isinstance(message, Beat | BeatAnswer):
        return message.sender, message.to
    return node_of(message.sender), node_of(message.to)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which messages a command means; whatever is None does not matter."""

    sender: int | None = None
    to: int | None = None
    either: int | None = None
    kind: str | None = None
    count: int | None = None
    backwards: bool = False

    def fits(self, message: NodeMessage) -> bool:
        sender, to = ends(message)
        return (
            self.sender in (None, sender)
            and self.to in (None, to)
            and self.either in (None, sender, to)
            and self.kind in (None, show.kind(message))
        )

    def pick(self, messages: list[NodeMessage]) -> list[NodeMessage]:
        """The messages that are meant, oldest first, or newest first when `backwards`."""
        picked = [message for message in (messages[::-1] if self.backwards else messages) if self.fits(message)]
        return picked if self.count is None else picked[: self.count]


class Network:
    """Messages stay in flight until a command says what becomes of them."""

    def __init__(self) -> None:
        self.flying: list[NodeMessage] = []
        self.held: list[NodeMessage] = []
        self.cuts: set[tuple[int, int]] = set()

    def take(self, choice: Choice, waiting: Set[int] = frozenset()) -> list[NodeMessage]:
        """Take messages out of the air, except those for nodes that are `waiting` to hear again."""
        return self._remove(self.flying, choice, waiting)

    def hold(self, choice: Choice) -> list[NodeMessage]:
        """Set messages aside."""
        held = self.take(choice)
        self.held += held
        return held

    def release(self, choice: Choice) -> list[NodeMessage]:
        """Put messages that were set aside back, behind all others."""
        released = self._remove(self.held, choice)
        self.flying += released
        return released

    def double(self, choice: Choice) -> list[NodeMessage]:
        """Put a copy of each message behind all others."""
        doubled = choice.pick(self.flying)
        self.flying += doubled
        return doubled

    def is_cut(self, message: NodeMessage) -> bool:
        return ends(message) in self.cuts

    @staticmethod
    def _remove(messages: list[NodeMessage], choice: Choice, waiting: Set[int] = frozenset()) -> list[NodeMessage]:
        picked = choice.pick([message for message in messages if ends(message)[1] not in waiting])
        # By identity: a doubled message is the same object twice, and one `take` of one of them leaves the other.
        for message in picked:
            index = next(index for index, other in enumerate(messages) if other is message)
            del messages[index]
        return picked
