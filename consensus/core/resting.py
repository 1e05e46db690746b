"""Groups that wait for nothing but the silence of other nodes: as long as those are heard, nobody looks at them.

A follower whose leader's node vouches for it, and a leader whose followers' nodes confirm it, would otherwise be looked at
in every election timeout, only to find that there was a beat.
"""

from __future__ import annotations

from quorate.consensus.core.progress import Signal
from quorate.consensus.core.raft import Raft
from quorate.consensus.core.types import FAR, GroupId, Millis


class _Bed:
    """Those who rest on one signal. `patience_ms` is the shortest election timeout among them."""

    __slots__ = ("patience_ms", "sleepers")

    def __init__(self) -> None:
        self.sleepers: dict[GroupId, Raft] = {}
        self.patience_ms = FAR


class Resting:
    """Who rests on which signal. A group that was woken by something else may stay: being called twice is harmless."""

    __slots__ = ("_beds",)

    def __init__(self) -> None:
        self._beds: dict[Signal, _Bed] = {}

    def lay_down(self, raft: Raft, now: Millis) -> bool:
        """Let a group rest, if nothing but silence can become due for it; whether it does.

        A signal that has been silent for half of the patience is not fresh enough to rest on.
        """
        signals = raft.rests_on()
        patience = raft.settings.election_ms
        if not signals or any(2 * (now - signal.heard_at) >= patience for signal in signals):
            return False
        for signal in signals:
            bed = self._beds.get(signal)
            if bed is None:
                bed = self._beds[signal] = _Bed()
            bed.sleepers[raft.group] = raft
            if patience < bed.patience_ms:
                bed.patience_ms = Millis(patience)
        return True

    def forget(self, group: GroupId) -> None:
        """The group is gone."""
        for bed in self._beds.values():
            bed.sleepers.pop(group, None)

    def next_deadline(self) -> Millis:
        """When the first signal would have been silent for too long."""
        due = FAR
        for signal, bed in self._beds.items():
            if bed.sleepers and signal.heard_at + bed.patience_ms < due:
                due = Millis(signal.heard_at + bed.patience_ms)
        return due

    def rouse(self, now: Millis) -> list[Raft]:
        """Everybody who rested on a signal that has been silent for too long."""
        roused: list[Raft] = []
        for signal, bed in list(self._beds.items()):
            if signal.heard_at + bed.patience_ms <= now:
                roused.extend(bed.sleepers.values())
                del self._beds[signal]
        return roused
