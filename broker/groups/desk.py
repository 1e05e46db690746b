"""What all parts of a coordinator share: the groups at hand, the time, the timers, and the effects that were collected."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from quorate.broker.groups.effects import Answer, Append, Confirm, Done, Effects, Outcome, Report, Response
from quorate.broker.groups.errors import Failure
from quorate.broker.groups.group import Group
from quorate.broker.groups.logs import Logs
from quorate.broker.groups.phases import Phase
from quorate.broker.groups.records import encode_change
from quorate.broker.groups.settings import GroupSettings
from quorate.broker.groups.state import GroupsState
from quorate.broker.groups.values import Change
from quorate.broker.protocol.kafka.errors import Error
from quorate.consensus.core.types import FAR, Millis, Offset

Then = Callable[[Error], None]
"""What follows when an effect is done: NONE, or the code that clients are told."""


class Desk:
    """Invariants: `open` has every effect whose outcome is not known yet; a group in the heap has `scheduled` < FAR."""

    def __init__(self, state: GroupsState, new_id: Callable[[], str], settings: GroupSettings, logs: Logs) -> None:
        self.state = state
        self.new_id = new_id
        self.logs = logs
        self.settings = settings
        self.now = Millis(0)
        self.groups: dict[str, Group] = {}
        self.effects = Effects()
        self.open: dict[int, tuple[Group | None, Then]] = {}
        self._last = 0
        self._ripe: list[tuple[Offset, int]] = []
        """Effects that are done in the log, and wait for the state to come that far."""
        self._timers: list[tuple[Millis, str]] = []
        self._touched: set[str] = set()
        """Groups that have been looked at since `settle`, in whatever way."""

    def answer(self, done: Done, response: Response) -> None:
        self.effects.answers.append(Answer(done, response))

    def append(self, group: Group | None, changes: list[Change], then: Then) -> None:
        """Make changes durable, then go on."""
        records = tuple(encode_change(change) for change in changes)
        self.effects.appends.append(Append(records, self._begin(group, then)))

    def confirm(self, then: Then) -> None:
        """Make sure of the lead, then go on."""
        self.effects.confirms.append(Confirm(self._begin(None, then)))

    def _begin(self, group: Group | None, then: Then) -> Report:
        self._last += 1
        number = self._last
        self.open[number] = group, then
        if group is not None:
            group.appends += 1

        def report(outcome: Outcome, now: Millis) -> None:
            # Outcomes that come after the lead was lost find nothing open: their requests have been answered.
            if number not in self.open:
                return
            self.advance(now)
            if isinstance(outcome, Failure):
                self._finish(number, outcome.code)
            elif outcome <= self.state.applied:
                self._finish(number, Error.NONE)
            else:
                heappush(self._ripe, (outcome, number))

        return report

    def advance(self, now: Millis) -> None:
        """Time never goes back."""
        self.now = max(self.now, now)

    def applied(self) -> None:
        """The state has moved on."""
        while self._ripe and self._ripe[0][0] <= self.state.applied:
            _, number = heappop(self._ripe)
            self._finish(number, Error.NONE)

    def _finish(self, number: int, code: Error) -> None:
        group, then = self.open.pop(number)
        if group is not None:
            group.appends -= 1
            self._touched.add(group.name)
        then(code)

    def abandon(self) -> None:
        """Nothing that is open will be heard of any more. What follows from that may still answer, but not append.

        What was appended may yet be committed by the next leader: nobody may be told that it was refused.
        """
        for number, (group, _) in list(self.open.items()):
            failure = Failure.NOT_LEADER if group is None else Failure.UNCERTAIN
            self._finish(number, failure.code)

    def close(self) -> None:
        """Forget all groups, and the effects that nobody took, except for answers."""
        self.groups.clear()
        self.open.clear()
        self._ripe.clear()
        self._timers.clear()
        self._touched.clear()
        self.effects.appends.clear()
        self.effects.confirms.clear()

    def find(self, name: str) -> Group | None:
        """A group, if it exists."""
        return self.make(name) if name in self.groups or name in self.state.groups else None

    def make(self, name: str) -> Group:
        """A group, even if it has to be founded."""
        self._touched.add(name)
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = Group(name)
            info = self.state.info(name)
            if info is not None:
                group.recall(info, self.now)
        return group

    def settle(self) -> None:
        """Set the timers of groups that were looked at; let go of those about which the log says all there is to say."""
        touched, self._touched = self._touched, set()
        for name in touched:
            if name in self.groups:
                self._settle(self.groups[name])

    def _settle(self, group: Group) -> None:
        if group.phase is Phase.EMPTY and not group.pending and not group.appends:
            info = self.state.info(group.name)
            if info is None or (not info.members and info.generation == group.generation):
                del self.groups[group.name]
                return
        # A deadline that moved away needs no new timer: the old one will ask again.
        at = group.deadline()
        if at < group.scheduled:
            group.scheduled = at
            heappush(self._timers, (at, group.name))

    def due(self) -> Group | None:
        """The next group whose time has come."""
        while self._timers and self._timers[0][0] <= self.now:
            at, name = heappop(self._timers)
            group = self.groups.get(name)
            if group is not None and group.scheduled == at:
                group.scheduled = FAR
                self._touched.add(name)
                return group
        return None

    def next_deadline(self) -> Millis:
        """When `due` has something again, or earlier."""
        return self._timers[0][0] if self._timers else FAR
