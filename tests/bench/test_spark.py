"""The comparison of Spark's two ways to read: its arithmetic and its verdicts. No Spark is started."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from bench.machine import describe
from bench.peers.api import NotHere
from bench.spark.__main__ import main
from bench.spark.connector import fetch
from bench.spark.figures import Figures, as_json, as_table
from bench.spark.queue import BATCH_BYTES, _batch
from bench.spark.readings import Reading


def figures(**rates: list[float]) -> Figures:
    """Each system with one reading per round, of one case."""
    made = Figures(machine=describe(), quick=False, cores=2, spark="4.3.0", connector="4.2.0")
    for system, per_round in rates.items():
        for number, rate in enumerate(per_round):
            reading = Reading(
                system=system, size=100, partitions=4, sink="noop", round=number, rows=1_000, seconds=1_000 / rate
            )
            made.readings.append(reading)
    return made


def shown(made: Figures) -> str:
    console = Console(width=140)
    with console.capture() as captured:
        console.print(as_table(made))
    return captured.get()


@pytest.mark.parametrize(
    ("ours", "theirs", "ratio", "verdict"),
    [
        ([300.0, 100.0, 200.0], [150.0, 200.0, 900.0], 1.0, " met"),
        ([199.0], [200.0], 0.995, "NOT met"),
    ],
)
def test_the_ratio_is_that_of_the_medians(ours: list[float], theirs: list[float], ratio: float, verdict: str) -> None:
    made = figures(quorate=ours, kafka=theirs)
    [found] = json.loads(as_json(made))["ratios"]
    assert found["ratio"] == pytest.approx(ratio)
    assert verdict in shown(made)


def test_what_was_not_measured_is_not_judged() -> None:
    made = figures(quorate=[100.0])
    made.connector, made.left_out = None, "there is no `mvn` here"
    assert json.loads(as_json(made))["ratios"][0]["ratio"] is None
    assert "not measured" in shown(made)
    assert "is left out: there is no `mvn` here" in shown(made)


def test_an_older_connector_is_said_to_be_one() -> None:
    assert "this is that of 4.2.0" in shown(figures(quorate=[1.0], kafka=[1.0]))


def test_without_maven_there_is_no_connector(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # An empty PATH has no java, and an empty cache no connector.
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(NotHere, match="java"):
        fetch("4.3.0")


@pytest.mark.parametrize("size", [100, 1_024, 2 * BATCH_BYTES])
def test_batches_are_full_and_hold_a_record_at_least(size: int) -> None:
    data, count = _batch(size)
    assert count >= 1
    assert BATCH_BYTES <= len(data) <= BATCH_BYTES + 2 * size + 100


def test_a_way_to_read_that_there_is_not() -> None:
    assert CliRunner().invoke(main, ["--only", "redis"]).exit_code == 2
