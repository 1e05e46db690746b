"""One run: virtual time, the machines, the oracles of their groups, and how a run begins and ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

from quorate.consensus.core import (
    Configuration,
    GroupId,
    Offset,
    Raft,
    Refused,
    new_group,
    replica_id,
)
from tests.sim.faults import Nemesis
from tests.sim.machine import Host, Machine
from tests.sim.network import Network
from tests.sim.operators import Operators
from tests.sim.oracle import Oracle, Violation
from tests.sim.plan import Plan

SETTLE_MS = 30_000
"""After everything is healed, how long the groups may take until all is well."""
MAX_EVENTS = 400_000
"""A run that needs more is going round in circles."""


class World:
    """Everything in one run. Deterministic: the same plan and class give the same run, event for event."""

    def __init__(self, plan: Plan, raft_class: type[Raft] = Raft, *, tracing: bool = False) -> None:
        self.plan = plan
        self.raft_class = raft_class
        self.random = Random(plan.seed ^ 0x5EED)
        self.now = 0
        self.healed = False
        """Whether the faults are over: the network and the disks do as they should."""
        self.counts: Counter[str] = Counter()
        self.lines: list[str] | None = [] if tracing else None
        self._events: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._number = 0
        self.network = Network(self)
        self.machines = [Machine(self, number) for number in range(1, plan.nodes + 1)]
        self.oracles: list[Oracle] = []
        for index, nodes in enumerate(plan.replicas):
            oracle = Oracle(GroupId(index + 1))
            self.oracles.append(oracle)
            voters = frozenset(replica_id(node) for node in nodes)
            for node in nodes:
                self.machines[node - 1].host(oracle, replica_id(node), new_group(Configuration(voters=voters)))
        self.operators = Operators(self)
        self.nemesis = Nemesis(self)

    def at(self, time: int, call: Callable[..., None], *arguments: object) -> None:
        """Do something at a time, after everything that was planned for that time before."""
        self._number += 1
        heappush(self._events, (time, self._number, call, arguments))

    def count(self, what: str, happened: bool = True) -> None:
        """Keep a tally, so that a test can see that a run was worth running."""
        if happened:
            self.counts[what] += 1

    def trace(self, text: str, *arguments: object) -> None:
        """Note down what happens, if anybody wants to read it."""
        if self.lines is not None:
            self.lines.append(f"{self.now:>6} " + text % arguments)

    # A run.

    def run(self) -> None:
        """The whole run. Raises Violation."""
        try:
            for machine in self.machines:
                machine.start()
            self.operators.start()
            self.nemesis.start()
            self._until(self.plan.until_ms)
            self._settle()
        except Violation as violation:
            raise Violation(f"at {self.now} ms: {violation}") from violation

    def _until(self, time: int, stop: Callable[[], bool] | None = None) -> bool:
        """Let events happen up to a time; whether `stop` ended it before."""
        events, tracing = self._events, self.lines is not None
        while events and events[0][0] <= time:
            self.now, number, call, arguments = heappop(events)
            if tracing:
                self.trace("%s %s", _name(call), ", ".join(map(str, arguments)))
            if number > MAX_EVENTS:
                raise Violation(f"more than {MAX_EVENTS} events")
            call(*arguments)
            if stop is not None and stop():
                return True
        self.now = time
        return False

    def _settle(self) -> None:
        """Heal everything, and require that every group makes progress and that all members agree."""
        self.nemesis.stop()
        self.operators.stop()
        self.network.heal()
        self.healed = True
        for machine in self.machines:
            machine.paused_until = min(machine.paused_until, self.now)
            for host in machine.hosts.values():
                host.slow_until = 0
                host.fails_next = False
            if machine.node is None:
                machine.start()
        deadline = self.now + SETTLE_MS
        goals = {oracle.group: Offset(-1) for oracle in self.oracles}
        for oracle in self.oracles:
            if not self._until(deadline, lambda oracle=oracle: self._served(oracle, goals)):  # type: ignore[misc]
                raise Violation(f"group {oracle.group} made no progress for {SETTLE_MS} ms after everything was healed")
        if not self._until(deadline, lambda: all(self._converged(oracle, goals) for oracle in self.oracles)):
            raise Violation(f"members did not catch up for {SETTLE_MS} ms after everything was healed")
        for oracle in self.oracles:
            for host in self._members(oracle):
                oracle.finished(host)

    def _served(self, oracle: Oracle, goals: dict[GroupId, Offset]) -> bool:
        """Whether a batch that was proposed after healing is committed; proposes one where there is a leader."""
        if 0 <= goals[oracle.group] <= oracle.last:
            return True
        leader = self.leader(oracle)
        if leader is not None and leader.raft is not None and not leader.proposals:
            try:
                batch = leader.raft.propose(b"last", 1)
            except Refused:
                return False
            leader.proposals[batch.base] = batch
            goals[oracle.group] = batch.last
            self.machine_of(leader).soon()
        return False

    def _converged(self, oracle: Oracle, goals: dict[GroupId, Offset]) -> bool:
        leader = self.leader(oracle)
        if leader is None or leader.raft is None or leader.raft.configuration.joint or oracle.last < goals[oracle.group]:
            return False
        last = oracle.last
        return all(
            host.raft is not None and host.raft.log.applied >= last and host.disk.durable.last >= last
            for host in self._members(oracle)
        )

    # Looking around.

    def leader(self, oracle: Oracle) -> Host | None:
        """The leader of the highest term among those that believe they lead."""
        leading = [host for host in oracle.hosts.values() if host.leads()]
        return max(leading, key=lambda host: host.raft.term if host.raft else 0, default=None)

    def machine_of(self, host: Host) -> Machine:
        return self.machines[(host.replica >> 32) - 1]

    def _members(self, oracle: Oracle) -> list[Host]:
        leader = self.leader(oracle)
        assert leader is not None
        assert leader.raft is not None
        return [oracle.hosts[replica] for replica in sorted(leader.raft.configuration.members)]


def _name(call: Callable[..., None]) -> str:
    owner = getattr(call, "__self__", None)
    number = getattr(owner, "number", "")
    return f"[{number}] {call.__name__}" if number else call.__name__
