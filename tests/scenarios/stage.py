"""The cluster that a scenario drives: nodes, the network between them, and one clock.

Nothing moves by itself. Every method is one thing that a script can ask for; what follows from it is said in `lines`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from quorate.consensus.core import (
    Batch,
    BatchKind,
    Configuration,
    GroupId,
    HardState,
    Millis,
    Node,
    NodeMessage,
    Offset,
    Raft,
    RaftSettings,
    Refused,
    ReplicaId,
    Restored,
    Term,
    Token,
    new_group,
    new_replica,
    node_of,
    replica_id,
)
from quorate.consensus.core.effects import Persist
from tests.scenarios import show
from tests.scenarios.host import Host, Seat, Truth
from tests.scenarios.language import Mistake
from tests.scenarios.network import Choice, Network, ends

MANY = 2_000
"""More deliveries than any scenario needs: after so many it will never be quiet."""


class Stage:
    """A cluster at rest. One group, unless the script asks for more."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.now = Millis(0)
        self.hosts: dict[int, Host] = {}
        self.network = Network()
        self.groups: list[GroupId] = [GroupId(1)]
        self.settings = RaftSettings(commit_news_ms=0)  # a script shows each commit where it happens
        self.beat_ms = 0
        self._truth = Truth()
        self._indent = ""
        self._traffic: Counter[str] = Counter()

    # Speaking.

    def say(self, line: str) -> None:
        self.lines.append(self._indent + line)

    @contextmanager
    def below(self, heading: str) -> Iterator[None]:
        """Say the heading, and what happens inside below it."""
        self.say(heading)
        before, self._indent = self._indent, self._indent + "  "
        try:
            yield
        finally:
            self._indent = before

    @contextmanager
    def hushed(self) -> Iterator[None]:
        """Say nothing for a while."""
        spoken = len(self.lines)
        yield
        del self.lines[spoken:]

    # Finding.

    def host(self, number: int) -> Host:
        host = self.hosts.get(number)
        if host is None:
            raise Mistake(f"there is no node {number}; there are {' '.join(map(str, sorted(self.hosts))) or 'none yet'}")
        return host

    def raft(self, number: int, group: GroupId) -> Raft:
        """A replica that runs."""
        node = self.host(number).node
        if node is None:
            raise Mistake(f"node {number} is down")
        raft = node.groups.get(group)
        if raft is None:
            raise Mistake(f"node {number} has no group {group}")
        return raft

    def running(self) -> list[tuple[Host, Node]]:
        """The nodes that are up and not paused."""
        hosts = [host for _, host in sorted(self.hosts.items())]
        return [(host, host.node) for host in hosts if host.node is not None and not host.paused]

    def paused(self) -> set[int]:
        return {host.number for host in self.hosts.values() if host.paused}

    # Nodes.

    def add_nodes(self, count: int, groups: int) -> None:
        """Start a new cluster, all nodes voters."""
        if self.hosts:
            raise Mistake("the nodes are there already")
        if not 1 <= count <= 9:
            raise Mistake(f"a scenario has between 1 and 9 nodes, not {count}")
        self.groups = [GroupId(group + 1) for group in range(groups)]
        configuration = Configuration(voters=frozenset(replica_id(number + 1) for number in range(count)))
        for number in range(1, count + 1):
            host = self._new_host(number)
            for group in self.groups:
                host.seats[group] = Seat(group, replica_id(number), new_group(configuration))
            host.boot(self.now)

    def _new_host(self, number: int) -> Host:
        host = self.hosts[number] = Host(number, self.settings, self.beat_ms, self.say, self._truth)
        return host

    def new_replica(self, replica: ReplicaId) -> None:
        """A replica that knows nothing, in place of whatever its node had."""
        number = int(node_of(replica))
        host = self.hosts.get(number) or self._new_host(number)
        node = host.node or host.boot(self.now)
        for group in self.groups:
            if group in node.groups:
                node.remove(group)
            seat = host.seats[group] = Seat(group, replica, new_replica())
            host.seat_down(node, seat)
        self.turn(host)

    def given(self, number: int, terms: list[int], hard_state: HardState) -> None:
        """Begin with this log on a node's disk: one batch per term in the list."""
        host = self.host(number)
        seat = host.seats[self.groups[0]]
        image = seat.disk.durable
        fresh = Seat(seat.group, seat.replica, Restored(HardState(), image.start))
        batches = tuple(
            Batch(Offset(index), Offset(index), Term(term), BatchKind.DATA, f"{'xabcdefghijk'[term]}{index}".encode())
            for index, term in enumerate(terms)
        )
        token = Token(1, hard_state.term, Offset(len(terms) - 1), Term(terms[-1]))
        fresh.disk.write(Persist(token, True, hard_state, batches=batches))
        fresh.disk.sync()
        host.seats[seat.group] = fresh
        host.boot(self.now)

    def crash(self, number: int, keep: int) -> None:
        self.raft(number, self.groups[0])
        pending, kept = self.host(number).crash(keep)
        self.say(f"{number} crashes" + (f"; {kept} of {pending} unsynced writes survive" if pending else ""))

    def restart(self, number: int) -> None:
        host = self.host(number)
        if host.node is not None:
            raise Mistake(f"node {number} is up already")
        node = host.boot(self.now)
        for raft in node.groups.values():
            log = raft.log
            host.tell(
                raft,
                f"restarts with {show.hard_state(raft.hard_state())}, "
                f"log {show.place(log.last, log.last_term)} commit {show.offset(log.commit)}",
            )
        self.turn(host)

    # Inputs.

    def ask(self, number: int, group: GroupId, request: Callable[[Raft], str | None]) -> None:
        """Ask a replica for something; a refusal is said too."""
        raft = self.raft(number, group)
        try:
            done = request(raft)
        except Refused as refusal:
            self.say(f"refused: {refusal}")
        else:
            if done:
                self.host(number).tell(raft, done)
        self.turn(self.host(number))

    def turn(self, host: Host) -> None:
        host.turn(self.network.flying.append)

    # Disks.

    def sync(self, number: int, count: int | None) -> None:
        host = self.host(number)
        done = sum(host.sync(group, count, self.network.flying.append) for group in host.seats)
        if not done:
            self.say(f"{number} has nothing to sync")
        self.turn(host)

    def fail_sync(self, number: int, group: GroupId) -> None:
        raft, host = self.raft(number, group), self.host(number)
        seat = host.seats[group]
        if not seat.disk.pending:
            raise Mistake(f"node {number} has no write that could fail; use 'disk manual' first")
        # What a failed write left behind is anybody's guess. Here: nothing.
        seat.disk.crash()
        seat.waiting.clear()
        raft.stop("a write failed")
        self.turn(host)

    # The network.

    def deliver(self, messages: Iterable[NodeMessage], *, quiet: bool = False) -> None:
        """Let messages arrive, or be lost where a link is cut or nobody is there."""
        for message in messages:
            host = self.hosts.get(ends(message)[1])
            lost = self.network.is_cut(message) or host is None or host.node is None
            self._traffic[f"{show.kind(message)}{' lost' if lost else ''}"] += 1
            if quiet:
                if not lost:
                    self._arrive(message, quiet=True)
            elif lost:
                self.say(f"lost {self._named(message)}")
            else:
                with self.below(self._named(message)):
                    self._arrive(message, quiet=False)

    def deliver_together(self, messages: list[NodeMessage]) -> None:
        """Let messages arrive in one turn of each receiver, as when many wait in one socket."""
        for number in sorted({ends(message)[1] for message in messages}):
            host = self.hosts.get(number)
            mine = [message for message in messages if ends(message)[1] == number]
            lost = [message for message in mine if host is None or host.node is None or self.network.is_cut(message)]
            for message in mine:
                self.say(("lost " if message in lost else "") + self._named(message))
                if message not in lost and host is not None and host.node is not None:
                    host.node.step(message)
            if host is not None:
                with self.below("then"):
                    self.turn(host)
                if self.lines[-1].strip() == "then":
                    self.lines.pop()

    def _named(self, message: NodeMessage) -> str:
        group = getattr(message, "group", None)
        return f"g{group} {show.message(message)}" if group is not None and len(self.groups) > 1 else show.message(message)

    def _arrive(self, message: NodeMessage, *, quiet: bool) -> None:
        host = self.hosts[ends(message)[1]]
        assert host.node is not None
        raft = host.node.groups.get(getattr(message, "group", GroupId(0)))
        ignored = raft.ignored if raft is not None else 0
        host.node.step(message)
        if raft is not None and raft.ignored > ignored and not quiet:
            host.tell(raft, "ignores it")
        self.turn(host)

    def settle(self, choice: Choice, *, quiet: bool) -> None:
        """Deliver one message after the other until none of those that are meant is in flight."""
        for _ in range(MANY):
            messages = self.network.take(replace(choice, count=1), self.paused())
            if not messages:
                return
            self.deliver(messages, quiet=quiet)
        raise Mistake(f"it is not quiet after {MANY} messages")

    def show_messages(self, messages: list[NodeMessage], what: str = "") -> None:
        for message in messages:
            self.say(what + self._named(message))
        if not messages:
            self.say("nothing")

    # Time.

    def advance(self, millis: int, *, deliver: bool) -> None:
        """Let time pass, deadline by deadline; with `deliver`, messages arrive at once and only their number is told."""
        self._traffic.clear()
        target = Millis(self.now + millis)
        while True:
            due = min((node.next_deadline() for _, node in self.running()), default=target)
            self.now = max(self.now, min(due, target))
            spoken = len(self.lines)
            with self.below(f"at {self.now}"):
                for host, node in self.running():
                    node.tick(self.now)
                    self.turn(host)
                if deliver:
                    self.settle(Choice(), quiet=True)
            if len(self.lines) == spoken + 1:
                del self.lines[spoken:]
            if self.now == target:
                break
        if deliver and self._traffic:
            self.say("messages: " + ", ".join(f"{count} {name}" for name, count in sorted(self._traffic.items())))
