"""What must never happen, whatever the network, the disks and the clocks do. One `Oracle` watches one group.

It sees every write, every message that leaves, every commit, apply and read of all replicas at once, which no replica can.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from quorate.consensus.core import (
    Batch,
    Configuration,
    GroupId,
    HardState,
    Message,
    Offset,
    Persist,
    Raft,
    ReplicaId,
    Term,
    show_replica,
)
from quorate.consensus.core.messages import AppendAnswer, VoteAnswer, VoteRequest
from quorate.consensus.core.types import NO_OFFSET, NO_REPLICA, NO_TERM, Buffer

if TYPE_CHECKING:
    from tests.sim.machine import Host

_STATE = struct.Struct("<qI")


class Violation(Exception):
    """A promise was broken."""


def state_after(state: int, batch: Batch) -> int:
    """The toy state machine: a checksum over everything that was applied, in order."""
    head = struct.pack("<qqqB", batch.base, batch.last, batch.term, batch.kind)
    return zlib.crc32(batch.data, zlib.crc32(head, state))


def encode_state(offset: Offset, state: int) -> bytes:
    return _STATE.pack(offset, state)


def decode_state(data: Buffer) -> tuple[Offset, int]:
    if not data:
        return NO_OFFSET, 0
    offset, state = _STATE.unpack(data)
    return Offset(offset), state


def _check(holds: bool, complaint: str) -> None:
    if not holds:
        raise Violation(complaint)


class Oracle:
    """The truth about one group."""

    def __init__(self, group: GroupId) -> None:
        self.group = group
        self.hosts: dict[ReplicaId, Host] = {}
        """The replicas that have a disk now."""
        self.committed: list[Batch] = []
        self.acknowledged = 0
        """How many batches clients were told are committed."""
        self._commit_terms: list[Term] = []
        """For each committed batch, the term of the leader who committed it."""
        self._ends: dict[Offset, int] = {NO_OFFSET: 0}
        self._states: dict[Offset, int] = {NO_OFFSET: 0}
        self._at: dict[Offset, Batch] = {}
        self._entries: dict[tuple[Offset, Term], tuple[Batch, Term]] = {}
        self._leaders: dict[Term, ReplicaId] = {}
        self._votes: dict[tuple[ReplicaId, Term], ReplicaId] = {}

    @property
    def last(self) -> Offset:
        """The highest offset that any replica knows to be committed."""
        return self.committed[-1].last if self.committed else NO_OFFSET

    # Writes: log matching, no lost commits, monotone term and vote.

    def writing(self, host: Host, write: Persist) -> None:
        """A replica is about to write; its disk still holds what was before."""
        image = host.disk.written
        if write.hard_state is not None:
            self._hard_state(host, image.hard_state, write.hard_state)
        if write.truncate is not None:
            self._truncating(host, write, image.read(Offset(write.truncate + 1), image.last))
        if write.snapshot is not None:
            self._installing(host, write)
        previous = image.last if write.truncate is None else min(image.last, write.truncate)
        if write.snapshot is not None:
            term = write.snapshot.start.term
        else:
            before = image.find(previous)
            term = before.term if before is not None else image.start.term
        for batch in write.batches:
            self._appending(host, batch, term)
            term = batch.term

    def _truncating(self, host: Host, write: Persist, dropped: list[Batch]) -> None:
        """A leader's log holds all that was committed up to its term. One of an older term may not know what was since.

        The leader's term is at least that of the replica before this turn, and that of what it sent in place.
        """
        leader_term = max([host.believed[0], *(batch.term for batch in write.batches[:1])])
        for batch in dropped:
            if self._at.get(batch.base) == batch:
                term = self._commit_terms[self._ends[batch.last] - 1]
                _check(term > leader_term, f"{host} truncates {_show(batch)}, which was committed in term {term}")

    def _hard_state(self, host: Host, old: HardState, new: HardState) -> None:
        _check(new.term >= old.term, f"{host} goes back from term {old.term} to {new.term}")
        if new.term == old.term and old.vote != NO_REPLICA:
            _check(new.vote == old.vote, f"{host} changes its vote in term {new.term}")

    def _appending(self, host: Host, batch: Batch, previous_term: Term) -> None:
        known = self._entries.setdefault((batch.base, batch.term), (batch, previous_term))
        _check(known == (batch, previous_term), f"log matching: {host} has another {_show(batch)} than somebody else")

    def _installing(self, host: Host, write: Persist) -> None:
        assert write.snapshot is not None
        start = write.snapshot.start
        _check(start.offset <= self.last, f"{host} installs a snapshot at {start.offset}, which nobody committed")
        batch = self.committed[self._ends[start.offset] - 1]
        _check(batch.term == start.term, f"{host} installs a snapshot at {start.offset}@{start.term}, not {_show(batch)}")
        offset, state = decode_state(write.snapshot.data)
        _check(self._states.get(offset) == state, f"{host} installs a state that never was, at {offset}")

    # Messages: what is promised is durable.

    def sending(self, host: Host, message: Message) -> None:
        """A message leaves a replica."""
        durable = host.disk.durable
        if type(message) is AppendAnswer and not message.rejected:
            _check(durable.last >= message.match, f"{host} acknowledges {message.match} before it is on disk")
        elif type(message) is VoteRequest:
            _check(durable.last >= message.last, f"{host} asks for votes with {message.last}, which is not on disk")
        elif type(message) is VoteAnswer and message.granted and not message.pre:
            kept = durable.hard_state
            holds = kept.term > message.term or (kept.term, kept.vote) == (message.term, message.to)
            _check(holds, f"{host} gives a vote in term {message.term} that is not on its disk")
            self._vote(host.replica, message.term, message.to)

    def _vote(self, voter: ReplicaId, term: Term, candidate: ReplicaId) -> None:
        first = self._votes.setdefault((voter, term), candidate)
        _check(
            first == candidate,
            f"{show_replica(voter)} votes in term {term} for {show_replica(first)} and for {show_replica(candidate)}",
        )

    # Leaders.

    def leads(self, host: Host, raft: Raft) -> None:
        """A replica became leader: the only one of its term, with everything that was committed in earlier terms."""
        first = self._leaders.setdefault(raft.term, host.replica)
        _check(
            first == host.replica,
            f"two leaders in term {raft.term}: {show_replica(first)} and {show_replica(host.replica)}",
        )
        kept = host.disk.durable.hard_state
        _check((kept.term, kept.vote) == (raft.term, host.replica), f"{host} leads by a vote of its own that is not on disk")
        self._vote(host.replica, raft.term, host.replica)
        image = host.disk.written
        skip = self._ends.get(image.start.offset)
        _check(skip is not None, f"{host} has compacted to {image.start.offset}, which is no committed batch's end")
        committed = zip(self.committed[skip:], self._commit_terms[skip:], strict=True)
        for index, (batch, term) in enumerate(committed):
            if term < raft.term:
                mine = image.batches[index] if index < len(image.batches) else None
                _check(mine == batch, f"{host} leads term {raft.term} without {_show(batch)}, committed in term {term}")

    # Commits.

    def commits(self, host: Host, raft: Raft, before: Offset, commit: Offset) -> None:
        """A replica's commit offset rises: everybody commits the same, and a leader only what a quorum has on disk."""
        _check(commit > before, f"{host} takes its commit back from {before} to {commit}")
        image = host.disk.written
        first = max(before, image.start.offset)
        for batch in image.read(Offset(first + 1), commit):
            known = self._at.get(batch.base)
            if known is None:
                _check(batch.base == self.last + 1, f"{host} commits {_show(batch)} after {self.last}")
                self._extend(raft, batch)
            else:
                _check(known == batch, f"{host} commits {_show(batch)} where {_show(known)} is committed")
        _check(commit in self._ends, f"{host} commits up to {commit}, inside a batch")

    def _extend(self, raft: Raft, batch: Batch) -> None:
        """Nobody has committed this before: `raft` leads, or has just retired."""
        _check(self._on_disk(raft, batch), f"{_show(batch)} is committed without being on the disks of a quorum")
        self._states[batch.last] = state_after(self._states[self.last], batch)
        self.committed.append(batch)
        self._commit_terms.append(raft.term)
        self._ends[batch.last] = len(self.committed)
        self._at[batch.base] = batch

    def _on_disk(self, raft: Raft, batch: Batch) -> bool:
        """Whether some configuration that counts now has a durable quorum for the batch."""
        history = raft.log.history
        candidates: list[Configuration] = [history.at(batch.last), history.at(raft.log.commit), history.current]

        def held(replica: ReplicaId) -> int:
            host = self.hosts.get(replica)
            if host is None:
                return 0
            image = host.disk.durable
            return int(image.start.offset >= batch.last or image.find(batch.base) == batch)

        return any(configuration.reached(held, 0) == 1 for configuration in candidates)

    def acknowledges(self, host: Host, batch: Batch) -> None:
        """A client is told that its batch is committed."""
        _check(self._at.get(batch.base) == batch, f"{host} acknowledges {_show(batch)}, which is not committed")
        self.acknowledged += 1

    # Applied state and reads.

    def applies(self, host: Host, batch: Batch, state: int) -> None:
        """A state machine moves on."""
        _check(self._at.get(batch.base) == batch, f"{host} applies {_show(batch)}, which is not committed")
        _check(host.disk.durable.find(batch.base) == batch, f"{host} applies {_show(batch)} before it is on its disk")
        _check(self._states[batch.last] == state, f"{host} has another state than the others after {batch.last}")

    def reads(self, host: Host, floor: Offset, offset: Offset) -> None:
        """A linearizable read is served: nothing that was committed when it was asked for may be missing."""
        _check(offset >= floor, f"{host} serves a read at {offset}, but {floor} was committed before it was asked for")

    def finished(self, host: Host) -> None:
        """At the end every member has every committed batch, at its offset."""
        image = host.disk.durable
        skip = self._ends.get(image.start.offset)
        _check(skip is not None, f"{host} has compacted to {image.start.offset}, which is no committed batch's end")
        mine = image.batches[: len(self.committed) - (skip or 0)]
        _check(mine == self.committed[skip:], f"{host} ends with another log than was committed")


def _show(batch: Batch) -> str:
    term = batch.term if batch.term != NO_TERM else "-"
    return f"{batch.base}-{batch.last}@{term}"
