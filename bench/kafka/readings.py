"""One visit to one system: it is started, warmed up, measured and stopped. Only one system runs at a time."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.kafka.job import PATIENCE_S, Spec
from bench.kafka.run import ClientFailed, client, hear, run_job, tell
from bench.kafka.systems import TITLES, Load, System, make

PACED_RATE = 1_000
WHAT = {
    "single": "one at a time, acknowledged",
    "acknowledged": "1,000/s, acknowledged",
    "end to end": "1,000/s, produce to consumer",
    "acknowledged, linger 0": "1,000/s, linger 0, acknowledged",
    "end to end, linger 0": "1,000/s, linger 0, produce to consumer",
}

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How long, how often."""

    rounds: int
    sizes: tuple[int, ...]
    seconds: float
    """Of one throughput reading."""
    latency_seconds: float
    warm_seconds: float
    linger_0: bool
    """Whether the steady load is also offered without waiting for company: a request per message."""
    kills: dict[str, int]
    """Per system: after the leader of Kafka dies, others wait for it for nine seconds, so it is killed less often."""


QUICK = Plan(
    rounds=1,
    sizes=(100,),
    seconds=1.5,
    latency_seconds=1.5,
    warm_seconds=1.5,
    linger_0=False,
    kills={"quorate": 3, "kafka": 1, "kafka-fsync": 0, "nats": 1},
)
FULL = Plan(
    rounds=2,
    sizes=(100, 1_024),
    seconds=2.5,
    latency_seconds=2.0,
    warm_seconds=3.0,
    linger_0=True,
    kills={"quorate": 6, "kafka": 2, "kafka-fsync": 0, "nats": 3},
)


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """One throughput reading: produced as fast as it goes, acknowledged by all, then consumed to the last message."""

    system: str
    round: int
    size: int
    load: str
    per_s: float
    mb_per_s: float
    p50_ms: float
    p99_ms: float
    consumed_per_s: float
    cpu_per_million: float
    """Seconds of processor time of all servers per million messages produced and consumed."""
    client_share: float
    """Of one core that the producing client used: near 1 it is the client that is measured."""
    missing: int
    """Acknowledged and not found again."""


@dataclass(frozen=True, kw_only=True)
class Latency:
    """One latency reading; `what` is one of WHAT."""

    system: str
    round: int
    what: str
    messages: int
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, kw_only=True)
class Gap:
    """One kill -9 of the leader."""

    system: str
    gap_ms: float


@contextmanager
def running(name: str, folder: Path, plan: Plan, say: Say) -> Iterator[System]:
    """A system, started and warm; stopped and its folder removed afterwards. Raises NotHere."""
    home = folder / name
    system = make(name, home)
    try:
        say(f"{TITLES[name]}: starting")
        system.peer.start()
        system.create("warm")
        say(f"{TITLES[name]}: warming up")
        # Java compiles what it runs often: what is measured should be compiled already, and that takes many requests,
        # not only many messages. The others get the same.
        run_job(system, Spec(do="produce", bootstrap=system.peer.bootstrap, topic="warm", seconds=plan.warm_seconds))
        run_job(system, _paced(system, plan.warm_seconds, {"linger.ms": 0}))
        yield system
    finally:
        system.peer.stop()
        shutil.rmtree(home, ignore_errors=True)


def throughput(system: System, number: int, plan: Plan, say: Say) -> list[Throughput]:
    """Each message size with each load that the system's client has."""
    readings = []
    for size in plan.sizes:
        # Every second round backwards: what comes later finds a warmer system.
        for load in system.loads[:: -1 if number % 2 else 1]:
            say(f"{TITLES[system.peer.name]}: {size} B, {load.name}")
            topic = f"t{size}x{system.loads.index(load)}"
            system.create(topic)
            readings.append(_throughput(system, number, size, load, topic, plan.seconds))
    return readings


def _throughput(system: System, number: int, size: int, load: Load, topic: str, seconds: float) -> Throughput:
    common: dict[str, Any] = {"bootstrap": system.peer.bootstrap, "topic": topic, "size": size, "settings": load.settings}
    made = run_job(system, Spec(do="produce", seconds=seconds, window=load.window, **common))
    there = made["messages"] + made["warm"]
    read = run_job(system, Spec(do="consume", count=there, **common))
    return reading_of(system.peer.name, number, size, load.name, made, read)


def reading_of(system: str, number: int, size: int, load: str, made: dict[str, Any], read: dict[str, Any]) -> Throughput:
    """The figures of a producing and a consuming client, put together."""
    per_s = made["messages"] / made["seconds"]
    return Throughput(
        system=system,
        round=number,
        size=size,
        load=load,
        per_s=per_s,
        mb_per_s=per_s * size / 1e6,
        p50_ms=made["p50_ms"],
        p99_ms=made["p99_ms"],
        consumed_per_s=read["messages"] / read["seconds"],
        cpu_per_million=1e6 * (made["broker_cpu_s"] + read["broker_cpu_s"]) / made["messages"],
        client_share=made["client_cpu_s"] / made["seconds"],
        missing=made["failed"] + max(0, made["messages"] + made["warm"] - read["messages"]),
    )


def latency(system: System, number: int, plan: Plan, say: Say) -> list[Latency]:
    """One message at a time; then a steady thousand a second."""
    name = system.peer.name
    say(f"{TITLES[name]}: one message at a time")
    single = Spec(do="single", bootstrap=system.peer.bootstrap, topic="warm", seconds=plan.latency_seconds)
    alone = run_job(system, single)
    say(f"{TITLES[name]}: {PACED_RATE:,} messages a second")
    steady = run_job(system, _paced(system, plan.latency_seconds))

    def reading(what: str, said: dict[str, Any], prefix: str = "") -> Latency:
        if said.get("failed"):
            raise ClientFailed(f"{name}, {what}: {said['failed']} messages were not acknowledged or did not arrive")
        p50, p99 = said[f"{prefix}p50_ms"], said[f"{prefix}p99_ms"]
        return Latency(system=name, round=number, what=what, messages=said["messages"], p50_ms=p50, p99_ms=p99)

    readings = [reading("single", alone), reading("acknowledged", steady, "ack_"), reading("end to end", steady)]
    if plan.linger_0:
        eager = run_job(system, _paced(system, plan.latency_seconds, {"linger.ms": 0}))
        readings += [reading("acknowledged, linger 0", eager, "ack_"), reading("end to end, linger 0", eager)]
    return readings


def _paced(system: System, seconds: float, settings: dict[str, Any] | None = None) -> Spec:
    return Spec(
        do="paced",
        bootstrap=system.peer.bootstrap,
        topic="warm",
        seconds=seconds,
        rate=PACED_RATE,
        settings=settings or {},
    )


def failover(system: System, kills: int, say: Say, seed: int = 1) -> list[Gap]:
    """kill -9 of the leader under a steady load, each time with all nodes back and caught up before."""
    chance = random.Random(seed)
    if kills:
        system.create("failover")
    gaps = []
    for number in range(kills):
        say(f"{TITLES[system.peer.name]}: kill {number + 1} of {kills}")
        system.await_whole("failover")
        spec = Spec(do="failover", bootstrap=system.peer.bootstrap, topic="failover", rate=PACED_RATE)
        with client(system, spec) as process:
            tell(process)
            time.sleep(chance.uniform(0.8, 1.3))
            leader = system.leader("failover")
            tell(process, "killed")
            system.peer.kill(leader)
            said = json.loads(hear(process, 2 * PATIENCE_S))
        system.peer.restart(leader)
        gaps.append(Gap(system=system.peer.name, gap_ms=said["gap_ms"]))
    return gaps
