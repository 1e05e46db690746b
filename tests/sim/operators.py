"""Those who want something of the cluster: clients that propose and read, operators who change members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.consensus.core import BadRequest, Raft, Refused, ReplicaId, new_replica, node_of, replica_id
from quorate.consensus.core.types import incarnation_of, show_replica
from tests.sim.oracle import Violation

if TYPE_CHECKING:
    from tests.sim.machine import Host
    from tests.sim.world import World


class Operators:
    """Clients and operators. They keep asking until they are stopped."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._active = False
        self._written = 0
        self._incarnations = [1] * len(world.oracles)
        """The highest incarnation that was ever handed out, for each group."""
        self._gone: list[set[ReplicaId]] = [set() for _ in world.oracles]
        """Replicas that were members and are no longer."""

    def start(self) -> None:
        self._active = True
        self._propose()
        self._read()

    def stop(self) -> None:
        self._active = False

    def _propose(self) -> None:
        if not self._active:
            return
        world = self.world
        host = self._somebody()
        if host is not None:
            self._written += 1
            data = b"%d" % self._written
            if world.random.random() < 0.2:
                data += bytes(world.random.randrange(400))
            world.machine_of(host).propose(host, data, world.random.choice((1, 1, 1, 2, 5)))
        world.at(world.now + 1 + world.random.randrange(2 * world.plan.propose_ms), self._propose)

    def _read(self) -> None:
        if not self._active:
            return
        world = self.world
        host = self._somebody()
        if host is not None:
            world.machine_of(host).read(host)
        world.at(world.now + 1 + world.random.randrange(2 * world.plan.read_ms), self._read)

    def _somebody(self) -> Host | None:
        """Mostly whoever believes to lead, an outdated leader too; sometimes anybody."""
        oracle = self.world.random.choice(self.world.oracles)
        hosts = list(oracle.hosts.values())
        leading = [host for host in hosts if host.leads()]
        if leading and self.world.random.random() < 0.95:
            return self.world.random.choice(leading)
        return self.world.random.choice(hosts) if hosts else None

    # Members.

    def change_members(self) -> None:
        """One change, of a random kind, asked of a leader."""
        world = self.world
        index = world.random.randrange(len(world.oracles))
        oracle = world.oracles[index]
        leading = [host for host in oracle.hosts.values() if host.leads()]
        if not leading:
            return
        leader = world.random.choice(leading)
        if leader.raft is None or not world.machine_of(leader).running():
            return
        raft = leader.raft
        moves = [self._add, self._remove, self._demote, self._reuse]
        if raft.configuration.learners:
            moves += [self._promote, self._promote, self._promote, self._replace]
        world.random.choice(moves)(index, leader, raft)
        self._gone[index] |= {replica for replica in oracle.hosts if replica not in raft.configuration.members}

    def _ask(self, leader: Host, raft: Raft, voters: set[ReplicaId], learners: set[ReplicaId]) -> bool:
        try:
            raft.change_members(voters, learners)
        except BadRequest:
            self.world.count("bad change")
            return False
        except Refused:
            return False
        self.world.count("change of members")
        self.world.machine_of(leader).soon()
        return True

    def _add(self, index: int, leader: Host, raft: Raft) -> None:
        """A new replica, as a learner, on a node that has none (or none any more)."""
        configuration = raft.configuration
        taken = {node_of(replica) for replica in configuration.members | raft.log.history.at(raft.log.commit).members}
        free = [number for number in range(1, len(self.world.machines) + 1) if number not in taken]
        if not free or configuration.joint:
            return
        node = self.world.random.choice(free)
        self._incarnations[index] += 1
        replica = replica_id(node, self._incarnations[index])
        if self._ask(leader, raft, set(configuration.voters), {*configuration.learners, replica}):
            self.world.machines[node - 1].host(self.world.oracles[index], replica, new_replica())

    def _promote(self, _index: int, leader: Host, raft: Raft) -> None:
        configuration = raft.configuration
        if configuration.learners:
            replica = self.world.random.choice(sorted(configuration.learners))
            self._ask(leader, raft, {*configuration.voters, replica}, set(configuration.learners) - {replica})

    def _remove(self, _index: int, leader: Host, raft: Raft) -> None:
        configuration = raft.configuration
        replica = self.world.random.choice(sorted(configuration.members))
        voters, learners = set(configuration.voters) - {replica}, set(configuration.learners) - {replica}
        if len(voters) >= 2 or self.world.random.random() < 0.3:
            self._ask(leader, raft, voters, learners)

    def _demote(self, _index: int, leader: Host, raft: Raft) -> None:
        configuration = raft.configuration
        replica = self.world.random.choice(sorted(configuration.members))
        self._ask(leader, raft, set(configuration.voters) - {replica}, {*configuration.learners, replica})

    def _replace(self, _index: int, leader: Host, raft: Raft) -> None:
        """A learner takes a voter's place, in one joint change."""
        configuration = raft.configuration
        if configuration.learners and configuration.voters:
            new = self.world.random.choice(sorted(configuration.learners))
            old = self.world.random.choice(sorted(configuration.voters))
            self._ask(leader, raft, (set(configuration.voters) - {old}) | {new}, set(configuration.learners) - {new})

    def _reuse(self, index: int, leader: Host, raft: Raft) -> None:
        """A careless operator wipes a replica that was removed and wants it back under its old id. It must be refused."""
        configuration, oracle = raft.configuration, self.world.oracles[index]
        members = configuration.members | raft.log.history.at(raft.log.commit).members
        taken = {node_of(replica) for replica in members}
        gone = sorted(replica for replica in self._gone[index] if node_of(replica) not in taken and replica in oracle.hosts)
        if gone and not configuration.joint:
            replica = self.world.random.choice(gone)
            machine = self.world.machines[node_of(replica) - 1]
            used = incarnation_of(replica) <= configuration.generation
            if self._ask(leader, raft, set(configuration.voters), {*configuration.learners, replica}):
                # One whose addition was rolled back was never a member. Any other may have voted, and has forgotten it.
                if used:
                    raise Violation(f"{show_replica(replica)} was a member before, and is taken in again")
                if machine.node is not None:
                    machine.crash()
                machine.host(oracle, replica, new_replica())
                machine.start()
