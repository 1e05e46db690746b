"""A bench for a few replicas: time is handed in, messages are lists, and a write is durable when the test says so.

`Member` is one replica with its disk. `Lab` wires several and carries their messages. The message builders below fill in
what most tests do not care about. Nothing here is random and nothing happens by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import TypeVar

from quorate.consensus.core import (
    Batch,
    BatchKind,
    Clock,
    Configuration,
    Effects,
    GroupId,
    HardState,
    LogStart,
    Message,
    Millis,
    Offset,
    Persist,
    Raft,
    RaftSettings,
    ReadState,
    ReplicaId,
    Restored,
    Role,
    RoleChange,
    Snapshot,
    Term,
    Token,
    new_group,
    new_replica,
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
from quorate.consensus.core.types import NO_OFFSET, NO_REPLICA, NO_TERM
from tests.support.disk import Disk

GROUP = GroupId(1)
SETTINGS = RaftSettings(commit_news_ms=0)
Kind = TypeVar("Kind", bound=Message)


def ids(*nodes: int) -> frozenset[ReplicaId]:
    """The first replicas of these nodes."""
    return frozenset(map(replica_id, nodes))


def data(base: int, term: int, count: int = 1, payload: bytes = b"x") -> Batch:
    """A batch of `count` records."""
    return Batch(Offset(base), Offset(base + count - 1), Term(term), BatchKind.DATA, payload)


def config(base: int, term: int, configuration: Configuration) -> Batch:
    """A configuration batch."""
    return Batch(Offset(base), Offset(base), Term(term), BatchKind.CONFIG, configuration.encode())


def log_of(*terms: int) -> list[Batch]:
    """One batch of one record for each term, from offset 0 on, as the paper draws its logs."""
    return [data(base, term) for base, term in enumerate(terms)]


def append(
    previous: int, previous_term: int, *batches: Batch, term: int = 1, commit: int = -1, sender: int = 2, to: int = 1
) -> Append:
    return Append(
        GROUP,
        replica_id(sender),
        replica_id(to),
        Term(term),
        Offset(previous),
        Term(previous_term),
        Offset(commit),
        batches,
    )


def accepted(match: int, *, term: int = 1, sender: int = 2, to: int = 1) -> AppendAnswer:
    return AppendAnswer(GROUP, replica_id(sender), replica_id(to), Term(term), Offset(match), False, Offset(match), NO_TERM)


def rejected(match: int, hint: int, hint_term: int, *, term: int = 1, sender: int = 2, to: int = 1) -> AppendAnswer:
    return AppendAnswer(
        GROUP, replica_id(sender), replica_id(to), Term(term), Offset(match), True, Offset(hint), Term(hint_term)
    )


def heartbeat(commit: int = -1, *, term: int = 1, number: int = 1, sender: int = 2, to: int = 1) -> Heartbeat:
    return Heartbeat(GROUP, replica_id(sender), replica_id(to), Term(term), Offset(commit), number)


def heard(number: int, *, commit: int = -1, term: int = 1, sender: int = 2, to: int = 1) -> HeartbeatAnswer:
    return HeartbeatAnswer(GROUP, replica_id(sender), replica_id(to), Term(term), Offset(commit), number)


def ask_vote(
    term: int, last: int = -1, last_term: int = 0, *, pre: bool = False, transfer: bool = False, sender: int = 2, to: int = 1
) -> VoteRequest:
    return VoteRequest(GROUP, replica_id(sender), replica_id(to), Term(term), Offset(last), Term(last_term), pre, transfer)


def vote(term: int, granted: bool = True, *, pre: bool = False, sender: int = 2, to: int = 1) -> VoteAnswer:
    return VoteAnswer(GROUP, replica_id(sender), replica_id(to), Term(term), pre, granted)


def install(
    offset: int,
    offset_term: int,
    *,
    term: int = 1,
    configuration: Configuration | None = None,
    state: bytes = b"state",
    sender: int = 2,
    to: int = 1,
) -> InstallSnapshot:
    members = configuration if configuration is not None else Configuration(voters=ids(1, 2, 3))
    start = LogStart(Offset(offset), Term(offset_term), members)
    return InstallSnapshot(GROUP, replica_id(sender), replica_id(to), Term(term), Snapshot(start, state))


def timeout_now(*, term: int = 1, sender: int = 2, to: int = 1) -> TimeoutNow:
    return TimeoutNow(GROUP, replica_id(sender), replica_id(to), Term(term))


def only(kind: type[Kind], messages: Iterable[Message]) -> list[Kind]:
    """The messages of one type."""
    return [message for message in messages if isinstance(message, kind)]


def prepared(
    restored: Restored, batches: Iterable[Batch] = (), *, term: int = 0, vote: ReplicaId = NO_REPLICA, commit: int = -1
) -> Disk:
    """A disk that already holds these batches and this hard state, as after a restart."""
    disk = Disk(restored)
    held = tuple(batches)
    write = Persist(
        token=Token(0, Term(term), NO_OFFSET, NO_TERM),
        sync=True,
        hard_state=HardState(Term(term), vote, Offset(commit)),
        batches=held,
    )
    disk.write(write)
    disk.sync()
    return disk


class Member:
    """One replica and its disk. Everything that it says or decides is written down."""

    def __init__(
        self,
        node: int = 1,
        disk: Disk | None = None,
        *,
        voters: Iterable[int] = (1, 2, 3),
        log: Iterable[Batch] = (),
        term: int = 0,
        vote: ReplicaId = NO_REPLICA,
        commit: int = -1,
        settings: RaftSettings = SETTINGS,
        auto: bool = True,
        clock: Clock | None = None,
    ) -> None:
        self.id = replica_id(node)
        self.settings = settings
        self.auto = auto
        """Whether every write is durable at once; if not, the test calls `sync`."""
        self.clock = clock if clock is not None else Clock()
        first = new_group(Configuration(voters=ids(*voters)))
        self.disk = disk if disk is not None else prepared(first, log, term=term, vote=vote, commit=commit)
        self.lives = 0
        self.start()

    def start(self) -> None:
        """Begin a life on what the disk holds."""
        self.lives += 1
        random = Random(self.id * 31 + self.lives)
        self.raft = Raft(GROUP, self.id, self.disk.restored(), self.settings, random, self.clock)
        self.waiting: deque[tuple[Token, list[Message]]] = deque()
        self.out: list[Message] = []
        self.effects: list[Effects] = []
        self.reads: list[ReadState] = []
        self.failed_reads: list[int] = []
        self.roles: list[RoleChange] = []
        self.applied: list[tuple[Offset, Offset]] = []

    def turn(self) -> Effects:
        """Take once: start the write, send what may leave now, hold back what waits for the disk."""
        self.raft.check_invariants()
        effects = self.raft.take()
        self.raft.check_invariants()
        self.effects.append(effects)
        self.out.extend(effects.send)
        if effects.persist is not None:
            self.disk.write(effects.persist)
            self.waiting.append((effects.persist.token, list(effects.send_after_sync)))
        elif effects.send_after_sync:
            self.waiting[-1][1].extend(effects.send_after_sync)
        self.reads.extend(effects.reads)
        self.failed_reads.extend(effects.failed_reads)
        if effects.apply is not None:
            self.applied.append(effects.apply)
        if effects.role is not None:
            self.roles.append(effects.role)
        for wanted in effects.log_reads:
            batches = self.disk.written.read(wanted.first, self.raft.log.last)
            self.raft.supply(wanted.to, tuple(batches[:1]))
        return effects

    def sync(self) -> None:
        """The oldest write becomes durable: what waited for it leaves, and the replica is told."""
        self.disk.sync()
        token, messages = self.waiting.popleft()
        self.out.extend(messages)
        self.raft.persisted(token)

    def run(self) -> None:
        """Take until there is nothing left to take, with a disk that is fast or (not `auto`) stands still."""
        while True:
            self.turn()
            while self.auto and self.waiting:
                self.sync()
            if not self.raft.awake:
                return

    def said(self) -> list[Message]:
        """What was sent since the last look."""
        messages, self.out = self.out, []
        return messages

    def hear(self, *messages: Message) -> list[Message]:
        """Step these messages in one turn; what is sent because of them."""
        self.said()
        for message in messages:
            self.raft.step(message)
            self.raft.check_invariants()
        self.run()
        return self.said()

    def synced(self) -> list[Message]:
        """Every pending write becomes durable; what is sent because of it."""
        self.said()
        while self.waiting:
            self.sync()
            self.run()
        return self.said()

    def tick(self, now: int) -> list[Message]:
        """Let it be `now`; what is sent because of it."""
        self.said()
        self.raft.tick(Millis(now))
        self.run()
        return self.said()

    def pass_time(self, milliseconds: int) -> list[Message]:
        return self.tick(self.clock.now + milliseconds)

    def campaign(self) -> list[Message]:
        self.said()
        self.raft.campaign()
        self.run()
        return self.said()

    def lead(self, *supporters: int) -> list[Message]:
        """Win an election with the votes of these nodes; what the new leader says first."""
        self.campaign()
        for pre in (True, False):
            self.said()
            term = self.raft.term + 1 if pre else self.raft.term
            for supporter in supporters:
                self.raft.step(vote(term, pre=pre, sender=supporter, to=self.id >> 32))
            self.run()
        assert self.role() is Role.LEADER
        return self.said()

    def role(self) -> Role:
        return self.raft.role

    def crash(self, keep: int = 0) -> None:
        """Lose what was not durable (but the first `keep` writes) and start again."""
        self.disk.crash(keep)
        self.start()

    def terms(self) -> list[int]:
        """The term of each offset from the first on, for logs that were not compacted."""
        terms = self.raft.log.terms
        return [term for offset in range(self.raft.log.last + 1) if (term := terms.term_at(Offset(offset))) is not None]


class Lab:
    """Several members and the messages between them, in the order in which they were sent."""

    def __init__(
        self,
        nodes: Iterable[int] = (1, 2, 3),
        *,
        settings: RaftSettings = SETTINGS,
        logs: dict[int, list[Batch]] | None = None,
        terms: dict[int, int] | None = None,
        commits: dict[int, int] | None = None,
    ) -> None:
        self.now = 0
        self.net: list[Message] = []
        self.members: dict[int, Member] = {}
        self.cut: set[tuple[int, int]] = set()
        self.settings = settings
        first = tuple(nodes)
        for node in first:
            self.members[node] = Member(
                node,
                voters=first,
                log=(logs or {}).get(node, ()),
                term=(terms or {}).get(node, 0),
                commit=(commits or {}).get(node, -1),
                settings=settings,
            )

    def __getitem__(self, node: int) -> Raft:
        return self.members[node].raft

    def join(self, node: int, incarnation: int) -> ReplicaId:
        """A new, empty replica that waits to be told who its group is."""
        member = Member(node, Disk(new_replica()), settings=self.settings)
        member.id = replica_id(node, incarnation)
        member.clock.now = Millis(self.now)
        member.start()
        self.members[node] = member
        return member.id

    def collect(self) -> list[Message]:
        """Let every member take its turns; everything that is on the way."""
        for member in self.members.values():
            member.run()
            self.net.extend(member.said())
        return self.net

    def drop(self, which: Callable[[Message], bool] = lambda _: True) -> list[Message]:
        """Lose messages that are on the way; which ones."""
        self.collect()
        lost = [message for message in self.net if which(message)]
        self.net = [message for message in self.net if not which(message)]
        return lost

    def deliver(self, which: Callable[[Message], bool] = lambda _: True) -> list[Message]:
        """Deliver what is on the way now (not the answers to it); which messages arrived."""
        self.collect()
        chosen = [message for message in self.net if which(message)]
        self.net = [message for message in self.net if not which(message)]
        arrived = []
        for message in chosen:
            sender, to = message.sender >> 32, message.to >> 32
            if (sender, to) not in self.cut and to in self.members:
                self.members[to].raft.step(message)
                arrived.append(message)
        self.collect()
        return arrived

    def settle(self) -> None:
        """Deliver until nobody has anything to say."""
        for _ in range(1000):
            if not self.collect():
                return
            self.deliver()
        raise AssertionError("the replicas never stop talking")

    def advance(self, milliseconds: int, step: int = 10) -> None:
        """Let time pass for everybody, and deliver everything that follows."""
        end = self.now + milliseconds
        while self.now < end:
            self.now = min(end, self.now + step)
            for member in self.members.values():
                member.raft.tick(Millis(self.now))
            self.settle()

    def isolate(self, *nodes: int) -> None:
        """Cut these nodes off from all others."""
        for inside in nodes:
            for outside in self.members.keys() - set(nodes):
                self.cut |= {(inside, outside), (outside, inside)}

    def heal(self) -> None:
        self.cut.clear()

    def elect(self, node: int) -> Raft:
        """Make this node the leader, with everything delivered."""
        self[node].campaign()
        self.settle()
        assert self.role(node) is Role.LEADER
        return self[node]

    def propose(self, node: int, payload: bytes = b"x", count: int = 1) -> Batch:
        """Propose and deliver everything that follows."""
        batch = self[node].propose(payload, count)
        self.settle()
        return batch

    def role(self, node: int) -> Role:
        return self[node].role

    def leaders(self) -> list[int]:
        return [node for node, member in self.members.items() if member.raft.role is Role.LEADER]

    def crash(self, node: int, keep: int = 0) -> None:
        self.members[node].crash(keep)
