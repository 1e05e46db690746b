"""All groups of one node: deadlines in one heap, one beat per pair of nodes, and who has something to take.

A thousand idle groups must cost almost nothing. So no group is ticked before its deadline, and a leader whose followers have
everything sends nothing of its own: its node's beats vouch for it. A beat costs the same for one group as for a thousand,
as long as nobody's leadership changes.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple, TypeVar

from quorate.consensus.core.effects import Effects, Role
from quorate.consensus.core.messages import Beat, BeatAnswer, Claim, Message, NodeMessage
from quorate.consensus.core.progress import Signal
from quorate.consensus.core.raft import Raft
from quorate.consensus.core.replica import Clock, Replica
from quorate.consensus.core.resting import Resting
from quorate.consensus.core.types import FAR, NO_TERM, GroupId, Millis, NodeId, ReplicaId, Term, node_of, show_replica

_Refused = tuple[tuple[GroupId, Term], ...]
Group = TypeVar("Group", bound=Raft)


class Turn(NamedTuple):
    """What a turn of the node's loop has to carry out: each group's effects, and beats to send at once."""

    groups: list[tuple[Raft, Effects]]
    beats: list[Beat | BeatAnswer]


class _Peer:
    """What this node and one other say about each other in beats.

    Out: the groups that we lead and they follow. In: the groups that they lead and we follow.
    """

    __slots__ = (
        "heard",
        "in_claims",
        "in_refused",
        "in_signal",
        "in_version",
        "out_answered",
        "out_claims",
        "out_heard",
        "out_known",
        "out_life",
        "out_signal",
        "out_version",
    )

    def __init__(self) -> None:
        self.out_claims: tuple[Claim, ...] = ()
        self.out_version = 0
        self.out_known = True
        """Whether they have said that they know the claims of this version."""
        self.out_answered: tuple[int, _Refused] | None = None
        """The last answer that was passed on to the groups: the same one again needs no work."""
        self.out_heard = 0
        """The newest of our beats that they answered; older answers are late."""
        self.out_life = 0
        """The boot with which they last answered."""
        self.out_signal = Signal()
        self.heard: tuple[int, int] = (0, 0)
        """Boot and sequence of the newest beat from them; older ones are late."""
        self.in_claims: tuple[Claim, ...] = ()
        self.in_version: tuple[int, int] = (0, 0)
        self.in_refused: _Refused = ()
        self.in_signal = Signal()


class Node:
    """The groups of one node. The driver steps messages, ticks, and takes turns; proposals go to the groups directly."""

    __slots__ = (
        "_beat_due",
        "_beat_ms",
        "_campaigns",
        "_claims_changed",
        "_heap",
        "_max_campaigns",
        "_met",
        "_outbox",
        "_peers",
        "_resting",
        "_scheduled",
        "_sequence",
        "_woken",
        "boot",
        "clock",
        "groups",
        "node",
        "unknown",
    )

    def __init__(self, node: NodeId, *, boot: int, beat_ms: int, now: Millis = Millis(0), max_campaigns: int = 32) -> None:
        """`boot` must be higher at every start of the node: beats of an earlier life are late."""
        if boot < 1 or beat_ms < 1:
            raise ValueError(f"boot ({boot}) and beat_ms ({beat_ms}) must be at least 1")
        self.node = node
        self.boot = boot
        self.clock = Clock(now)
        self.groups: dict[GroupId, Raft] = {}
        self._met: set[tuple[GroupId, ReplicaId]] = set()
        """Every replica that was ever here in this life of the node."""
        self.unknown = 0
        """How many messages were for a group, or a node, that is not here."""
        self._peers: dict[NodeId, _Peer] = {}
        self._heap: list[tuple[Millis, GroupId]] = []
        # The earliest entry in the heap for each group. Later entries are left there and skipped.
        self._scheduled: dict[GroupId, Millis] = {}
        # Every group is in the heap, or rests.
        self._resting = Resting()
        self._woken: list[Replica] = []
        self._outbox: list[Beat | BeatAnswer] = []
        self._claims_changed = False
        self._sequence = 0
        self._beat_ms = beat_ms
        self._campaigns: dict[GroupId, tuple[Millis, Raft]] = {}
        """Elections that this node began lately, and when."""
        self._max_campaigns = max_campaigns
        self._beat_due: Millis = now

    def add(self, raft: Group) -> Group:
        """Take a group in. It must have been made with this node's clock.

        A replica starts once in a life of its node: its leader relies on what it said, until the node starts again.
        """
        if raft.group in self.groups:
            raise ValueError(f"group {raft.group} is here already")
        if raft.clock is not self.clock or node_of(raft.replica) != self.node:
            raise ValueError("the replica belongs to another node")
        if (raft.group, raft.replica) in self._met:
            name = show_replica(raft.replica)
            raise ValueError(f"replica {name} was here before: it can come back after a restart of its node")
        self._met.add((raft.group, raft.replica))
        self.groups[raft.group] = raft
        raft.wake_into(self._woken)
        self._schedule(raft)
        self._expect_claims_again()
        return raft

    def remove(self, group: GroupId) -> None:
        """Let a group go, at once."""
        raft = self.groups.pop(group)
        raft.stop("the replica was removed from its node")
        self._scheduled.pop(group, None)
        self._resting.forget(group)
        self._claims_changed = True
        self._expect_claims_again()

    def _expect_claims_again(self) -> None:
        for peer in self._peers.values():
            peer.in_signal.stale = True

    # Inputs.

    def step(self, message: NodeMessage) -> None:
        """Hear one message. For a group that is not here it is ignored and counted; nothing is raised."""
        if type(message) is Beat:
            return self._on_beat(message)
        if type(message) is BeatAnswer:
            return self._on_beat_answer(message)
        return self._step_group(message)  # type: ignore[arg-type]

    def _step_group(self, message: Message) -> None:
        raft = self.groups.get(message.group)
        if raft is None:
            self.unknown += 1
        else:
            raft.step(message)
            self._schedule(raft)

    def lost(self, node: NodeId) -> None:
        """The connection with a node broke: groups that it leads need not wait for its silence to last."""
        for raft in self.groups.values():
            if node_of(raft.leader) == node and raft.role is Role.FOLLOWER:
                raft.lose_touch()
                self._schedule(raft)

    def advance(self, now: Millis) -> None:
        """Tell the time before messages are stepped, so that they count as heard now. Nothing becomes due by this.

        After a pause of the process, what waits in the sockets is heard before `tick` looks for silence.
        """
        if now > self.clock.now:
            self.clock.now = now

    def tick(self, now: Millis) -> None:
        """Let time pass: tick the groups that are due, and beat."""
        self.advance(now)
        now = self.clock.now
        heap, scheduled, groups = self._heap, self._scheduled, self.groups
        for roused in self._resting.rouse(now):
            self._schedule(roused)
        while heap and heap[0][0] <= now:
            deadline, group = heappop(heap)
            raft = groups.get(group)
            if raft is None or scheduled.get(group) != deadline:
                continue
            del scheduled[group]
            if raft.role is Role.LEADER or self._may_campaign(raft):
                raft.tick(now)
            if not self._resting.lay_down(raft, now):
                self._schedule(raft)
        if now >= self._beat_due:
            self._beat()

    def _may_campaign(self, raft: Raft) -> bool:
        """Whether one more election may begin now; if not, its turn comes a little later.

        When a node with a thousand leaders is gone, a thousand elections at once would each wait for the others' votes to
        reach the disk, time out, and begin again for ever. One that has not ended in half an election timeout is no
        longer counted, before it can begin anew: so those that lead nowhere do not keep the others waiting.
        """
        if not raft.campaign_due():
            return True
        now, begun = self.clock.now, self._campaigns
        for group, (since, one) in list(begun.items()):
            if not one.campaigning or 2 * (now - since) >= one.settings.election_ms:
                del begun[group]
        if len(begun) >= self._max_campaigns:
            raft.deadline = Millis(now + self._beat_ms // 2 + 1)
            return False
        begun[raft.group] = (now, raft)
        return True

    def next_deadline(self) -> Millis:
        """When `tick` has work to do."""
        due = min(self._beat_due, self._resting.next_deadline())
        return min(self._heap[0][0], due) if self._heap else due

    def _schedule(self, raft: Replica) -> None:
        deadline = raft.deadline
        if deadline < self._scheduled.get(raft.group, FAR):
            self._scheduled[raft.group] = deadline
            heappush(self._heap, (deadline, raft.group))

    # Output.

    def take(self) -> Turn:
        """Everything that follows from the inputs so far, group by group."""
        woken, turn = self._woken, []
        for raft in woken:
            if self.groups.get(raft.group) is raft:
                assert isinstance(raft, Raft)
                turn.append((raft, raft.take()))
                self._schedule(raft)
                if raft.claims_changed:
                    raft.claims_changed = False
                    self._claims_changed = True
        woken.clear()
        beats, self._outbox = self._outbox, []
        return Turn(turn, beats)

    # Beats, as a leader's node.

    def _beat(self) -> None:
        now = self.clock.now
        self._beat_due = Millis(now + self._beat_ms)
        if self._claims_changed:
            self._claims_changed = False
            self._claim()
        self._sequence += 1
        for node, peer in self._peers.items():
            if peer.out_claims or not peer.out_known:
                claims = None if peer.out_known else peer.out_claims
                self._outbox.append(Beat(self.node, node, self.boot, self._sequence, peer.out_version, claims))

    def _claim(self) -> None:
        """Write down anew whom we lead, for each node."""
        claims: dict[NodeId, list[Claim]] = {node: [] for node in self._peers}
        for raft in self.groups.values():
            if raft.role is Role.LEADER:
                for follower in raft.progress:
                    claim = Claim(raft.group, raft.replica, follower, raft.term)
                    claims.setdefault(node_of(follower), []).append(claim)
        for node, lines in claims.items():
            peer = self._peer(node)
            if peer.out_claims != tuple(lines):
                peer.out_claims = tuple(lines)
                peer.out_version += 1
                peer.out_known = False
                peer.out_answered = None

    def _on_beat_answer(self, message: BeatAnswer) -> None:
        peer = self._peers.get(message.sender)
        if peer is None or message.to != self.node or message.boot != self.boot or message.version != peer.out_version:
            self.unknown += 1
            return
        if message.sequence < peer.out_heard:
            return
        peer.out_heard = message.sequence
        peer.out_known = message.known
        if not message.known:
            peer.out_answered = None
            return
        if message.life != peer.out_life:
            if peer.out_life:
                self._forgotten(peer)
            peer.out_life = message.life
        peer.out_signal.heard_at = self.clock.now
        if peer.out_answered == (message.version, message.refused):
            return
        peer.out_answered = (message.version, message.refused)
        refused = dict(message.refused)
        for claim in peer.out_claims:
            raft = self.groups.get(claim.group)
            if raft is not None and raft.term == claim.term and raft.replica == claim.sender:
                signal = None if claim.group in refused else peer.out_signal
                raft.claim_answered(claim.to, signal, refused.get(claim.group, NO_TERM))
                self._schedule(raft)

    def _forgotten(self, peer: _Peer) -> None:
        """The peer has started again: its replicas know the commit offset only as of their last write."""
        peer.out_answered = None
        for claim in peer.out_claims:
            raft = self.groups.get(claim.group)
            if raft is not None and raft.replica == claim.sender:
                raft.follower_restarted(claim.to)
                self._schedule(raft)

    # Beats, as a follower's node.

    def _on_beat(self, message: Beat) -> None:
        if message.to != self.node or message.sender == self.node:
            self.unknown += 1
            return
        peer = self._peer(message.sender)
        if (message.boot, message.sequence) <= peer.heard:
            return
        peer.heard = (message.boot, message.sequence)
        version = (message.boot, message.version)
        if version != peer.in_version and message.claims is None:
            self._answer(message, known=False, refused=())
            return
        if version != peer.in_version or peer.in_signal.stale:
            claims = peer.in_claims if message.claims is None else message.claims
            self._hear_claims(message.sender, peer, claims)
            peer.in_version = version
        peer.in_signal.heard_at = self.clock.now
        self._answer(message, known=True, refused=peer.in_refused)

    def _hear_claims(self, node: NodeId, peer: _Peer, claims: tuple[Claim, ...]) -> None:
        """Pass the claims on to the groups, and remember which do not hold."""
        signal = peer.in_signal
        signal.stale = False
        named = {claim.group for claim in claims}
        for claim in peer.in_claims:
            if claim.group not in named and claim.group in self.groups:
                self.groups[claim.group].uncover(signal)
                self._schedule(self.groups[claim.group])
        peer.in_claims = claims
        refused = []
        for claim in claims:
            raft = self.groups.get(claim.group)
            if raft is None or node_of(claim.sender) != node or not raft.hear_claim(claim, signal):
                refused.append((claim.group, NO_TERM if raft is None else raft.term))
            if raft is not None:
                self._schedule(raft)
        # Hearing a claim may have ended an older one of the same node.
        signal.stale = False
        peer.in_refused = tuple(refused)

    def _answer(self, beat: Beat, *, known: bool, refused: _Refused) -> None:
        self._outbox.append(
            BeatAnswer(self.node, beat.sender, beat.boot, beat.sequence, beat.version, known, refused, self.boot)
        )

    def _peer(self, node: NodeId) -> _Peer:
        peer = self._peers.get(node)
        if peer is None:
            peer = self._peers[node] = _Peer()
        return peer
