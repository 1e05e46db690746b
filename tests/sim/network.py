"""The network between machines: it loses, doubles, delays and reorders, and it can be cut, in one direction too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.consensus.core import NodeId, NodeMessage

if TYPE_CHECKING:
    from tests.sim.world import World


class Network:
    """Every message between two machines passes here."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.cut: set[tuple[int, int]] = set()
        """The directed links that carry nothing now."""

    def send(self, sender: NodeId, to: NodeId, message: NodeMessage) -> None:
        """Carry one message, or lose it."""
        world, plan = self.world, self.world.plan
        random = world.random.random
        if world.healed:
            return self._deliver_in(1, sender, to, message)
        if (sender, to) in self.cut or random() < plan.loss:
            world.trace("lost %s -> %s %s", sender, to, message)
            return None
        if plan.double and random() < plan.double:
            # The copy was under way on some other path: no later cut stops it.
            world.at(world.now + 1 + world.random.randrange(plan.echo_ms), world.machines[to - 1].receive, message)
        return self._deliver_in(self._delay_ms(), sender, to, message)

    def _delay_ms(self) -> int:
        world, plan = self.world, self.world.plan
        if plan.slow and world.random.random() < plan.slow:
            return world.random.randrange(plan.slow_ms)
        return 1 + world.random.randrange(4)

    def _deliver_in(self, delay_ms: int, sender: NodeId, to: NodeId, message: NodeMessage) -> None:
        self.world.at(self.world.now + delay_ms, self._arrive, sender, to, message)

    def _arrive(self, sender: NodeId, to: NodeId, message: NodeMessage) -> None:
        """What was under way when a link was cut is lost too."""
        if (sender, to) in self.cut:
            self.world.trace("lost %s -> %s %s", sender, to, message)
        else:
            self.world.machines[to - 1].receive(message)

    # Ways to cut it.

    def heal(self) -> None:
        self.cut.clear()

    def split(self) -> None:
        """Two sides that do not hear each other."""
        side = self._some_machines()
        self.cut = {(a, b) for a in self._all() for b in self._all() if (a in side) != (b in side)}

    def one_way(self) -> None:
        """Some links carry nothing in one direction."""
        random = self.world.random
        self.cut = {(a, b) for a in self._all() for b in self._all() if a != b and random.random() < 0.3}

    def bridge(self) -> None:
        """Two sides that only one machine hears both of."""
        side = self._some_machines()
        middle = self.world.random.choice(self._all())
        self.cut = {(a, b) for a in self._all() for b in self._all() if middle not in (a, b) and (a in side) != (b in side)}

    def isolate(self, number: int) -> None:
        """One machine hears nobody, and nobody hears it; or only one of the two."""
        inward, outward = self.world.random.choice(((True, True), (True, False), (False, True)))
        self.cut = {(a, number) for a in self._all() if inward} | {(number, a) for a in self._all() if outward}

    def _all(self) -> range:
        return range(1, len(self.world.machines) + 1)

    def _some_machines(self) -> set[int]:
        everybody = list(self._all())
        return set(self.world.random.sample(everybody, self.world.random.randrange(1, len(everybody))))
