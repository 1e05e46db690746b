"""One run from start to verdict: start, work while the nemesis breaks things, heal, read everything, stop, check."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import quorate
from quorate.chaos.api import FaultEvent, Nemesis, System
from quorate.chaos.checkers import CHECKERS, Checker, Verdict, judge
from quorate.chaos.clients.crew import pause
from quorate.chaos.history import FILE, Action, History, Operation, Place, Recorder
from quorate.chaos.replicas import record_replicas, whereabouts
from quorate.chaos.watch import LeaderWatch
from quorate.chaos.workloads import WORKLOADS, Stage, Workload

_CALM_S = 3.0
"""After healing, the clients go on for so long: a system that has come back must serve them."""
_LOOK_S = 1.0
_LIVE_SHARE = 20
"""Looking for anomalies during the run may take one part in so many of the time."""

MakeNemesis = Callable[[Sequence[str], int, float, System], Nemesis]


class RunFailed(RuntimeError):
    """Something in the run itself broke, and not in the system under test. The text says what."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What was asked for."""

    workload: str
    nemesis: tuple[str, ...]
    seconds: float
    seed: int
    rate: float
    folder: Path
    command: str
    """What to type to run it again."""
    fail_fast: bool = False
    """Whether to stop breaking things as soon as an anomaly is seen."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """How it goes, for people who watch."""

    phase: str
    elapsed_s: float
    acknowledged: int
    refused: int
    doubtful: int
    read: int
    faults: tuple[str, ...]
    anomalies: int


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came out. `problems` are not anomalies, but say why the run proves less than it should."""

    verdicts: list[Verdict]
    problems: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not self.problems and all(verdict.good for verdict in self.verdicts)


@dataclass(frozen=True, kw_only=True)
class Audience:
    """Who is told: `say` gets a line for each thing that happens, `show` a status about once a second."""

    say: Callable[[str], None]
    show: Callable[[Status], None]


class Run:
    """One run. `carry_out` once; the history is in the folder even if it is cut short."""

    def __init__(
        self,
        order: Order,
        system: System,
        make_nemesis: MakeNemesis,
        audience: Audience,
        workload: Workload | None = None,
    ) -> None:
        """The workload is the one that the order names, unless one is given."""
        self._order = order
        self._system = system
        self._make_nemesis = make_nemesis
        self._audience = audience
        self._workload = workload if workload is not None else WORKLOADS[order.workload].make()
        order.folder.mkdir(parents=True, exist_ok=True)
        self._recorder = Recorder(order.folder / FILE)
        self._began = time.monotonic()
        self._phase = "starting"
        self._open: list[FaultEvent] = []
        self._problems: list[str] = []
        self._anomalies = 0
        self._enough = asyncio.Event()
        """Set when nothing more needs to be broken."""

    async def carry_out(self) -> Result:
        """Raises TimeoutError if the system cannot be started or prepared, and RunFailed if a client breaks."""
        order = self._order
        facts = {**asdict(order), "folder": str(order.folder), "nemesis": list(order.nemesis)}
        self._recorder.note("run", **facts, version=quorate.__version__, at=datetime.now(UTC).isoformat(timespec="seconds"))
        try:
            self._enter("getting the cluster ready")
            await self._system.start()
            await self._under_fire()
            known = await whereabouts(self._system, self._workload.topics())
            self._enter("letting the cluster go")
            await self._system.stop()
            await record_replicas(self._system.nodes, known, self._recorder)
        except ExceptionGroup as group:
            told = "; ".join(f"{type(one).__name__}: {one}" for one in _leaves(group))
            raise RunFailed(f"a client of the workload {order.workload} broke: {told}") from group
        finally:
            await self._system.stop()
            self._keep_logs()
            self._recorder.close()
        self._enter("checking")
        history = self._recorder.snapshot()
        verdicts = await asyncio.to_thread(judge, history, checkers_of(self._workload.checkers))
        return Result(verdicts=verdicts, problems=self._problems + problems_of(history))

    async def _under_fire(self) -> None:
        order, system = self._order, self._system
        prefix = f"chaos-{order.seed}-{int(time.time())}"
        stage = Stage(system=system, recorder=self._recorder, seed=order.seed, rate=order.rate, prefix=prefix)
        nemesis = self._make_nemesis(order.nemesis, order.seed, order.seconds, system)
        self._announce(nemesis)
        self._enter("preparing")
        await self._workload.prepare(stage)
        self._enter("running")
        self._began = time.monotonic()
        self._recorder.note("begin")
        stop = asyncio.Event()
        watch = LeaderWatch(system, self._recorder, self._workload.topics)
        async with asyncio.TaskGroup() as tasks:
            for job in (self._workload.run(stage, stop), watch(stop), self._look(stop)):
                tasks.create_task(job)
            healed = await self._break_and_heal(nemesis, stop)
            self._enter("letting the clients finish")
            stop.set()
        if healed:
            self._enter("reading everything once more")
            await self._workload.finish(stage)

    async def _break_and_heal(self, nemesis: Nemesis, stop: asyncio.Event) -> bool:
        async with asyncio.TaskGroup() as tasks:
            breaking = tasks.create_task(nemesis.run(self._system, self._hear))
            await pause(self._enough, self._order.seconds)
            breaking.cancel()
        self._enter("healing")
        try:
            await self._system.heal()
        except TimeoutError as error:
            self._problems.append(f"the cluster did not come back: {error}")
            return False
        for event in list(self._open):
            self._hear(FaultEvent(time_ns=time.monotonic_ns(), kind=event.kind, phase="end", text=event.text))
        self._recorder.note("healed")
        await pause(stop, _CALM_S)
        return True

    def _announce(self, nemesis: Nemesis) -> None:
        for one in nemesis.plan():
            self._audience.say(f"planned {one.at_s:7.1f} s to {one.until_s:7.1f} s: {one.kind} {one.target}")
        self._recorder.note("plan", faults=[_plain(asdict(one)) for one in nemesis.plan()])

    def _hear(self, event: FaultEvent) -> None:
        """A fault begins, ends, or could not be."""
        facts = {"kind": event.kind, "phase": event.phase, "text": event.text}
        self._recorder.note("fault", time_ns=event.time_ns, **facts)
        self._audience.say(f"{self._elapsed():7.1f} s: {event.kind} {event.phase}: {event.text}")
        if event.phase == "begin":
            self._open.append(event)
            return
        # What failed says why, after what it is.
        same = [one for one in self._open if one.kind == event.kind and event.text.startswith(one.text)]
        if same:
            self._open.remove(same[0])

    async def _look(self, stop: asyncio.Event) -> None:
        """Show how it goes, and look for anomalies that can be seen already."""
        live = [one for one in checkers_of(self._workload.checkers) if one.live]
        next_check = time.monotonic()
        while not stop.is_set():
            if time.monotonic() >= next_check:
                began = time.monotonic()
                verdicts = await asyncio.to_thread(judge, self._recorder.snapshot(), live)
                found = sum(len(verdict.found.anomalies) for verdict in verdicts)
                if found > self._anomalies:
                    texts = [one.text for verdict in verdicts for one in verdict.found.anomalies]
                    self._audience.say(f"{self._elapsed():7.1f} s: {found} anomalies so far, such as: {texts[0]}")
                self._anomalies = found
                if found and self._order.fail_fast:
                    self._enough.set()
                next_check = time.monotonic() + _LIVE_SHARE * (time.monotonic() - began)
            self._audience.show(self.status())
            await pause(stop, _LOOK_S)

    def status(self) -> Status:
        """How it goes."""
        counts = self._recorder.counts
        writes = (Action.PRODUCE, Action.COMMIT, Action.CREATE, Action.GROW, Action.DELETE)
        return Status(
            phase=self._phase,
            elapsed_s=self._elapsed(),
            acknowledged=sum(counts[action, "ok"] for action in writes),
            refused=sum(counts[action, "fail"] for action in writes),
            doubtful=sum(counts[action, "info"] for action in writes),
            read=counts[Action.READ, "ok"],
            faults=tuple(f"{one.kind} {one.text}" for one in self._open),
            anomalies=self._anomalies,
        )

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _enter(self, phase: str) -> None:
        self._phase = phase
        self._audience.say(f"{self._elapsed():7.1f} s: {phase}")

    def _keep_logs(self) -> None:
        """Copies of the nodes' own logs, beside the history."""
        for number, node in self._system.nodes.items():
            if node.log is not None and node.log.is_file():
                (self._order.folder / "logs").mkdir(exist_ok=True)
                shutil.copy(node.log, self._order.folder / "logs" / f"node-{number}.log")


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """The errors in a group, whatever groups they are in."""
    found: list[BaseException] = []
    for one in group.exceptions:
        found += _leaves(one) if isinstance(one, BaseExceptionGroup) else [one]
    return found


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    """Parameters of faults may be anything that can be printed."""
    return {**facts, "parameters": {str(name): str(value) for name, value in facts["parameters"].items()}}


def checkers_of(names: Sequence[str]) -> list[Checker]:
    """In the order of reports."""
    return [checker for name, checker in CHECKERS.items() if name in names]


def problems_of(history: History) -> list[str]:
    """Why a history proves less than it should, anomalies apart."""
    problems = [
        f"{one.place} could not be read in the end: {one.error or 'cut short'}"
        for one in history.of(Action.FINAL)
        if one.outcome != "ok"
    ]
    problems += _unread_replicas(history)
    problems += [
        f"node {one.node} did not say which topics it knows in the end: {one.error}"
        for one in history.of(Action.TOPICS)
        if one.outcome != "ok"
    ]
    if not history.final:
        problems.append("nothing was read in the end: the run was cut short, or the cluster did not come back")
    if not any(one.outcome == "ok" for one in history.of(Action.PRODUCE)):
        problems.append("no message was acknowledged: the run proves nothing")
    return problems


def _unread_replicas(history: History) -> list[str]:
    """Partitions without a readable majority. A nemesis may damage a minority of disks for good; that is no problem."""
    replicas: dict[Place, list[Operation]] = defaultdict(list)
    for one in history.of(Action.REPLICA):
        replicas[one.place].append(one)
    problems = []
    for place, found in replicas.items():
        unread = [one for one in found if one.outcome != "ok"]
        if 2 * len(unread) >= len(found):
            reasons = "; ".join(f"node {one.node}: {one.error or 'cut short'}" for one in unread)
            problems.append(f"{len(unread)} of {len(found)} replicas of {place} could not be read: {reasons}")
    return problems


def check_again(history: History) -> Result:
    """The verdicts on a stored history, by the checkers of its workload; all of them if it does not name one."""
    named = next((note.facts.get("workload") for note in history.notes if note.what == "run"), None)
    names = WORKLOADS[named].make().checkers if named in WORKLOADS else tuple(CHECKERS)
    return Result(verdicts=judge(history, checkers_of(names)), problems=problems_of(history))
