"""What a replica does with what a leader sends: append, truncate, commit, start over from a snapshot."""

from __future__ import annotations

from quorate.consensus.core.effects import Role
from quorate.consensus.core.log import decode_configurations
from quorate.consensus.core.membership import Configuration
from quorate.consensus.core.messages import Append, AppendAnswer, Claim, Heartbeat, HeartbeatAnswer, InstallSnapshot
from quorate.consensus.core.progress import Signal
from quorate.consensus.core.replica import Replica
from quorate.consensus.core.types import NO_REPLICA, NO_TERM, Batch, BatchKind, Offset, ReplicaId, Term


def joins_up(message: Append) -> bool:
    """Whether an append's batches follow its previous offset and each other, with terms that never fall."""
    offset, term = message.previous, message.previous_term
    if term > message.term:
        return False
    for batch in message.batches:
        if batch.base != offset + 1 or batch.last < batch.base or batch.term < term:
            return False
        if batch.kind is not BatchKind.DATA and batch.last != batch.base:
            return False
        offset, term = batch.last, batch.term
    return term <= message.term


class Follower(Replica):
    """The follower's side of replication."""

    __slots__ = ()

    def _follow(self, leader: ReplicaId, term: Term) -> bool:
        """A message of the leader of `term` is here, and `term` is not lower than ours; whether it can be true.

        One term has one leader: if we know another one, or are it ourselves, this is not a leader.
        """
        if self.leader != leader or self.term != term or self.role is not Role.FOLLOWER:
            if leader == self.replica or (self.term == term and self.leader not in (NO_REPLICA, leader)):
                self._ignore()
                return False
            self.become_follower(term, leader)
        self.heard_at = self.clock.now
        return True

    def _acknowledge(self, match: Offset) -> None:
        """Promise `match` to the leader; all promises of a turn leave as one answer, after the sync."""
        if self._ack is None or match > self._ack:
            self._ack = match

    def _flush_acknowledgement(self) -> None:
        """Turn the promise of this turn into one answer."""
        if self._ack is not None:
            self._send_durably(self._append_answer(self._ack))
            self._ack = None

    def _append_answer(self, match: Offset) -> AppendAnswer:
        return AppendAnswer(self.group, self.replica, self.leader, self.term, match, False, match, NO_TERM)

    def _on_append(self, message: Append) -> None:
        if not joins_up(message):
            return self._ignore()
        try:
            configurations = decode_configurations(message.batches)
        except ValueError:
            return self._ignore()
        if not self._follow(message.sender, message.term):
            return None
        log = self.log
        if message.previous < log.commit:
            # Committed here means equal to every leader's log: the leader may go on from there.
            return self._acknowledge(log.commit)
        if not log.terms.matches(message.previous, message.previous_term):
            return self._reject(message)
        if self._extend(message.batches, configurations) and self.role is Role.FOLLOWER:
            last = message.batches[-1].last if message.batches else message.previous
            self._commit_validated(message.commit, last)
            self._acknowledge(last)
        return None

    def _reject(self, message: Append) -> None:
        terms = self.log.terms
        hint = terms.last_at_or_below(min(message.previous, terms.last), message.previous_term)
        hint_term = terms.term_at(hint)
        self._send_durably(
            AppendAnswer(
                self.group,
                self.replica,
                message.sender,
                self.term,
                message.previous,
                True,
                hint,
                hint_term if hint_term is not None else NO_TERM,
            )
        )

    def _extend(self, batches: tuple[Batch, ...], configurations: dict[Offset, Configuration]) -> bool:
        """Append what is new: skip what matches, truncate from the first batch that differs.

        False for batches that cannot be a leader's, because they end where no batch of the shared log ends.
        """
        log, skip = self.log, 0
        if batches and batches[0].base <= log.last:
            for batch in batches:
                if batch.base > log.last or not self._same(batch):
                    break
                if not log.may_end_at(batch.last) or not log.terms.matches(batch.last, batch.term):
                    self._ignore()
                    return False
                skip += 1
            if skip < len(batches) and batches[skip].base <= log.last:
                keep = Offset(batches[skip].base - 1)
                if not log.may_end_at(keep):
                    self._ignore()
                    return False
                self._truncate(keep)
                if self.role is Role.STOPPED:
                    return False
        changed = False
        for batch in batches[skip:]:
            configuration = configurations.get(batch.last) if configurations else None
            log.append(batch, configuration)
            changed = changed or configuration is not None
        if changed:
            self._configured()
        return True

    def _same(self, batch: Batch) -> bool:
        """Whether the log holds this batch. One term had one leader, so equal terms mean equal batches."""
        return self.log.terms.matches(batch.base, batch.term)

    def _truncate(self, last: Offset) -> None:
        log = self.log
        if last < log.commit:
            return self.stop(f"a leader's log differs at {last + 1}, at or below the commit offset {log.commit}")
        if last < log.handed:
            self._truncated = last if self._truncated is None else min(self._truncated, last)
            self._cut = self._sequence
        if log.truncate(last):
            self._configured()

    def _commit_validated(self, commit: Offset, validated: Offset) -> None:
        """Commit up to `commit`, but never past what this leader's log is known to share with ours."""
        value = min(commit, validated)
        if value > self.log.commit:
            self.log.commit = value

    def _on_heartbeat(self, message: Heartbeat) -> None:
        if not self._follow(message.sender, message.term):
            return
        # A leader never names a commit offset beyond what we acknowledged to it. Beyond our log, it cannot be meant for us.
        if message.commit <= self.log.last:
            self._commit_validated(message.commit, self.log.last)
        else:
            self._ignore()
        if message.round:
            answer = HeartbeatAnswer(self.group, self.replica, message.sender, self.term, self.log.commit, message.round)
            if self._write_pending():
                self._send_durably(answer)
            else:
                self._send(answer)

    def _on_snapshot(self, message: InstallSnapshot) -> None:
        start = message.snapshot.start
        log = self.log
        if start.term > message.term or start.offset < 0 or (start.offset > log.commit and start.term < self._commit_term()):
            return self._ignore()
        if not self._follow(message.sender, message.term):
            return None
        if start.offset <= log.commit:
            return self._acknowledge(log.commit)
        if log.terms.matches(start.offset, start.term):
            log.commit = start.offset
            return self._acknowledge(start.offset)
        log.install(message.snapshot)
        self._snapshot = message.snapshot
        self._truncated = None
        self._cut = self._sequence
        self._moved_start = False
        # Until the snapshot is durable the disk still holds the old log, so there must be no campaign on the new one.
        self._snapshot_sequence = self._sequence + 1
        self._configured()
        return self._acknowledge(start.offset)

    def _commit_term(self) -> Term:
        """The term at the commit offset: nothing above it can be of an older one."""
        term = self.log.terms.term_at(self.log.commit)
        return term if term is not None else NO_TERM

    def hear_claim(self, claim: Claim, signal: Signal) -> bool:
        """A node's beat says that `claim.sender` leads us. If that is so, its later beats count as heartbeats."""
        if claim.to != self.replica or claim.term < self.term or self.role is Role.STOPPED:
            return False
        if not self._follow(claim.sender, claim.term):
            return False
        self.cover = signal
        self.touch()
        return True

    def uncover(self, signal: Signal) -> None:
        """The beats behind `signal` no longer speak of this group: back to its own heartbeats."""
        if self.cover is signal:
            self.heard_at = self._last_sign()
            self.cover = None
