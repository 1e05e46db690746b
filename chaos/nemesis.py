"""A nemesis: from names, a seed and a duration to a schedule of faults, and the schedule carried out.

The schedule is drawn before anything runs and depends on nothing but the names, the seed, the seconds and the nodes'
numbers: print it, and the same command does the same again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from quorate.chaos.admin import AdminRefused
from quorate.chaos.api import FaultEvent, Nemesis, Phase, PlannedFault, System
from quorate.chaos.cluster import ClusterUnderTest
from quorate.chaos.faults.api import Drawn, Fault, LinkFault, minority
from quorate.chaos.faults.clock import Drift, Jump
from quorate.chaos.faults.disk import Failing, Full, Rot, Slow
from quorate.chaos.faults.members import Drain, Exchange, Rebalance
from quorate.chaos.faults.network import Bridge, Flap, OneWay, Partition, Toxics
from quorate.chaos.faults.process import HandOver, Kill, Pause, Power, SlowStart, Storm
from quorate.chaos.links import Links

NEMESES: Final[Mapping[str, Sequence[Fault]]] = {
    "partition": (Partition(),),
    "asymmetric": (OneWay(),),
    "bridge": (Bridge(),),
    "flap": (Flap(),),
    "slow-net": (Toxics(),),
    "kill": (Kill(), SlowStart()),
    "pause": (Pause(),),
    "storm": (Storm(),),
    "power": (Power(),),
    "disk-full": (Full(),),
    "slow-disk": (Slow(),),
    "disk-error": (Failing(),),
    "corrupt": (Rot(),),
    "clock": (Jump(),),
    "drift": (Drift(),),
    "members": (Drain(), Rebalance(), HandOver(), Exchange()),
    "none": (),
}
MIX: Final = "mix"
NAMES: Final = (*NEMESES, MIX)

_REMOTE: Final = Toxics(clients_only=True)
FAULTS: Final[Mapping[str, Fault]] = {fault.kind: fault for faults in NEMESES.values() for fault in faults}
_QUIET_S: Final = (1.0, 4.0)
"""Between the end of one fault and the beginning of the next in the same lane."""
_LANES: Final = 2
"""So many faults at once, if several nemeses were asked for."""
_IN_A_ROW_S: Final = 20.0
_REST_S: Final = 3.0
"""With several faults at once a node that was hurt for so long has a rest of so long. Those of one time have to share their
victims, because no more than a minority may be hurt: without a rest one node would stay down, and the others well."""
_TRIES: Final = 30
_EXPECTED: Final = (OSError, RuntimeError, TimeoutError, ValueError)
"""What a fault may fail with without ending the run: it is said, and the next one has its turn."""


class BadNemesis(ValueError):
    """A nemesis that there is not, or that cannot do anything to this system."""


def make_nemesis(names: Sequence[str], seed: int, seconds: float, system: System) -> Nemesis:
    """Plan for a system that has started. Raises BadNemesis."""
    for name in names:
        if name not in NAMES:
            raise BadNemesis(f"there is no nemesis {name!r}; there are {', '.join(NAMES)}")
    local = isinstance(system, ClusterUnderTest)
    chosen = list(dict.fromkeys(one for name in names for one in (NEMESES if name == MIX else [name]) if NEMESES[one]))
    faults: dict[str, Sequence[Fault]]
    if not local:
        for name in chosen:
            if name != "slow-net" and MIX not in names:
                raise BadNemesis(f"{name} needs a cluster that chaos has started itself; against a running one: slow-net")
        faults = {"slow-net": (_REMOTE,)} if chosen else {}
    else:
        faults = {name: NEMESES[name] for name in chosen}
    return Schedule(plan_faults(faults, seed, seconds, sorted(system.nodes)))


def plan_faults(
    nemeses: Mapping[str, Sequence[Fault]], seed: int, seconds: float, nodes: Sequence[int]
) -> list[PlannedFault]:
    """The schedule. At no time are more than a minority of nodes hurt, but by faults that may hurt all."""
    rng = Random(f"{seed} {' '.join(nemeses)} {len(nodes)}")
    planned: list[tuple[PlannedFault, Fault]] = []
    if nemeses:
        free_at = [round(rng.uniform(*_QUIET_S), 2) for _ in range(min(_LANES, len(nemeses)))]
        while True:
            lane = free_at.index(min(free_at))
            fault = rng.choice(nemeses[rng.choice(sorted(nemeses))])
            at_s, until_s = free_at[lane], round(free_at[lane] + rng.uniform(*fault.lasts_s), 2)
            if until_s > seconds:
                break
            spared = _worn_out(planned, at_s) if len(free_at) > 1 else frozenset[int]()
            drawn = _draw(rng, fault, nodes, at_s, until_s, planned, spared)
            if drawn is None:
                free_at[lane] = round(at_s + rng.uniform(*_QUIET_S), 2)
                continue
            one = PlannedFault(at_s=at_s, until_s=until_s, kind=fault.kind, target=drawn.target, parameters=drawn.parameters)
            planned.append((one, fault))
            free_at[lane] = round(until_s + rng.uniform(*_QUIET_S), 2)
    return sorted((one for one, _ in planned), key=lambda one: one.at_s)


def _draw(
    rng: Random,
    fault: Fault,
    nodes: Sequence[int],
    at_s: float,
    until_s: float,
    planned: Sequence[tuple[PlannedFault, Fault]],
    spared: frozenset[int],
) -> Drawn | None:
    """Draw until it goes together with what is planned for the same time, and spares who needs a rest."""
    meanwhile = [(one, other) for one, other in planned if one.at_s < until_s + _QUIET_S[0] and at_s < one.until_s]
    hurt = {node for one, other in meanwhile if other.fatal_to_majority for node in other.victims(one.parameters)}
    taken = {claim for one, other in meanwhile for claim in other.claims(one.parameters)}
    scarred = {node for one, other in planned if other.scars for node in other.victims(one.parameters)}
    for _ in range(_TRIES):
        drawn = fault.draw(rng, nodes)
        victims = fault.victims(drawn.parameters)
        if fault.claims(drawn.parameters) & taken:
            continue
        if fault.fatal_to_majority and (victims & spared or len(victims | hurt) > minority(nodes)):
            continue
        if fault.scars and len(victims | scarred) > minority(nodes):
            continue
        return drawn
    return None


def _worn_out(planned: Sequence[tuple[PlannedFault, Fault]], at_s: float) -> frozenset[int]:
    """The nodes that have been hurt for long, with no more than short breaks."""
    hurt_since: dict[int, float] = {}
    for one, fault in sorted(planned, key=lambda pair: pair[0].until_s, reverse=True):
        for node in fault.victims(one.parameters) if fault.fatal_to_majority else ():
            since = hurt_since.setdefault(node, at_s)
            if one.until_s + _REST_S > since:
                hurt_since[node] = min(since, one.at_s)
    return frozenset(node for node, since in hurt_since.items() if at_s - since > _IN_A_ROW_S)


class Schedule:
    """Fits `Nemesis`: a plan, and how to carry it out."""

    def __init__(self, planned: Sequence[PlannedFault]) -> None:
        self._planned = list(planned)

    def plan(self) -> Sequence[PlannedFault]:
        return self._planned

    async def run(self, system: System, say: Callable[[FaultEvent], None]) -> None:
        """Carry it out; returns when the last fault has ended. When cancelled, every fault ends at once."""
        begun = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as tasks:
            for one in self._planned:
                tasks.create_task(_carry_out(one, system, say, begun), name=one.kind)


async def _carry_out(one: PlannedFault, system: System, say: Callable[[FaultEvent], None], begun: float) -> None:
    def tell(phase: Phase, more: str = "") -> None:
        text = f"{one.target}: {more}" if more else one.target
        say(FaultEvent(time_ns=time.monotonic_ns(), kind=one.kind, phase=phase, text=text))

    loop = asyncio.get_running_loop()
    await asyncio.sleep(max(0.0, begun + one.at_s - loop.time()))
    fault = FAULTS[one.kind]
    try:
        if isinstance(system, ClusterUnderTest):
            inflicted = fault.inflict(system, one.parameters)
        elif isinstance(fault, LinkFault) and isinstance(links := getattr(system, "links", None), Links):
            inflicted = fault.inflict(_Only(links), one.parameters)
        else:
            raise AdminRefused("this cannot be done to a running cluster")
        async with inflicted:
            tell("begin")
            await asyncio.sleep(max(0.0, begun + one.until_s - loop.time()))
        tell("end")
    except _EXPECTED as error:
        tell("failed", f"{type(error).__name__}: {error}".splitlines()[0][:300])


@dataclass(frozen=True, slots=True)
class _Only:
    """Links, and nothing else."""

    links: Links


def show(one: PlannedFault) -> str:
    """A line for people."""
    return f"{one.at_s:7.2f} s to {one.until_s:7.2f} s  {one.kind}: {one.target}"
