"""What a replica does with messages that can be read, whoever sends them, and whatever they say.

`tests/consensus/core/test_fuzz.py` tries the same with random messages; here the way through the code leads.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from quorate.consensus.core import (
    Batch,
    BatchKind,
    Configuration,
    LogStart,
    Message,
    Offset,
    ReplicaId,
    Role,
    Snapshot,
    Term,
    replica_id,
)
from quorate.consensus.core.messages import (
    Append,
    AppendAnswer,
    Heartbeat,
    HeartbeatAnswer,
    InstallSnapshot,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)
from quorate.consensus.transport.decode import MAX_TERM, decode
from quorate.consensus.transport.errors import BadFrame
from tests.consensus.core.lab import GROUP, ids
from tests.consensus.core.test_fuzz import in_role, poke
from tests.fuzz.targets.expect import Broken, expect
from tests.fuzz.targets.peers import encoded

_SENDERS = (*map(replica_id, (2, 3, 4)), replica_id(2, 2), ReplicaId(0))
_ABSURD = (-(1 << 63), -2, 1 << 31, (1 << 62), (1 << 63) - 1)
_CONFIGURATIONS = (
    Configuration(voters=ids(1, 2, 3)),
    Configuration(voters=ids(2, 3), outgoing=ids(1, 2, 3), learners_next=ids(1)),
    Configuration(voters=ids(2, 3), learners=ids(1)),
    Configuration(voters=ids(1)),
    Configuration(voters=frozenset()),
)
_ROLES = tuple(Role)


class _Numbers:
    """Small numbers out of bytes: what is near the truth gets far. When the bytes are used up they are zeros."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def more(self) -> bool:
        return self._at < len(self._data)

    def byte(self) -> int:
        value = self._data[self._at] if self.more else 0
        self._at += 1
        return value

    def offset(self) -> Offset:
        value = self.byte()
        return Offset(_ABSURD[value % len(_ABSURD)] if value > 250 else value % 10 - 1)

    def term(self) -> Term:
        value = self.byte()
        return Term(abs(_ABSURD[value % len(_ABSURD)]) if value > 250 else value % 7)

    def flag(self) -> bool:
        return bool(self.byte() & 1)

    def batches(self, base: int, term: int) -> tuple[Batch, ...]:
        """Mostly batches that follow each other."""
        found = []
        for _ in range(self.byte() % 4):
            how = self.byte()
            kind = BatchKind(how % 3)
            data = _CONFIGURATIONS[self.byte() % 5].encode() if kind is BatchKind.CONFIG else b"x"
            last = base + (self.byte() % 3 if kind is BatchKind.DATA or how > 240 else 0)
            term += how >> 2 & 1
            found.append(Batch(Offset(base), Offset(last), Term(term), kind, data[1:] if how > 250 else data))
            base = last + 1 if how < 248 else self.offset()
        return tuple(found)


def _message(numbers: _Numbers) -> Message:
    kind, sender = numbers.byte() % 8, _SENDERS[numbers.byte() % len(_SENDERS)]
    head = (GROUP, sender, replica_id(1), numbers.term())
    offset, flag, term = numbers.offset, numbers.flag, numbers.term
    if kind == 0:
        base, before = offset(), min(term(), MAX_TERM)
        return Append(*head, base, Term(before), offset(), numbers.batches(base + 1 if base < 1 << 62 else base, before))
    if kind == 1:
        return AppendAnswer(*head, offset(), flag(), offset(), term())
    if kind == 2:
        return Heartbeat(*head, offset(), abs(offset()) & MAX_TERM)
    if kind == 3:
        return HeartbeatAnswer(*head, offset(), abs(offset()) & MAX_TERM)
    if kind == 4:
        return VoteRequest(*head, offset(), term(), flag(), flag())
    if kind == 5:
        return VoteAnswer(*head, flag(), flag())
    if kind == 6:
        start = LogStart(offset(), term(), _CONFIGURATIONS[numbers.byte() % 5])
        return InstallSnapshot(*head, Snapshot(start, b"state"))
    return TimeoutNow(*head)


def raft(data: bytes) -> None:
    """A replica in some role hears messages, and its driver does something in between: nothing raises, nothing breaks."""
    if not data:
        return
    member, numbers = in_role(_ROLES[data[0] % len(_ROLES)]), _Numbers(data[1:])
    member.auto = bool(data[0] & 128)
    for _ in range(12):
        if not numbers.more:
            return
        try:
            message = decode(memoryview(encoded(_message(numbers))))
        except (BadFrame, struct.error):
            continue  # it cannot be said, or not be read
        before = (member.raft.term, member.raft.log.commit, member.raft.vote)
        member.raft.step(message)  # type: ignore[arg-type]  # none of them is a beat
        _holds(member.raft.check_invariants)
        expect(member.raft.term >= before[0] and member.raft.log.commit >= before[1], "nothing goes back")
        expect(member.raft.term > before[0] or before[2] in (0, member.raft.vote), "a vote is never taken back")
        action = numbers.byte() % 10
        poke(member, action)
        _holds(member.raft.check_invariants)
        if action != 8:
            member.run()


def _holds(check: Callable[[], None]) -> None:
    try:
        check()
    except AssertionError as error:
        raise Broken(f"an invariant: {error}") from error
