"""Bugs that are planted one at a time, each a rule of the core that is broken, to prove that the simulator finds it.

Test-only subclasses: the core itself has no switch for any of this.
"""

from __future__ import annotations

from collections.abc import Collection

from quorate.consensus.core import (
    Batch,
    BatchKind,
    Configuration,
    HardState,
    Offset,
    Raft,
    ReplicaId,
    Role,
    Snapshot,
    Term,
    Token,
)
from quorate.consensus.core.messages import AppendAnswer, Heartbeat, InstallSnapshot, Message, VoteRequest
from quorate.consensus.core.types import NO_REPLICA


class AckBeforeFsync(Raft):
    """Append answers leave at once instead of after the sync."""

    __slots__ = ()

    def _flush_acknowledgement(self) -> None:
        if self._ack is not None:
            self._send(self._append_answer(self._ack))
            self._ack = None


class CommitOldTerm(Raft):
    """A batch of an older term is committed by counting its copies (Figure 8)."""

    __slots__ = ()

    def _may_commit(self, value: Offset) -> bool:
        return value > self.log.commit


class TruncateWithoutConflict(Raft):
    """An append replaces whatever follows its previous offset, even if it is the same."""

    __slots__ = ()

    def _same(self, batch: Batch) -> bool:
        return False if self.role is Role.FOLLOWER else super()._same(batch)


class VoteForgotten(Raft):
    """The vote is not written down: after a restart it is given again."""

    __slots__ = ()

    def hard_state(self) -> HardState:
        return HardState(self.term, NO_REPLICA, self.log.commit)


class StaleAckCounted(Raft):
    """Acknowledgements are counted without looking at their term."""

    __slots__ = ()

    def step(self, message: Message) -> None:
        if type(message) is AppendAnswer and message.term < self.term and self.role is Role.LEADER:
            message = message._replace(term=self.term)
        super().step(message)


class SelfVoteBeforeFsync(Raft):
    """A candidate counts its own vote before it is on disk."""

    __slots__ = ()

    def _run(self, *, transfer: bool) -> None:
        super()._run(transfer=transfer)
        self.votes[self.replica] = True
        self._count_votes()


class LeaderWithoutOwnVote(Raft):
    """A candidate leads as soon as the others are a quorum, before its own term is on disk."""

    __slots__ = ()

    def _own_vote_counts(self) -> bool:
        return True


class PreVoteResetsTimer(Raft):
    """Being asked for a pre-vote counts as a sign of a leader."""

    __slots__ = ()

    def _on_pre_vote(self, message: VoteRequest) -> None:
        super()._on_pre_vote(message)
        self._reset_timer()


class ReadBeforeNoop(Raft):
    """A new leader serves reads before it has committed anything in its term."""

    __slots__ = ()

    def _heartbeat_round(self, *, everybody: bool) -> bool:
        start, self.term_start = self.term_start, Offset(-1)
        try:
            return super()._heartbeat_round(everybody=everybody)
        finally:
            self.term_start = start

    def _pump(self) -> None:
        super()._pump()
        if self.reads.fresh:
            self._heartbeat_round(everybody=True)


class ReplicaIdReused(Raft):
    """A replica that was removed may come back under its old id, with an empty disk."""

    __slots__ = ()

    def change_members(self, voters: Collection[ReplicaId], learners: Collection[ReplicaId] = ()) -> Batch:
        known = self.configuration
        strangers = frozenset(learners) - known.members
        if not strangers or frozenset(voters) != known.voters:
            return super().change_members(voters, learners)
        self._require_leader()
        self._require_settled()
        changed = Configuration(voters=known.voters, learners=frozenset(learners), generation=known.generation)
        return self._append_own(BatchKind.CONFIG, changed.encode(), 1, changed)


class ConfigurationNotRolledBack(Raft):
    """A configuration stays in force when the batch that held it is truncated."""

    __slots__ = ()

    def _truncate(self, last: Offset) -> None:
        log = self.log
        if last < log.commit:
            return self.stop("a leader's log differs at or below the commit offset")
        if last < log.handed:
            self._truncated = last if self._truncated is None else min(self._truncated, last)
        log.truncate(last)
        return None


class ChangeWithoutGuard(Raft):
    """A change of members may begin before the leader has committed in its term, and before the last one has ended."""

    __slots__ = ()

    def _require_settled(self) -> None:
        if self.configuration.joint:
            super()._require_settled()


class CommitBeyondValidated(Raft):
    """A follower commits whatever its log holds, also what this leader has not confirmed."""

    __slots__ = ()

    def _commit_validated(self, commit: Offset, validated: Offset) -> None:
        super()._commit_validated(commit, self.log.last)


class LateCompletion(Raft):
    """A write that comes back after a change of term still confirms the log up to where it was then."""

    __slots__ = ()

    def _still_true(self, token: Token) -> bool:
        return token.last <= self.log.last


class VoteForShorterLog(Raft):
    """A voter does not compare logs."""

    __slots__ = ()

    def _up_to_date(self, message: VoteRequest) -> bool:
        return True


class ClaimsUnsyncedLog(Raft):
    """A candidate asks for votes with a log that is not on its disk yet."""

    __slots__ = ()

    def _durable_end(self) -> tuple[Offset, Term]:
        return self.log.last, self.log.last_term


class LeaderCountsItselfEarly(Raft):
    """A leader counts its own copy before it is on disk."""

    __slots__ = ()

    def _match_of(self, replica: ReplicaId) -> int:
        return self.log.last if replica == self.replica else super()._match_of(replica)


class HeartbeatTellsAll(Raft):
    """A heartbeat names the leader's commit offset, not what the follower is known to have."""

    __slots__ = ()

    def _send(self, message: Message) -> None:
        if type(message) is Heartbeat:
            message = message._replace(commit=self.log.commit)
        super()._send(message)


class SnapshotTrustedEarly(Raft):
    """A replica campaigns on a snapshot that is not on its disk yet."""

    __slots__ = ()

    def _on_snapshot(self, message: InstallSnapshot) -> None:
        super()._on_snapshot(message)
        self._snapshot_sequence = 0


class SnapshotOfNothing(Raft):
    """A leader sends a snapshot that says it reaches further than its state does."""

    __slots__ = ()

    def send_snapshot(self, to: ReplicaId, data: bytes | bytearray | memoryview) -> None:
        start = self.log.log_start()
        ahead = start._replace(offset=self.log.last, term=self.log.last_term)
        progress = self.progress.get(to)
        if self.role is Role.LEADER and progress is not None:
            self._send(InstallSnapshot(self.group, self.replica, to, self.term, Snapshot(ahead, data)))
            self.touch()


BUGS: dict[str, type[Raft]] = {
    "ack-before-fsync": AckBeforeFsync,
    "commit-old-term": CommitOldTerm,
    "truncate-without-conflict": TruncateWithoutConflict,
    "vote-forgotten": VoteForgotten,
    "stale-ack-counted": StaleAckCounted,
    "self-vote-before-fsync": SelfVoteBeforeFsync,
    "leader-without-own-vote": LeaderWithoutOwnVote,
    "pre-vote-resets-timer": PreVoteResetsTimer,
    "read-before-noop": ReadBeforeNoop,
    "replica-id-reused": ReplicaIdReused,
    "configuration-not-rolled-back": ConfigurationNotRolledBack,
    "change-without-guard": ChangeWithoutGuard,
    "commit-beyond-validated": CommitBeyondValidated,
    "late-completion": LateCompletion,
    "vote-for-shorter-log": VoteForShorterLog,
    "claims-unsynced-log": ClaimsUnsyncedLog,
    "leader-counts-itself-early": LeaderCountsItselfEarly,
    "heartbeat-tells-all": HeartbeatTellsAll,
    "snapshot-trusted-early": SnapshotTrustedEarly,
    "snapshot-of-nothing": SnapshotOfNothing,
}
"""Every planted bug, by the name that `--bug` takes."""
