"""The nemesis: at random moments it does one of the kinds of harm that the plan of the run allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.consensus.core import GroupId, Refused, Term
from tests.sim.plan import Fault

if TYPE_CHECKING:
    from tests.sim.machine import Host, Machine
    from tests.sim.world import World

MAX_CLOCK_JUMP_MS = 2_000


class Nemesis:
    """Harm, one piece at a time."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._active = False
        self._committed_in: dict[GroupId, Term] = {}
        """For each group, the last term in which a leader was seen to commit."""
        self._kinds = [fault for fault, weight in world.plan.faults for _ in range(weight)]

    def start(self) -> None:
        self._active = bool(self._kinds)
        self._again()

    def stop(self) -> None:
        self._active = False

    def _again(self) -> None:
        if self._active:
            self.world.at(self.world.now + 1 + self.world.random.randrange(2 * self.world.plan.fault_ms), self._strike)

    def _strike(self) -> None:
        if not self._active:
            return
        fault = self.world.random.choice(self._kinds)
        self.world.trace("fault: %s", fault.value)
        self.world.count(fault.value)
        getattr(self, "_" + fault.name.lower())()
        self._again()

    # The network.

    def _split(self) -> None:
        self.world.network.split()
        self._heal_later()

    def _one_way(self) -> None:
        self.world.network.one_way()
        self._heal_later()

    def _bridge(self) -> None:
        self.world.network.bridge()
        self._heal_later()

    def _isolate_leader(self) -> None:
        leader = self._some_leader()
        if leader is not None:
            self.world.network.isolate(self.world.machine_of(leader).number)
            self._heal_later()

    def _heal(self) -> None:
        self.world.network.heal()

    def _heal_later(self) -> None:
        """Cuts that last for ever teach little; the next one may come before this one is healed."""
        self.world.at(self.world.now + self.world.random.choice((100, 300, 1_500)), self.world.network.heal)

    # Machines.

    def _crash(self) -> None:
        self._kill(self.world.random.choice(self.world.machines))

    def _crash_leader(self) -> None:
        leader = self._some_leader()
        if leader is not None:
            self._kill(self.world.machine_of(leader))

    def _power_loss(self) -> None:
        for machine in self.world.machines:
            self._kill(machine)

    def _kill(self, machine: Machine) -> None:
        if machine.node is not None:
            machine.crash()
            self._break_connections(machine)
            pause = self.world.random.choice((1, 50, 400))
            self.world.at(self.world.now + self.world.random.randrange(1, pause + 1), self._revive, machine)

    def _break_connections(self, dead: Machine) -> None:
        """The kernel of a killed process says so to its peers; some hear it, at once or a little later. Some never do."""
        for machine in self.world.machines:
            if machine is not dead and self.world.random.random() < 0.7:
                self.world.at(self.world.now + self.world.random.randrange(20), machine.lose, dead.number)

    def _revive(self, machine: Machine) -> None:
        if machine.node is None:
            machine.start()

    def _pause(self) -> None:
        self._stop_for_a_while(self.world.random.choice(self.world.machines))

    def _pause_leader(self) -> None:
        leader = self._some_leader()
        if leader is not None:
            self._stop_for_a_while(self.world.machine_of(leader))

    def _stop_for_a_while(self, machine: Machine) -> None:
        machine.paused_until = self.world.now + self.world.random.randrange(10, 1_000)

    def _clock_jump(self) -> None:
        machine = self.world.random.choice(self.world.machines)
        machine.clock_ahead = self.world.random.randrange(MAX_CLOCK_JUMP_MS)
        machine.soon()

    # Disks.

    def _slow_disk(self) -> None:
        for host in self._some_machine_hosts():
            host.slow_until = self.world.now + self.world.random.randrange(50, 800)

    def _failed_sync(self) -> None:
        hosts = self._some_machine_hosts()
        if hosts:
            self.world.random.choice(hosts).fails_next = True

    def _some_machine_hosts(self) -> list[Host]:
        return list(self.world.random.choice(self.world.machines).hosts.values())

    # Raft's own moves.

    def _campaign(self) -> None:
        host = self._some_host()
        if host is not None and host.raft is not None and self._running(host):
            host.raft.campaign()
            self.world.machine_of(host).soon()

    def _transfer(self) -> None:
        leader = self._some_leader()
        if leader is None or leader.raft is None or not self._running(leader):
            return
        to = self.world.random.choice(sorted(leader.raft.configuration.members))
        try:
            leader.raft.transfer(to)
        except Refused:
            return
        self.world.machine_of(leader).soon()

    def _compact(self) -> None:
        host = self._some_leader() or self._some_host()
        if host is not None and self._running(host):
            self.world.machine_of(host).compact(host)

    def _members(self) -> None:
        self.world.operators.change_members()

    def _hunt(self) -> None:
        """Nothing now: the hunt begins when somebody is elected."""

    def elected(self, host: Host) -> None:
        """Somebody leads. Give it a moment, then take it away."""
        if self._active and Fault.HUNT in self._kinds and self.world.random.random() < 0.8:
            patience = self.world.random.choice((1, 1, 10, 40, 150))
            self.world.at(self.world.now + self.world.random.randrange(patience), self._strike_down, host)

    def committed(self, host: Host) -> None:
        """A leader has just committed something, and nobody else has heard of it: most of all the first time in a term."""
        if not self._active or Fault.HUNT not in self._kinds or host.raft is None or not host.leads():
            return
        first = host.raft.term != self._committed_in.get(host.oracle.group)
        self._committed_in[host.oracle.group] = host.raft.term
        if self.world.random.random() < (0.4 if first else 0.05):
            self.world.at(self.world.now, self._strike_down, host)

    def _strike_down(self, host: Host) -> None:
        machine = self.world.machine_of(host)
        if not self._active or not host.leads() or machine.node is None:
            return
        self.world.count("struck down")
        how = self.world.random.randrange(5)
        if how == 0:
            self._kill(machine)
        elif how == 1:
            self._stop_for_a_while(machine)
        elif how == 2:
            self._kill(machine)
            self._isolate_heir(host)
        else:
            self.world.network.isolate(machine.number)
            self._heal_later()

    def _isolate_heir(self, fallen: Host) -> None:
        """Cut off whoever has most of the log besides a leader that has just lost what it had not synced."""
        heirs = [host for host in fallen.oracle.hosts.values() if host is not fallen]
        heir = max(heirs, key=lambda host: host.disk.durable.last, default=None)
        if heir is not None:
            self.world.network.isolate(self.world.machine_of(heir).number)
            self._heal_later()

    def _running(self, host: Host) -> bool:
        return self.world.machine_of(host).running()

    def _some_leader(self) -> Host | None:
        return self.world.leader(self.world.random.choice(self.world.oracles))

    def _some_host(self) -> Host | None:
        oracle = self.world.random.choice(self.world.oracles)
        hosts = list(oracle.hosts.values())
        return self.world.random.choice(hosts) if hosts else None
