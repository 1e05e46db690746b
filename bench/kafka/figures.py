"""Everything that one call has measured: summed up over rounds, compared with the aims, and as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from bench.kafka.growth import Growth
from bench.kafka.job import percentile
from bench.kafka.readings import WHAT, Gap, Latency, Throughput
from bench.machine import Machine

AIM_KAFKA = 1.0
AIM_NATS = 3.0
AIM_GAP_MS = 500.0
AIM_SIZE = 100


@dataclass(frozen=True, kw_only=True)
class Aim:
    """One aim, and what was seen; `met` is None where one side was not measured."""

    text: str
    seen: str
    met: bool | None

    @property
    def verdict(self) -> str:
        if self.met is None:
            return "not measured"
        return "met" if self.met else "NOT met"


@dataclass(kw_only=True)
class Figures:
    """All readings, in the order in which they were made."""

    machine: Machine
    quick: bool
    throughput: list[Throughput] = field(default_factory=list)
    latency: list[Latency] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    growth: list[Growth] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    """Peers that cannot be had here or gave up, and why."""

    def rates(self, system: str, size: int) -> dict[str, float]:
        """Per load, the median of the rounds in messages a second."""
        readings = [one for one in self.throughput if one.system == system and one.size == size]
        loads = dict.fromkeys(one.load for one in readings)
        return {load: median(one.per_s for one in readings if one.load == load) for load in loads}

    def p99_ms(self, system: str, what: str) -> float | None:
        """The median of the rounds; None if there was none."""
        seen = [one.p99_ms for one in self.latency if (one.system, one.what) == (system, what)]
        return median(seen) if seen else None

    def gaps_ms(self, system: str) -> list[float]:
        return sorted(gap.gap_ms for gap in self.gaps if gap.system == system)


def aims(figures: Figures) -> list[Aim]:
    """Each aim with what this run says about it."""
    return [
        *_against_kafka(figures),
        _against_nats(figures),
        *(_p99(figures, what) for what in WHAT),
        _failover(figures),
    ]


def _against_kafka(figures: Figures) -> list[Aim]:
    """The same load on both sides: one aim per load."""
    ours, theirs = figures.rates("quorate", AIM_SIZE), figures.rates("kafka", AIM_SIZE)
    loads = list(ours) or ["defaults"]
    return [
        _ratio(
            f"{AIM_SIZE} B, {load}: at least {AIM_KAFKA:g} x Kafka as shipped", ours.get(load), theirs.get(load), AIM_KAFKA
        )
        for load in loads
    ]


def _against_nats(figures: Figures) -> Aim:
    """Its client has one load, which is compared with the slower of ours."""
    ours, theirs = figures.rates("quorate", AIM_SIZE), figures.rates("nats", AIM_SIZE)
    text = f"{AIM_SIZE} B: at least {AIM_NATS:g} x NATS with sync always"
    return _ratio(text, min(ours.values(), default=None), min(theirs.values(), default=None), AIM_NATS)


def _ratio(text: str, ours: float | None, theirs: float | None, least: float) -> Aim:
    if ours is None or theirs is None:
        return Aim(text=text, seen="", met=None)
    ratio = ours / theirs
    return Aim(text=text, seen=f"{ratio:.2f} x ({ours:,.0f} and {theirs:,.0f} messages/s)", met=ratio >= least)


def _p99(figures: Figures, what: str) -> Aim:
    text = f"p99, {WHAT[what]}: no worse than NATS with sync always"
    ours, theirs = figures.p99_ms("quorate", what), figures.p99_ms("nats", what)
    if ours is None or theirs is None:
        return Aim(text=text, seen="", met=None)
    return Aim(text=text, seen=f"{ours:.1f} ms and {theirs:.1f} ms", met=ours <= theirs)


def _failover(figures: Figures) -> Aim:
    """Every gap counts, not only the median; a gap that never ended is NaN."""
    text = f"failover gap under {AIM_GAP_MS / 1e3:g} s"
    gaps = figures.gaps_ms("quorate")
    if not gaps:
        return Aim(text=text, seen="", met=None)
    if any(map(math.isnan, gaps)):
        return Aim(text=text, seen="nothing was acknowledged after a kill", met=False)
    seen = f"p50 {percentile(gaps, 0.5):.0f} ms, worst {max(gaps):.0f} ms of {len(gaps)} kills"
    return Aim(text=text, seen=seen, met=all(gap < AIM_GAP_MS for gap in gaps))


def as_json(figures: Figures) -> str:
    """Every reading, and the aims."""
    said = [{**asdict(aim), "verdict": aim.verdict} for aim in aims(figures)]
    return json.dumps(_plain({**asdict(figures), "aims": said}), indent=2)


def _plain(value: Any) -> Any:
    """JSON has no NaN: what was not seen is null."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and math.isnan(value) else value
