"""One replica of one Raft group, without I/O: messages, time and proposals in, `Effects` out.

This file is the outside of the core: which inputs there are, which messages are heard at all, and what a `take` hands over.
"""

from __future__ import annotations

from quorate.consensus.core.effects import Effects, Persist, Role, RoleChange
from quorate.consensus.core.election import Elections
from quorate.consensus.core.errors import BadRequest
from quorate.consensus.core.messages import (
    Append,
    AppendAnswer,
    Heartbeat,
    HeartbeatAnswer,
    InstallSnapshot,
    Message,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)
from quorate.consensus.core.progress import Signal
from quorate.consensus.core.types import NO_REPLICA, Millis, Offset, Token

_LEADERS = (Append, Heartbeat, InstallSnapshot)


class Raft(Elections):
    """A replica. Inputs: step, tick, propose, read_index, transfer, change_members, persisted, compact, supply,
    send_snapshot, campaign, stop. Output: take. `step` and `tick` never raise; the others raise Refused."""

    __slots__ = ()

    def step(self, message: Message) -> None:
        """Hear one message. What cannot be right, or is late, is ignored; nothing is raised."""
        if message.to != self.replica or message.group != self.group or self.role is Role.STOPPED:
            return self._ignore()
        self.touch()
        if type(message) is VoteRequest:
            return self._step_vote_request(message)
        if message.term != self.term and not self._settle_term(message):
            return None
        getattr(self, _HANDLERS[type(message)])(message)
        return None

    def _settle_term(self, message: Message) -> bool:
        """Bring a newer term in, turn an older one away; whether the message is still to be heard."""
        if message.term < self.term:
            self._turn_away(message)
            return False
        if type(message) is VoteAnswer and message.pre and message.granted:
            # It speaks of the term that we asked about, which nobody has begun yet.
            return message.term == self.term + 1
        if type(message) in _LEADERS:
            # The handler follows the new leader, if the message holds together.
            return True
        self.become_follower(message.term, NO_REPLICA)
        return False

    def _turn_away(self, message: Message) -> None:
        """An old leader is told the term, so that it steps down; anything else that is late is just late."""
        if type(message) in _LEADERS:
            answer = HeartbeatAnswer(self.group, self.replica, message.sender, self.term, self.log.commit, 0)
            self._send_durably(answer)
        else:
            self._ignore()

    def _step_vote_request(self, message: VoteRequest) -> None:
        if not message.transfer and self._hears_leader() and message.sender != self.leader:
            return self._ignore()
        if message.pre:
            return self._on_pre_vote(message)
        if message.term < self.term:
            return self._answer_vote(message, self.term, granted=False)
        if message.term > self.term:
            self.become_follower(message.term, NO_REPLICA)
        return self._on_vote(message)

    def tick(self, now: Millis) -> None:
        """Let time pass. A clock that went back is taken to stand still."""
        if now > self.clock.now:
            self.clock.now = now
        if self.clock.now < self.deadline or self.role is Role.STOPPED:
            return
        # Most deadlines only move on: whoever has something to say touches.
        if self.role is Role.LEADER:
            self._tick_leader()
        else:
            self._tick_election()

    def rests_on(self) -> tuple[Signal, ...]:
        """The signals without whose silence nothing becomes due here. Empty: something else may."""
        if self.role is Role.LEADER:
            return self._leans_on()
        return (self.cover,) if self.role is Role.FOLLOWER and self.cover is not None else ()

    def compact(self, offset: Offset) -> None:
        """Forget the log up to `offset`: a batch's end that the state machine has durably applied."""
        if offset <= self.log.start:
            return
        if offset > self.log.applied:
            raise BadRequest(f"cannot compact to {offset}: only {self.log.applied} was applied")
        if offset > self.log.stable:
            raise BadRequest(f"cannot compact to {offset}: only {self.log.stable} is durable")
        if not self.log.may_end_at(offset):
            raise BadRequest(f"cannot compact to {offset}: it is inside a batch")
        self.log.compact(offset)
        self._moved_start = True
        self.touch()

    # Durability.

    def persisted(self, token: Token) -> None:
        """The write of `token`, and so every earlier one, is durable."""
        if not self._durable < token.sequence <= self._sequence or self.role is Role.STOPPED:
            return
        self._durable = token.sequence
        self.touch()
        if self._still_true(token):
            self._stable_to(token.last)
        if token.term == self.term:
            self._own_vote_durable(token.sequence)

    def _still_true(self, token: Token) -> bool:
        """Whether the log that was written is the log we have.

        After a change of term the old completion says nothing: the tail may have been replaced, and a batch of the old term
        must not be confirmed in the name of the new one. The write of the new term's hard state will say it again. Nor does
        what was written before the log was cut. Only a peer that is no Raft leader then gives us another batch with the same
        offset and term, but not even that may make us take for durable what is not.
        """
        cut = token.sequence <= self._cut
        return not cut and token.term == self.term and self.log.terms.matches(token.last, token.last_term)

    def _stable_to(self, last: Offset) -> None:
        if last > self.log.stable:
            self.log.stable = last
            if self.role is Role.LEADER:
                self._maybe_commit()

    # Output.

    def take(self) -> Effects:
        """Everything that follows from the inputs so far. See `Effects` for what has to be done with it, in which order."""
        self._awake = False
        if self.role is Role.LEADER:
            self._pump()
        self._flush_acknowledgement()
        out, self._out = self._out, Effects()
        log = self.log
        if self.role is not Role.STOPPED:
            out.persist = self._take_write()
        if self._durable >= self._synced and out.send_after_sync:
            # Everything that these answers promise is on disk already.
            out.send.extend(out.send_after_sync)
            out.send_after_sync = []
        if log.commit > self._told_commit:
            self._told_commit = out.commit = log.commit
        ready = min(log.commit, log.stable)
        if ready > log.applied:
            out.apply = (Offset(log.applied + 1), ready)
            log.applied = ready
        role = self._told_role
        if role.role is not self.role or role.term != self.term or role.leader != self.leader:
            self._told_role = out.role = RoleChange(self.role, self.term, self.leader)
        log.trim()
        return out

    def _take_write(self) -> Persist | None:
        """One write with all that has changed, or nothing."""
        log = self.log
        changed = self._write_pending()
        new = log.handed < log.last
        sync = changed or new or self._truncated is not None or self._snapshot is not None
        if not sync and not self._moved_start:
            return None
        self._sequence += 1
        if sync:
            self._synced = self._sequence
        if changed or log.commit > self._hard_state.commit:
            self._hard_state = self.hard_state()
            hard_state = self._hard_state
        else:
            hard_state = None
        token = Token(self._sequence, self.term, log.last, log.last_term)
        batches = log.unhanded() if new else ()
        start = log.log_start() if self._moved_start else None
        write = Persist(token, sync, hard_state, self._snapshot, self._truncated, batches, start)
        self._snapshot = self._truncated = None
        self._moved_start = False
        return write

    def check_invariants(self) -> None:
        """Raise AssertionError if this replica contradicts itself. Called by tests after every step."""
        self.log.check_invariants()
        assert self._durable <= self._sequence, "a write came back that was never taken"
        assert self.configuration == self.log.history.current, "a configuration is in force that is not in the log"
        for progress in self.progress.values():
            progress.check_invariants()
            assert progress.match <= self.log.last, "a follower matches more than there is"
        if self.role is Role.LEADER:
            assert self.leader == self.replica
            assert set(self.progress) == set(self.configuration.members) - {self.replica}
            assert self.term_start <= self.log.last, "a leader's term begins with its no-op"
        else:
            assert not self.progress, "only a leader tracks followers"
            assert not self.reads.pending, "only a leader reads"


_HANDLERS: dict[type[Message], str] = {
    Append: "_on_append",
    AppendAnswer: "_on_append_answer",
    Heartbeat: "_on_heartbeat",
    HeartbeatAnswer: "_on_heartbeat_answer",
    InstallSnapshot: "_on_snapshot",
    TimeoutNow: "_on_timeout_now",
    VoteAnswer: "_on_vote_answer",
}
