"""Real runs: clients against three real nodes that are killed. And runs that cannot end well say so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from quorate.chaos.api import NodeUnderTest
from quorate.chaos.history import FILE, Action, History, Place, Record, Recorder, load
from quorate.chaos.report import write_report
from quorate.chaos.runner import Audience, Order, Result, Run, RunFailed, Status, check_again, problems_of
from quorate.chaos.workloads import Stage, Workload
from tests.chaos.plain import PlainCluster, make_killer

pytestmark = pytest.mark.timeout(600)


def _order(folder: Path, workload: str, seconds: float) -> Order:
    return Order(
        workload=workload, nemesis=("kill",), seconds=seconds, seed=7, rate=100.0, folder=folder, command="quorate chaos run"
    )


class Told:
    """An audience that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.statuses: list[Status] = []
        self.audience = Audience(say=self.lines.append, show=self.statuses.append)


async def _run(folder: Path, workload: str, seconds: float, told: Told) -> Result:
    run = Run(_order(folder, workload, seconds), PlainCluster(folder / "cluster"), make_killer, told.audience)
    return await run.carry_out()


def _explain(result: Result) -> str:
    texts = [f"{verdict.name}: {one.text}" for verdict in result.verdicts for one in verdict.found.anomalies[:5]]
    return "\n".join(texts + result.problems)


@pytest.mark.parametrize(
    ("workload", "seconds", "idle"),
    [("log", 18.0, set[str]()), ("groups", 15.0, {"stale", "false-fail"}), ("metadata", 12.0, {"stale", "false-fail"})],
)
def test_an_honest_broker_whose_nodes_are_killed_keeps_its_promises(
    tmp_path: Path, workload: str, seconds: float, idle: set[str]
) -> None:
    told = Told()
    result = asyncio.run(_run(tmp_path, workload, seconds, told))
    assert result.good, _explain(result)
    # A checker that had nothing to judge proves nothing.
    assert {verdict.name for verdict in result.verdicts if not verdict.found.looked_at} <= idle
    history = load(tmp_path / FILE)
    assert check_again(history) == result
    assert sum(one.outcome == "ok" for one in history.of(Action.PRODUCE)) > 20 * seconds
    faults = [note.facts["phase"] for note in history.notes if note.what == "fault"]
    assert faults.count("begin") == faults.count("end") >= 2
    assert any("kill begin" in line for line in told.lines)
    assert any(status.faults for status in told.statuses)
    assert {note.facts["node"] for note in history.notes if note.what == "leader"} <= {1, 2, 3}
    assert write_report(tmp_path, history, result).stat().st_size > 10_000
    assert (tmp_path / "logs" / "node-1.log").is_file()


# Runs without a cluster.


class Nothing:
    """A system that is nowhere."""

    bootstrap = "127.0.0.1:1"

    def __init__(self, *, heals: bool = True) -> None:
        self.stops = 0
        self._heals = heals

    @property
    def nodes(self) -> Mapping[int, NodeUnderTest]:
        return {}

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        self.stops += 1

    async def heal(self) -> None:
        if not self._heals:
            raise TimeoutError("node 2 is not ready")


class Scripted:
    """A workload that writes a history down without doing anything."""

    checkers = ("lost", "two-values")

    def __init__(self, act: Callable[[Recorder], None], end: Callable[[Recorder], None]) -> None:
        self._act = act
        self._end = end

    def topics(self) -> Sequence[str]:
        return ()

    async def prepare(self, stage: Stage) -> None:
        return

    async def run(self, stage: Stage, stop: asyncio.Event) -> None:
        self._act(stage.recorder)
        await stop.wait()

    async def finish(self, stage: Stage) -> None:
        self._end(stage.recorder)


PLACE: dict[str, Any] = {"topic": "t", "partition": 0}


def _write(recorder: Recorder) -> None:
    recorder.ok(recorder.invoke("p", Action.PRODUCE, **PLACE, value="a"), offset=1)


def _keep(recorder: Recorder) -> None:
    recorder.ok(recorder.invoke("end", Action.FINAL, **PLACE), records=[Record(1, "a")], offset=2)


def _lose(recorder: Recorder) -> None:
    recorder.ok(recorder.invoke("end", Action.FINAL, **PLACE), records=[Record(2, "b")], offset=3)


def _scripted(folder: Path, workload: Workload, system: Nothing) -> Result:
    told = Told()

    async def carry_out() -> Result:
        return await Run(_order(folder, "log", 1.0), system, make_killer, told.audience, workload).carry_out()

    return asyncio.run(carry_out())


def test_a_run_that_keeps_its_promises_is_good(tmp_path: Path) -> None:
    system = Nothing()
    assert _scripted(tmp_path, Scripted(_write, _keep), system).good
    assert system.stops > 0


def test_a_run_that_loses_a_message_is_not(tmp_path: Path) -> None:
    result = _scripted(tmp_path, Scripted(_write, _lose), Nothing())
    assert not result.good
    assert [verdict.name for verdict in result.verdicts if not verdict.good] == ["lost"]


def test_a_cluster_that_does_not_come_back_is_a_problem(tmp_path: Path) -> None:
    result = _scripted(tmp_path, Scripted(_write, _keep), Nothing(heals=False))
    assert not result.good
    assert "did not come back: node 2" in result.problems[0]


def test_a_run_without_an_acknowledgement_proves_nothing(tmp_path: Path) -> None:
    result = _scripted(tmp_path, Scripted(lambda _: None, _keep), Nothing())
    assert result.problems == ["no message was acknowledged: the run proves nothing"]


def test_a_client_that_breaks_is_told_apart_from_an_anomaly(tmp_path: Path) -> None:
    def stumble(recorder: Recorder) -> None:
        raise ZeroDivisionError("one by nothing")

    system = Nothing()
    with pytest.raises(RunFailed, match="one by nothing"):
        _scripted(tmp_path, Scripted(stumble, _keep), system)
    assert system.stops > 0, "the system is stopped all the same"


def test_a_history_that_names_no_workload_is_checked_by_all() -> None:
    recorder = Recorder()
    _write(recorder)
    _lose(recorder)
    history: History = recorder.snapshot()
    assert history.final.keys() == {Place("t", 0)}
    assert len(check_again(history).verdicts) > 10


@pytest.mark.parametrize(("damaged", "problems"), [(1, 0), (2, 1)])
def test_a_minority_of_damaged_replicas_is_no_problem(damaged: int, problems: int) -> None:
    recorder = Recorder()
    _write(recorder)
    _keep(recorder)
    for node in (1, 2, 3):
        number = recorder.invoke("end", Action.REPLICA, **PLACE, node=node)
        if node <= damaged:
            recorder.fail(number, "a wrong checksum")
        else:
            recorder.ok(number, records=[], offset=1)
    assert len(problems_of(recorder.snapshot())) == problems
