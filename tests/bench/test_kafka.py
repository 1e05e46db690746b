"""The comparison with Kafka and NATS: its arithmetic, its verdicts, and that the command runs against Quorate."""

import contextlib
import json
import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from bench.kafka import systems
from bench.kafka.__main__ import main
from bench.kafka.client import SAMPLE, _chunks, _Way
from bench.kafka.figures import Aim, Figures, aims, as_json
from bench.kafka.job import Spec, gap_ms, latencies, percentile
from bench.kafka.readings import WHAT, Gap, Latency, reading_of
from bench.kafka.tables import as_tables
from bench.machine import describe
from bench.peers.api import NotHere

MADE = {
    "messages": 1_000_000,
    "failed": 0,
    "warm": 1,
    "seconds": 4.0,
    "p50_ms": 5.0,
    "p99_ms": 9.0,
    "client_cpu_s": 2.0,
    "broker_cpu_s": 3.0,
}
READ = {"messages": 1_000_001, "seconds": 2.0, "client_cpu_s": 2.0, "broker_cpu_s": 0.5}


def with_rates(**rates: list[float]) -> Figures:
    """Each system with one reading per round."""
    figures = Figures(machine=describe(), quick=True)
    for name, per_round in rates.items():
        for number, rate in enumerate(per_round):
            made = {**MADE, "messages": int(rate * 4)}
            figures.throughput.append(
                reading_of(name.replace("_", "-"), number, 100, "window" if name == "nats" else "defaults", made, READ)
            )
    return figures


def verdict(figures: Figures, words: str) -> Aim:
    [aim] = [aim for aim in aims(figures) if words in aim.text]
    return aim


def test_percentiles() -> None:
    assert math.isnan(percentile([], 0.5))
    assert percentile([1.0], 0.99) == 1.0
    assert latencies([x / 1000 for x in range(100, 0, -1)]) == {"p50_ms": pytest.approx(51), "p99_ms": pytest.approx(100)}
    assert set(latencies([1.0], "ack_")) == {"ack_p50_ms", "ack_p99_ms"}


@pytest.mark.parametrize(
    ("moments", "gap"),
    [
        # A longer silence before the kill is not the kill's.
        ([0.0, 0.9, 1.0, 1.2, 1.3], 200.0),
        # The silence that the kill fell into counts whole: nobody was served in it.
        ([0.0, 0.5, 1.4], 900.0),
        ([0.0, 0.5, 0.9], math.nan),
        ([], math.nan),
    ],
)
def test_the_gap_is_the_longest_silence_after_the_kill(moments: list[float], gap: float) -> None:
    assert gap_ms(moments, killed=1.0) == pytest.approx(gap, nan_ok=True)


@pytest.mark.parametrize(("partitions", "chunk"), [(1, 1_000), (1, 10), (10, 10), (1_000, 10), (100, 1_000), (3, 10)])
def test_chunks_go_round_the_partitions_evenly(partitions: int, chunk: int) -> None:
    spec = Spec(do="produce", bootstrap="", topic="t", partitions=partitions)
    messages = [message for one in _chunks(spec, chunk, _Way()) for message in one]
    per_partition = [sum(message["partition"] == partition for message in messages) for partition in range(partitions)]
    assert max(per_partition) - min(per_partition) <= 1
    assert sum("callback" in message for message in messages) == math.ceil(len(messages) / SAMPLE)


def test_a_reading_puts_producer_and_consumer_together() -> None:
    reading = reading_of("quorate", 0, 100, "defaults", MADE, READ)
    assert reading.per_s == 250_000
    assert reading.mb_per_s == 25.0
    assert reading.consumed_per_s == 500_000.5
    assert reading.cpu_per_million == 3.5
    assert reading.client_share == 0.5
    assert reading.missing == 0


def test_what_was_acknowledged_and_not_found_is_missing_and_said_so() -> None:
    reading = reading_of("quorate", 0, 100, "defaults", {**MADE, "failed": 2}, {**READ, "messages": 999_998})
    assert reading.missing == 5
    figures = Figures(machine=describe(), quick=True, throughput=[reading])
    assert "5 messages failed or were not found again" in shown(figures)


def test_what_was_measured_is_shown() -> None:
    figures = Figures(machine=describe(), quick=True, throughput=[reading_of("quorate", 0, 100, "defaults", MADE, READ)])
    text = shown(figures)
    assert "250,000" in text
    assert "500,000" in text, "consumed"


def test_aims_compare_medians_of_the_rounds() -> None:
    figures = with_rates(quorate=[300.0, 100.0, 200.0], kafka=[190.0, 200.0, 210.0], nats=[50.0, 60.0, 70.0])
    assert verdict(figures, "Kafka as shipped").verdict == "met"
    assert verdict(figures, "Kafka as shipped").seen.startswith("1.00 x")
    assert verdict(figures, "3 x NATS").verdict == "met"
    slower = with_rates(quorate=[199.0], kafka=[200.0], nats=[67.0])
    assert verdict(slower, "Kafka as shipped").verdict == "NOT met"
    assert verdict(slower, "3 x NATS").verdict == "NOT met"


def test_an_aim_without_its_peer_is_not_measured() -> None:
    figures = with_rates(quorate=[100.0])
    assert {aim.verdict for aim in aims(figures)} == {"not measured"}
    assert {aim.verdict for aim in aims(Figures(machine=describe(), quick=True))} == {"not measured"}


def test_p99_against_nats() -> None:
    figures = Figures(machine=describe(), quick=True)
    for name, p99 in (("quorate", 3.0), ("nats", 2.9)):
        figures.latency += [
            Latency(system=name, round=0, what=what, messages=9, p50_ms=1.0, p99_ms=p99 if what == "single" else 5.0)
            for what in WHAT
        ]
    verdicts = [aim.verdict for aim in aims(figures) if "p99" in aim.text]
    assert verdicts == ["NOT met", "met", "met", "met", "met"]


@pytest.mark.parametrize(
    ("gaps", "met"), [([100.0, 499.0], True), ([100.0, 100.0, 501.0], False), ([100.0, math.nan], False)]
)
def test_every_gap_counts(gaps: list[float], met: bool) -> None:
    figures = Figures(machine=describe(), quick=True, gaps=[Gap(system="quorate", gap_ms=gap) for gap in gaps])
    assert verdict(figures, "failover").met is met


def test_json_has_no_nan() -> None:
    figures = Figures(machine=describe(), quick=True, gaps=[Gap(system="quorate", gap_ms=math.nan)])

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    assert json.loads(as_json(figures), parse_constant=refuse)["gaps"] == [{"system": "quorate", "gap_ms": None}]


def test_a_peer_that_is_not_here_is_left_out_and_the_report_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # An empty PATH has no java, and an empty cache no Kafka.
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = CliRunner().invoke(main, ["--quick", "--system", "kafka", "--dir", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "Kafka as shipped is left out: there is no `java` here" in done.output


def test_every_system_has_a_title_and_unknown_ones_are_refused(tmp_path: Path) -> None:
    assert set(systems.TITLES) == set(systems.SYSTEMS)
    for name in systems.SYSTEMS:
        # nats-py is only there after `make bench`.
        with contextlib.suppress(NotHere):
            assert systems.make(name, tmp_path).peer.name == name
    assert CliRunner().invoke(main, ["--system", "redis"]).exit_code == 2


@pytest.mark.timeout(240)
def test_the_command_measures_quorate(tmp_path: Path) -> None:
    options = ["--quick", "--system", "quorate", "--only", "throughput", "--only", "latency", "--seconds", "0.3"]
    path = tmp_path / "figures.json"
    done = CliRunner().invoke(main, [*options, "--dir", str(tmp_path), "--json", str(path)])
    assert done.exit_code == 0, done.output
    figures: dict[str, Any] = json.loads(path.read_text())
    assert [reading["load"] for reading in figures["throughput"]] == ["defaults", "20 ms, 1 MB"]
    for reading in figures["throughput"]:
        assert reading["per_s"] > 0
        assert reading["consumed_per_s"] > 0
        assert reading["cpu_per_million"] > 0
        assert reading["missing"] == 0
    assert [reading["what"] for reading in figures["latency"]] == list(WHAT)[:3]
    assert all(0 < reading["p50_ms"] <= reading["p99_ms"] for reading in figures["latency"])
    assert "Aims" in done.output
    assert [left.name for left in tmp_path.iterdir()] == ["figures.json"]


def shown(figures: Figures) -> str:
    console = Console(width=140)
    with console.capture() as captured:
        console.print(as_tables(figures))
    return captured.get()
