"""One node of a scenario: its replicas, their disks, their state machines; the driver that carries effects out.

It does what `Effects` asks for, in the order that it states, and says so line by line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from quorate.consensus.core import (
    Batch,
    BatchKind,
    Effects,
    GroupId,
    LogRead,
    Message,
    Millis,
    Node,
    NodeId,
    NodeMessage,
    Offset,
    Persist,
    Raft,
    RaftSettings,
    ReplicaId,
    Restored,
    Role,
    show_replica,
)
from tests.scenarios import show
from tests.support.disk import Disk

NEVER_MS = 1 << 40
"""Longer than any scenario lasts."""


class Patience:
    """The random source of a scenario: node n waits 10 n ms longer than the shortest election timeout."""

    def __init__(self, node: int) -> None:
        self._node = node

    def randrange(self, start: int, stop: int, /) -> int:
        return min(start + 10 * self._node, stop - 1)


class Seat:
    """One replica's place on its node: what outlives a crash (the disk), and what does not."""

    def __init__(self, group: GroupId, replica: ReplicaId, restored: Restored) -> None:
        self.group = group
        self.replica = replica
        self.disk = Disk(restored)
        self.waiting: deque[list[Message]] = deque()
        """For each pending write, the messages that may leave when it is durable."""
        self.state: list[tuple[Offset, str]] = []
        """The state machine: every text that was applied, with its offset."""

    def forget(self) -> None:
        """Lose what is only in memory; the state machine goes back to what it kept."""
        self.waiting.clear()
        self.load(self.disk.durable.state_offset, bytes(self.disk.durable.state))

    def load(self, offset: Offset, state: bytes) -> None:
        self.state = [(offset, text) for text in state.decode().split()]

    def state_at(self, offset: Offset) -> bytes:
        """The state machine's state as of `offset`."""
        return " ".join(text for last, text in self.state if last <= offset).encode()


class Truth:
    """What was applied at each offset, by whomever: nobody may ever apply something else there."""

    def __init__(self) -> None:
        self._seen: dict[tuple[GroupId, Offset], Batch] = {}

    def __call__(self, group: GroupId, batches: list[Batch]) -> None:
        for batch in batches:
            first = self._seen.setdefault((group, batch.base), batch)
            assert first == batch, f"{show.batch(batch)} was applied where {show.batch(first)} was applied before"


class Host:
    """A node that is up (`node` is set) or down, and its seats."""

    def __init__(self, number: int, settings: RaftSettings, beat_ms: int, say: Callable[[str], None], check: Truth) -> None:
        self.number = number
        self.settings = settings
        self.beat_ms = beat_ms
        """How often the node beats; 0 switches beats off, and then each group sends its own heartbeats."""
        self.seats: dict[GroupId, Seat] = {}
        self.node: Node | None = None
        self.boots = 0
        self.manual = False
        """Whether writes wait for a `sync` of the script."""
        self.paused = False
        """Whether the process stands still: it hears nothing, and its clock does not move."""
        self._say = say
        self._check = check

    def boot(self, now: Millis) -> Node:
        """Start the node on what its disks hold."""
        self.boots += 1
        self.node = Node(NodeId(self.number), boot=self.boots, beat_ms=self.beat_ms or NEVER_MS, now=now)
        for seat in self.seats.values():
            seat.forget()
            self.seat_down(self.node, seat)
        return self.node

    def seat_down(self, node: Node, seat: Seat) -> Raft:
        """Start one replica on its disk."""
        restored, patience = seat.disk.restored(), Patience(self.number)
        return node.add(Raft(seat.group, seat.replica, restored, self.settings, patience, node.clock))

    def crash(self, keep: int) -> tuple[int, int]:
        """Go down; how many unsynced writes there were, and how many of them survive."""
        self.node = None
        pending = sum(len(seat.disk.pending) for seat in self.seats.values())
        kept = 0
        for seat in self.seats.values():
            survivors = min(keep, len(seat.disk.pending))
            seat.disk.crash(survivors)
            seat.forget()
            kept += survivors
        return pending, kept

    # The driver.

    def turn(self, send: Callable[[NodeMessage], None]) -> None:
        """Carry out everything that follows from the inputs so far."""
        while self.node is not None:
            turn = self.node.take()
            if not turn.groups and not turn.beats:
                return
            for beat in turn.beats if self.beat_ms else ():
                send(beat)
            for raft, effects in turn.groups:
                self._carry_out(raft, effects, send)
                raft.check_invariants()
                if not self.manual:
                    self.sync(raft.group, None, send)

    def _carry_out(self, raft: Raft, effects: Effects, send: Callable[[NodeMessage], None]) -> None:
        seat = self.seats[raft.group]
        if effects.role is not None:
            reason = f": {raft.stop_reason}" if raft.role is Role.STOPPED else ""
            self.tell(raft, show.role(effects.role) + reason)
        self._persist(raft, seat, effects)
        for message in effects.send:
            send(message)
        self._tell_progress(raft, seat, effects)
        for read in effects.reads:
            self.tell(raft, f"read {read.id} may be served at {show.offset(read.offset)}")
        for failed in effects.failed_reads:
            self.tell(raft, f"read {failed} failed: ask the new leader")
        for wanted in effects.log_reads:
            raft.supply(wanted.to, read_log(seat, wanted))
        for follower in effects.snapshots:
            self.tell(raft, f"makes a snapshot for {show_replica(follower)}")
            raft.send_snapshot(follower, seat.disk.written.state)

    def _persist(self, raft: Raft, seat: Seat, effects: Effects) -> None:
        write = effects.persist
        if write is None:
            if effects.send_after_sync:
                seat.waiting[-1].extend(effects.send_after_sync)
            return
        seat.disk.write(write)
        seat.waiting.append(effects.send_after_sync)
        if self.manual:
            self.tell(raft, f"writes {show.write(write)}")
        elif write.truncate is not None:
            self.tell(raft, f"drops all above {show.offset(write.truncate)}")
        if write.snapshot is not None:
            seat.load(write.snapshot.start.offset, bytes(write.snapshot.data))
            state = show.shorten(bytes(write.snapshot.data).decode())
            self.tell(raft, f"starts over after {write.snapshot.start.offset} with state ({state})")

    def _tell_progress(self, raft: Raft, seat: Seat, effects: Effects) -> None:
        """What became committed, and what was applied."""
        parts = []
        if effects.commit is not None:
            parts.append(f"commits {effects.commit}")
        if effects.apply is not None:
            batches = seat.disk.written.read(*effects.apply)
            seat.state += [(batch.last, show.content(batch)) for batch in batches if batch.kind is BatchKind.DATA]
            self._check(raft.group, batches)
            parts.append(f"applies {show.many(batches)}")
        if parts:
            self.tell(raft, ", ".join(parts))

    def sync(self, group: GroupId, count: int | None, send: Callable[[NodeMessage], None]) -> int:
        """Complete the oldest pending writes of one replica; how many there were."""
        seat = self.seats[group]
        done = 0
        for _ in range(len(seat.disk.pending) if count is None else count):
            if not seat.disk.pending or self.node is None:
                break
            write: Persist = seat.disk.sync()
            raft = self.node.groups[group]
            if self.manual:
                self.tell(raft, f"synced #{write.token.sequence}")
            for message in seat.waiting.popleft():
                send(message)
            raft.persisted(write.token)
            done += 1
        return done

    def tell(self, raft: Raft, text: str) -> None:
        """Say something about one replica; its group is named where there are several."""
        prefix = f"g{raft.group} " if len(self.seats) > 1 else ""
        self._say(f"{prefix}{show_replica(raft.replica)} {text}")


def read_log(seat: Seat, wanted: LogRead) -> tuple[Batch, ...]:
    """Batches for a follower, from the disk: at least one, and not many more bytes than asked for."""
    picked: list[Batch] = []
    size = 0
    for batch in seat.disk.written.read(wanted.first, seat.disk.written.last):
        size += batch.size
        if picked and size > wanted.max_bytes:
            break
        picked.append(batch)
    return tuple(picked)
