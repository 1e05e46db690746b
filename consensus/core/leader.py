"""What a leader does: replicate, count, commit, read, change members, hand over, and step down when it lost its quorum."""

from __future__ import annotations

from collections.abc import Collection

from quorate.consensus.core.effects import LogRead, Role
from quorate.consensus.core.errors import BadRequest, ChangeInProgress, NotLeader, Overloaded, Stopped, Transferring
from quorate.consensus.core.follower import Follower
from quorate.consensus.core.membership import Configuration
from quorate.consensus.core.messages import (
    Append,
    AppendAnswer,
    Heartbeat,
    HeartbeatAnswer,
    InstallSnapshot,
    TimeoutNow,
)
from quorate.consensus.core.progress import Pace, Progress, Signal
from quorate.consensus.core.types import (
    FAR,
    NEVER,
    NO_REPLICA,
    Batch,
    BatchKind,
    Buffer,
    Millis,
    Offset,
    ReplicaId,
    Snapshot,
    Term,
    show_replica,
)


class Leader(Follower):
    """The leader's side of everything."""

    __slots__ = ()

    # Taking up and laying down.

    def _take_up(self) -> None:
        """Begin a term as its leader: nothing is known of the followers, and a no-op starts the term's log."""
        now, following = self.clock.now, Offset(self.log.last + 1)
        self.term_start = following
        self.progress = {}
        self._track_members(following)
        for progress in self.progress.values():
            progress.heard_at = now
        self._uncommitted.clear()
        self.uncommitted_bytes = 0
        self._heartbeat_due = Millis(now + self.settings.heartbeat_ms)
        self._quorum_due = Millis(now + self.settings.election_ms)
        self.deadline = self._heartbeat_due
        self._append_own(BatchKind.NOOP, b"", 1)

    def _lay_down(self) -> None:
        """Stop leading; what waits for this leader fails now."""
        self.progress = {}
        self._out.failed_reads.extend(self.reads.fail())
        self.transfer_to = NO_REPLICA
        self._transfer_until = self._heartbeat_due = self._quorum_due = self._news_due = FAR
        self._uncommitted.clear()
        self.uncommitted_bytes = 0
        self.claims_changed = True

    def _track_members(self, following: Offset) -> None:
        """One progress for each other member, none for anybody else."""
        members = self.configuration.members
        for replica in sorted(members):
            if replica != self.replica and replica not in self.progress:
                self.progress[replica] = Progress(replica, following)
        for replica in [known for known in self.progress if known not in members]:
            del self.progress[replica]
        self.claims_changed = True

    def _configured(self) -> None:
        self.configuration = self.log.history.current
        if self.role is not Role.LEADER:
            return
        self._track_members(Offset(self.log.last + 1))
        for progress in self.progress.values():
            if progress.heard_at == NEVER:
                progress.heard_at = self.clock.now
        if self.transfer_to and self.transfer_to not in self.configuration.electors:
            self._abort_transfer()

    # Proposals.

    def _require_leader(self) -> None:
        if self.role is Role.STOPPED:
            raise Stopped(self.stop_reason)
        if self.role is not Role.LEADER:
            raise NotLeader(self.leader)
        if self.transfer_to:
            raise Transferring(self.transfer_to)

    def propose(self, data: Buffer, count: int = 1) -> Batch:
        """Append a batch of `count` records; returns it with its offsets and term.

        The caller may patch those into the bytes in place before the next `take`. The batch is decided when the commit
        offset passes it: it stands if its offset then still has its term. Raises Refused, and then nothing happened.
        """
        self._require_leader()
        if count < 1:
            raise BadRequest(f"a batch holds at least one record, not {count}")
        if self.uncommitted_bytes and self.uncommitted_bytes + len(data) > self.settings.max_uncommitted_bytes:
            raise Overloaded(f"{self.uncommitted_bytes} bytes wait for a quorum")
        return self._append_own(BatchKind.DATA, data, count)

    def change_members(self, voters: Collection[ReplicaId], learners: Collection[ReplicaId] = ()) -> Batch:
        """Begin a change to exactly these members; a joint one is left by itself once it is committed.

        New replicas begin as learners and can vote when they have caught up. Raises Refused, and then nothing happened.
        """
        self._require_leader()
        self._require_settled()
        changed = self.configuration.change(voters, learners)
        if changed == self.configuration:
            raise BadRequest("that is the configuration already")
        for replica in sorted(changed.voters - self.configuration.voters):
            if self.progress[replica].pace is not Pace.REPLICATE:
                raise ChangeInProgress(f"learner {show_replica(replica)} is still catching up")
        return self._append_own(BatchKind.CONFIG, changed.encode(), 1, changed)

    def _require_settled(self) -> None:
        """One change at a time, and only after this leader has committed something of its own term."""
        if not self._committed_in_term():
            raise ChangeInProgress("this leader has not committed anything in its term yet")
        if self.configuration.joint or self.log.history.current_offset > self.log.commit:
            raise ChangeInProgress("an earlier change of members is not finished")

    def _append_own(self, kind: BatchKind, data: Buffer, count: int, configuration: Configuration | None = None) -> Batch:
        base = Offset(self.log.last + 1)
        batch = Batch(base, Offset(base + count - 1), self.term, kind, data)
        self.log.append(batch, configuration)
        size = batch.size
        self._uncommitted.append((batch.last, size))
        self.uncommitted_bytes += size
        if configuration is not None:
            self._configured()
        self.touch()
        return batch

    # Replication.

    def _pump(self) -> None:
        """Send every follower what it may have now."""
        last, news_ms = self.log.last, self.settings.commit_news_ms
        for progress in self.progress.values():
            if progress.next <= last or progress.pace is Pace.PROBE:
                self._replicate(progress)
            elif self._lacks_news(progress):
                if not news_ms:
                    self._tell_commit(progress)
                elif self._news_due == FAR:
                    # The next append carries the news; if there is none soon, a heartbeat does.
                    self._news_due = Millis(self.clock.now + news_ms)
                    self.deadline = min(self.deadline, self._news_due)
        if self.reads.fresh and self._committed_in_term():
            self._heartbeat_round(everybody=True)
        if self._heartbeat_due == FAR and (self._out.send or self.reads.pending):
            self._heartbeat_due = Millis(self.clock.now + self.settings.heartbeat_ms)
            self.deadline = min(self.deadline, self._heartbeat_due)

    def _lacks_news(self, progress: Progress) -> bool:
        """Whether nothing that is under way tells this follower of a commit that it could act on."""
        commit = self.log.commit
        return progress.commit_sent < commit <= progress.match and not progress.inflight

    def _tell_commit(self, progress: Progress) -> None:
        progress.commit_sent = self.log.commit
        self._send(Heartbeat(self.group, self.replica, progress.replica, self.term, self.log.commit, 0))

    def _tell_news(self) -> None:
        """Tell those who were not told by an append meanwhile what is committed."""
        self._news_due = FAR
        for progress in self.progress.values():
            if self._lacks_news(progress):
                self._tell_commit(progress)
                self.touch()

    def _replicate(self, progress: Progress) -> None:
        log, settings = self.log, self.settings
        while not self._throttled(progress):
            first = progress.next
            if log.terms.term_at(Offset(first - 1)) is None:
                return self._want_snapshot(progress)
            if first > log.last:
                if progress.pace is Pace.PROBE:
                    self._send_append(progress, ())
                return None
            batches = log.slice(first, settings.max_append_bytes)
            if batches is None:
                progress.reading = True
                self._out.log_reads.append(LogRead(progress.replica, first, settings.max_append_bytes))
                return None
            self._send_append(progress, batches)
            if progress.next > log.last:
                return None
        return None

    def _throttled(self, progress: Progress) -> bool:
        if progress.reading or progress.pace is Pace.SNAPSHOT:
            return True
        if progress.pace is Pace.PROBE:
            return progress.paused
        settings = self.settings
        return progress.inflight >= settings.max_inflight or progress.inflight_bytes >= settings.max_inflight_bytes

    def _send_append(self, progress: Progress, batches: tuple[Batch, ...]) -> None:
        """Send batches from `next` on, or an empty append that only asks whether everything before `next` arrived."""
        previous = Offset(progress.next - 1)
        term, commit = self.log.terms.term_at(previous), self.log.commit
        if term is None:
            # What was sent is lost and has been compacted meanwhile.
            return self._want_snapshot(progress)
        self._send(Append(self.group, self.replica, progress.replica, self.term, previous, term, commit, batches))
        if progress.pace is Pace.PROBE:
            progress.paused = True
        elif batches:
            progress.sent(batches[-1].last, sum([batch.size for batch in batches]))
            progress.commit_sent = commit
        return None

    def supply(self, to: ReplicaId, batches: tuple[Batch, ...]) -> None:
        """The answer to a LogRead: batches from the disk, from its `first` on. Empty if they could not be read."""
        progress = self.progress.get(to)
        if self.role is not Role.LEADER or progress is None or not progress.reading:
            return
        progress.reading = False
        self.touch()
        if not batches:
            progress.probe(Offset(progress.match + 1))
            progress.paused = True
        elif batches[0].base == progress.next and all(map(self._same, batches)) and not self._throttled(progress):
            self._send_append(progress, batches)

    def _want_snapshot(self, progress: Progress) -> None:
        progress.need_snapshot(self.clock.now)
        self._out.snapshots.append(progress.replica)

    def send_snapshot(self, to: ReplicaId, data: Buffer) -> None:
        """The state machine's own state, for a follower that asked for a snapshot; its log start is added here.

        `data` must reach at least to the start of this log; a state that is further ahead is the state machine's affair.
        """
        progress = self.progress.get(to)
        if self.role is not Role.LEADER or progress is None or progress.pace is not Pace.SNAPSHOT:
            return
        progress.snapshot_at = self.clock.now
        snapshot = Snapshot(self.log.log_start(), data)
        self._send(InstallSnapshot(self.group, self.replica, to, self.term, snapshot))
        self.touch()

    def _on_append_answer(self, message: AppendAnswer) -> None:
        progress = self.progress.get(message.sender)
        if self.role is not Role.LEADER or progress is None or not (message.rejected or self.log.may_end_at(message.match)):
            return self._ignore()
        progress.heard_at = self.clock.now
        if message.rejected:
            return self._on_rejection(progress, message)
        news = progress.acknowledged(message.match)
        if progress.pace is Pace.PROBE or (progress.pace is Pace.SNAPSHOT and progress.match >= self.log.start):
            progress.replicate()
        if news:
            # What is committed already cannot commit more: the slower half of the answers is spared the count.
            if message.match > self.log.commit:
                self._maybe_commit()
            self._maybe_hand_over()
        return None

    def _on_rejection(self, progress: Progress, message: AppendAnswer) -> None:
        """The follower's log does not fit at `message.match`. Late answers are recognized and ignored."""
        if progress.pace is Pace.REPLICATE and message.match > progress.match:
            progress.probe(Offset(progress.match + 1))
        elif progress.pace is Pace.PROBE and message.match == progress.next - 1:
            agree = self.log.terms.may_agree_at(message.hint, message.hint_term)
            if agree < message.match:
                progress.probe(Offset(agree + 1))
            elif agree == self.log.start:
                self._want_snapshot(progress)

    # Commit.

    def _match_of(self, replica: ReplicaId) -> int:
        return self.log.stable if replica == self.replica else self.progress[replica].match

    def _maybe_commit(self) -> None:
        """Commit what a quorum has on disk, if it is of this term (section 5.4.2)."""
        value = Offset(self.configuration.reached(self._match_of, self.log.start))
        if value > self.log.commit and self._may_commit(value):
            self.log.commit = value
            uncommitted = self._uncommitted
            while uncommitted and uncommitted[0][0] <= value:
                self.uncommitted_bytes -= uncommitted.popleft()[1]
            self._on_commit()

    def _may_commit(self, value: Offset) -> bool:
        """An older term's batch is committed only by a batch of this term above it (Figure 8)."""
        return value >= self.term_start

    def _committed_in_term(self) -> bool:
        return self.log.commit >= self.term_start

    def _on_commit(self) -> None:
        """A change of members that is committed goes on to its next step."""
        configuration = self.configuration
        if self.log.history.current_offset > self.log.commit:
            return
        if configuration.joint:
            left = configuration.leave()
            self._append_own(BatchKind.CONFIG, left.encode(), 1, left)
            self._maybe_commit()
        elif self.replica not in configuration.voters:
            self._retire()

    def _retire(self) -> None:
        """This leader is no longer a voter: tell the others what is committed, let the best of them lead."""
        heirs = [self.progress[voter] for voter in sorted(self.configuration.voters) if voter in self.progress]
        for progress in self.progress.values():
            commit = min(progress.match, self.log.commit)
            self._send(Heartbeat(self.group, self.replica, progress.replica, self.term, commit, 0))
        heir = max(heirs, key=lambda progress: progress.match, default=None)
        if heir is not None and heir.match == self.log.last:
            self._send(TimeoutNow(self.group, self.replica, heir.replica, self.term))
        self.become_follower(self.term, NO_REPLICA)

    # Heartbeats, reads and the quorum check.

    def _quiet(self, progress: Progress) -> bool:
        """Whether the node's beats are all that this follower needs: it has everything and has said so."""
        return (
            progress.signal is not None
            and progress.pace is Pace.REPLICATE
            and progress.match == self.log.last
            and progress.commit >= self.log.commit
        )

    def _heartbeat_round(self, *, everybody: bool) -> bool:
        """Send a new round of heartbeats to those who need one; whether there was anybody."""
        commit = self.log.commit
        number = self.reads.begin_round(commit if self._committed_in_term() else None)
        busy = False
        for progress in self.progress.values():
            if everybody or not self._quiet(progress):
                busy = True
                known = min(progress.match, commit)
                self._send(Heartbeat(self.group, self.replica, progress.replica, self.term, known, number))
        self._confirm_reads()
        return busy

    def _on_heartbeat_answer(self, message: HeartbeatAnswer) -> None:
        progress = self.progress.get(message.sender)
        if self.role is not Role.LEADER or progress is None or message.round > self.reads.round:
            return self._ignore()
        now = progress.heard_at = self.clock.now
        if message.round > progress.commit_round:
            progress.commit = max(progress.commit, min(message.commit, progress.match))
        if message.round > progress.round:
            progress.round = message.round
            self._confirm_reads()
        if progress.pace is Pace.PROBE:
            progress.paused = False
        elif progress.pace is Pace.SNAPSHOT:
            if now - progress.snapshot_at >= self.settings.snapshot_retry_ms:
                progress.probe(Offset(progress.match + 1))
        elif progress.inflight:
            # If an append was lost, this one is rejected, and the follower is probed again.
            self._send_append(progress, ())
        return None

    def _round_of(self, replica: ReplicaId) -> int:
        return self.reads.round if replica == self.replica else self.progress[replica].round

    def _confirm_reads(self) -> None:
        if self.reads.pending:
            confirmed = self.configuration.reached(self._round_of, 0)
            self._out.reads.extend(self.reads.confirmed(confirmed))

    def read_index(self) -> int:
        """Begin a linearizable read; its id comes back in `reads` with an offset, or in `failed_reads`.

        Raises Refused, and then there is no read.
        """
        if self.role is Role.STOPPED:
            raise Stopped(self.stop_reason)
        if self.role is not Role.LEADER:
            raise NotLeader(self.leader)
        self._next_read += 1
        self.reads.ask(self._next_read)
        self.touch()
        return self._next_read

    def _heard_of(self, replica: ReplicaId) -> int:
        return self.clock.now if replica == self.replica else self.progress[replica].last_heard()

    def _tick_leader(self) -> None:
        """Whatever is due: the quorum check, the end of a transfer, heartbeats."""
        now = self.clock.now
        if now >= self._quorum_due:
            heard = self.configuration.reached(self._heard_of, NEVER)
            if now - heard >= self.settings.election_ms:
                self.touch()
                return self.become_follower(self.term, NO_REPLICA)
            self._quorum_due = Millis(heard + self.settings.election_ms)
        if now >= self._transfer_until:
            self._abort_transfer()
        if now >= self._news_due:
            self._tell_news()
        if now >= self._heartbeat_due:
            self.touch()
            busy = self._heartbeat_round(everybody=self.reads.pending)
            self._heartbeat_due = Millis(now + self.settings.heartbeat_ms) if busy else FAR
        self.deadline = min(self._quorum_due, self._transfer_until, self._heartbeat_due, self._news_due)
        return None

    def _leans_on(self) -> tuple[Signal, ...]:
        """The signals that confirm this leader, if it waits for nothing else and is confirmed by all of its followers."""
        if min(self._transfer_until, self._heartbeat_due, self._news_due) != FAR:
            return ()
        signals = [progress.signal for progress in self.progress.values() if progress.signal is not None]
        return tuple(signals) if len(signals) == len(self.progress) else ()

    def claim_answered(self, to: ReplicaId, signal: Signal | None, term: Term) -> None:
        """A follower's node answered our claim: confirmed by `signal`, or refused (None) at its own `term`."""
        progress = self.progress.get(to)
        if self.role is not Role.LEADER or progress is None:
            return None
        if term > self.term:
            self.touch()
            return self.become_follower(term, NO_REPLICA)
        progress.signal = signal
        if signal is None:
            self._heartbeat_soon()
        return None

    def follower_restarted(self, to: ReplicaId) -> None:
        """A follower's node has started again: show it the commit offset until it says that it has it."""
        progress = self.progress.get(to)
        if progress is not None:
            progress.forget_commit(self.reads.round)
            self._heartbeat_soon()

    def _heartbeat_soon(self) -> None:
        if self._heartbeat_due == FAR:
            self._heartbeat_due = self.deadline = self.clock.now

    # Leadership transfer.

    def transfer(self, to: ReplicaId) -> None:
        """Hand leadership to a voter. Proposals are refused until it leads, or until an election timeout has passed.

        Raises Refused, and then nothing happened. Transferring to oneself is done at once.
        """
        if self.role is Role.LEADER and to == self.replica:
            return
        self._require_leader()
        if to not in self.configuration.voters:
            raise BadRequest(f"{show_replica(to)} is not a voter")
        self.transfer_to = to
        self._transfer_until = Millis(self.clock.now + self.settings.election_ms)
        self.deadline = min(self.deadline, self._transfer_until)
        self._maybe_hand_over()
        self.touch()

    def _maybe_hand_over(self) -> None:
        """Tell the target to start its election, once it has everything."""
        if self.role is not Role.LEADER or not self.transfer_to:
            return
        if self.progress[self.transfer_to].match == self.log.last:
            self._send(TimeoutNow(self.group, self.replica, self.transfer_to, self.term))

    def _abort_transfer(self) -> None:
        self.transfer_to = NO_REPLICA
        self._transfer_until = FAR
