"""Elections: when to ask for votes, when to give one, and the only places where a replica changes its role."""

from __future__ import annotations

from quorate.consensus.core.effects import Role
from quorate.consensus.core.leader import Leader
from quorate.consensus.core.messages import TimeoutNow, VoteAnswer, VoteRequest
from quorate.consensus.core.quorum import Outcome
from quorate.consensus.core.types import FAR, NEVER, NO_REPLICA, Millis, ReplicaId, Term


class Elections(Leader):
    """Campaigns, votes and role changes."""

    __slots__ = ()

    # Role changes. Nothing else assigns `role`.

    def become_follower(self, term: Term, leader: ReplicaId) -> None:
        """Follow `leader` (or nobody yet) in `term`, which is not lower than the current one."""
        was = self.role
        if was is Role.STOPPED:
            return
        self._drop_cover()
        if was is Role.LEADER:
            self._lay_down()
        if term > self.term:
            self.term = term
            self.vote = NO_REPLICA
        self.role = Role.FOLLOWER
        self.leader = leader
        self.votes.clear()
        self._ack = None
        if was is not Role.FOLLOWER or leader != NO_REPLICA:
            self._reset_timer()

    def _become_pre_candidate(self) -> None:
        self._drop_cover()
        self.role = Role.PRE_CANDIDATE
        self.leader = NO_REPLICA
        self.votes = {self.replica: True}
        self._ack = None
        self._reset_timer()

    def _become_candidate(self) -> None:
        self._drop_cover()
        self.role = Role.CANDIDATE
        self.leader = NO_REPLICA
        self.term = Term(self.term + 1)
        self.vote = self.replica
        # Our own vote counts when it is durable, not before: it is part of the next write.
        self.votes = {}
        self._vote_sequence = self._sequence + 1
        self._ack = None
        self._reset_timer()

    def become_leader(self) -> None:
        """Lead the current term, having won its election."""
        self.role = Role.LEADER
        self.leader = self.replica
        self.votes.clear()
        self._take_up()

    def stop(self, reason: str) -> None:
        """Take no further part: a write failed, or continuing could break a promise."""
        if self.role is Role.STOPPED:
            return
        self._drop_cover()
        if self.role is Role.LEADER:
            self._lay_down()
        self.role = Role.STOPPED
        self.leader = NO_REPLICA
        self.stop_reason = reason
        self.deadline = FAR
        self._ack = None
        self.touch()

    # Campaigns.

    def promotable(self) -> bool:
        """Whether this replica may lead: a voter, running, with its log on its own disk."""
        return self._elector() and self.role is not Role.STOPPED and self._durable >= self._snapshot_sequence

    def _elector(self) -> bool:
        """Whether this replica votes, or did until a change that is not known to be committed.

        Its log may be the only one that holds the change, and then nobody else can be elected. It does not count its own
        vote, and retires as soon as the change is committed (section 4.2.2 of the dissertation).
        """
        if self.replica in self.configuration.electors:
            return True
        return self.replica in self.log.history.at(self.log.commit).electors

    def campaign(self) -> None:
        """Try to become the leader, asking first whether there is a chance. Does nothing for who cannot lead."""
        if self.role is Role.LEADER or not self.promotable():
            return None
        self.touch()
        if self.configuration.electors == {self.replica}:
            return self._run(transfer=False)
        self._become_pre_candidate()
        self._ask_for_votes(Term(self.term + 1), pre=True, transfer=False)

    def _run(self, *, transfer: bool) -> None:
        self._become_candidate()
        self._ask_for_votes(self.term, pre=False, transfer=transfer)

    def _ask_for_votes(self, term: Term, *, pre: bool, transfer: bool) -> None:
        """Requests leave before our own sync, so they may claim only the part of the log that is durable already.

        A crash now could lose the rest, and a vote that was given for it could still arrive after the restart.
        """
        last, last_term = self._durable_end()
        for voter in sorted(self.configuration.electors):
            if voter != self.replica:
                self._send(VoteRequest(self.group, self.replica, voter, term, last, last_term, pre, transfer))

    def _count_votes(self) -> None:
        outcome = self.configuration.tally(self.votes)
        if outcome is Outcome.WON:
            if self.role is Role.PRE_CANDIDATE:
                self._run(transfer=False)
            elif self._own_vote_counts():
                self.become_leader()
        elif outcome is Outcome.LOST:
            self.become_follower(self.term, NO_REPLICA)

    def _own_vote_counts(self) -> bool:
        """Whether our vote for ourselves is durable: nobody leads a term before, even if the others are a quorum.

        After a crash we would not know that we led it, could be elected in the same term once more by the same voters, and
        would put different batches where our first life put some.
        """
        return self.replica in self.votes

    def _own_vote_durable(self, sequence: int) -> None:
        """A write came back: if it held our vote for ourselves, it counts now."""
        if self.role is Role.CANDIDATE and sequence >= self._vote_sequence and self.replica not in self.votes:
            self.votes[self.replica] = True
            self._count_votes()

    def _on_vote_answer(self, message: VoteAnswer) -> None:
        wanted = Role.PRE_CANDIDATE if message.pre else Role.CANDIDATE
        if self.role is not wanted or message.sender not in self.configuration.electors:
            return self._ignore()
        if message.pre and message.granted and message.term != self.term + 1:
            # Left over from an earlier campaign: it grants a term that has begun since, not the one we ask about now.
            return self._ignore()
        self.votes.setdefault(message.sender, message.granted)
        return self._count_votes()

    def _on_timeout_now(self, message: TimeoutNow) -> None:
        """The leader hands over: no pre-vote, and voters need not wait for its silence."""
        if self.role is Role.FOLLOWER and self.leader == message.sender and self.promotable():
            self._run(transfer=True)
        else:
            self._ignore()

    def _tick_election(self) -> None:
        """Campaign if the leader has been silent for the whole timeout."""
        now = self.clock.now
        due = Millis(max(self.timer_from, self._last_sign()) + self.timeout_ms)
        if now < due:
            self.deadline = due
        elif self.promotable():
            self.campaign()
        else:
            self._reset_timer()

    @property
    def campaigning(self) -> bool:
        """Whether an election of ours is under way."""
        return self.role is Role.PRE_CANDIDATE or self.role is Role.CANDIDATE

    def campaign_due(self) -> bool:
        """Whether the next tick begins an election."""
        due = max(self.timer_from, self._last_sign()) + self.timeout_ms
        return self.clock.now >= due and self.role is not Role.LEADER and self.promotable()

    def lose_touch(self) -> None:
        """The connection with our leader's node broke: do not wait out its silence, ask soon whether others lost it too.

        Only patience is lost, nothing is decided: the pre-vote fails while a quorum still hears the leader, and the next
        sign of the leader makes this a follower as before.
        """
        if self.role is not Role.FOLLOWER or self.leader == NO_REPLICA or not self.promotable():
            return
        self._drop_cover()
        self.heard_at = NEVER
        self.timer_from = self.clock.now
        # Not at once: the others need a moment to notice, and should not all ask together.
        patience = self.settings.election_ms
        self.timeout_ms = self.random.randrange(max(1, patience // 16), max(2, patience // 4))
        self.deadline = Millis(self.clock.now + self.timeout_ms)

    # Votes.

    def _up_to_date(self, message: VoteRequest) -> bool:
        """Whether the candidate's log is at least as new as ours (section 5.4.1), with what is still being written."""
        return (message.last_term, message.last) >= (self.log.last_term, self.log.last)

    def _on_pre_vote(self, message: VoteRequest) -> None:
        """Would we vote for this candidate? Answering changes nothing here: no term, no vote, no timer."""
        granted = message.term > self.term and self._up_to_date(message)
        self._answer_vote(message, message.term if granted else self.term, granted)

    def _on_vote(self, message: VoteRequest) -> None:
        """Give the vote of the current term, at most once. Learners answer too: the candidate may know that they vote."""
        free = self.vote == NO_REPLICA and self.leader == NO_REPLICA
        granted = (free or self.vote == message.sender) and self._up_to_date(message)
        if granted:
            self.vote = message.sender
            self._reset_timer()
        self._answer_vote(message, self.term, granted)

    def _answer_vote(self, message: VoteRequest, term: Term, granted: bool) -> None:
        self._send_durably(VoteAnswer(self.group, self.replica, message.sender, term, message.pre, granted))
