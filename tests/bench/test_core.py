"""The benchmark of the core runs, and says what it measured. Whether it is fast is for a quiet machine to tell."""

import json
from pathlib import Path

from click.testing import CliRunner

from bench.cluster import Cluster
from bench.core import main
from bench.machine import describe
from bench.measures import Load, run_idle, run_load
from quorate.consensus.core import GroupId

TINY = [
    "--seconds",
    "0.01",
    "--virtual-seconds",
    "0.5",
    "--runs",
    "2",
    "--in-flight",
    "1",
    "--in-flight",
    "4",
    "--groups",
    "6",
]


def test_json_has_every_field() -> None:
    done = CliRunner().invoke(main, [*TINY, "--json", "-"])
    assert done.exit_code == 0, done.output
    figures = json.loads(done.output)
    assert set(figures["machine"]) == {"cpu", "cores", "load", "system", "python"}
    assert set(figures["aims"]) == {"us_per_batch", "share_of_core", "idle_groups"}
    cases = [(case["in_flight"], case["one_by_one"]) for case in figures["loads"]]
    assert cases == [(1, False), (4, False), (4, True)]
    for case in figures["loads"]:
        assert len(case["runs"]) == 2
        assert all(run["committed"] > 0 and run["cpu_s"] > 0 and run["wall_s"] > 0 for run in case["runs"])
        assert 0 < case["us_per_batch"]["best"] <= case["us_per_batch"]["median"]
        assert case["committed_per_second"]["best"] >= case["committed_per_second"]["median"] > 0
    [idle] = figures["idle"]
    assert idle["groups"] == 6
    assert 0 < idle["share_of_core"]["best"] <= idle["share_of_core"]["median"]
    assert idle["wakeups_per_second"] > 0
    assert idle["messages_per_second"] > 0
    assert all(len(run["shares"]) == 3 for run in idle["runs"])


def test_tables_and_a_json_file(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    done = CliRunner().invoke(main, [*TINY, "--json", str(path)])
    assert done.exit_code == 0, done.output
    for word in ("in flight", "one by one", "us/batch", "Idle groups", "wake-ups/s", describe().cpu):
        assert word in done.output
    assert json.loads(path.read_text())["loads"]


def test_a_path_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, [*TINY, "--json", str(tmp_path / "no" / "such" / "folder.json")])
    assert done.exit_code == 1
    assert "cannot write" in done.output


def test_more_than_the_leader_takes_is_said_so() -> None:
    done = CliRunner().invoke(main, ["--seconds", "0.01", "--runs", "1", "--in-flight", "128", "--batch-bytes", "1048576"])
    assert done.exit_code == 1
    assert "refused a proposal" in done.output


def test_one_by_one_keeps_the_pipeline_full() -> None:
    """Otherwise the case would measure a short pipeline, and its figure would be too kind or too harsh."""
    load = Load(in_flight=8, one_by_one=True, batch_bytes=10)
    cluster = Cluster(1, delay=load.delay)
    cluster.elect()
    leader = cluster.leader(GroupId(0))
    seen = []
    for _ in range(200):
        if leader.log.last - leader.log.commit < load.in_flight:
            leader.propose(b"x" * load.batch_bytes)
        for node in cluster.nodes:
            cluster.turn(node)
        seen.append(leader.log.last - leader.log.commit)
    assert max(seen) <= load.in_flight
    assert min(seen[50:]) >= load.in_flight - 2


def test_idle_groups_send_beats_only() -> None:
    """Each node leads groups that the two others follow: 20 beats a second to each, and 20 answers."""
    cluster = Cluster(9)
    cluster.elect()
    run = run_idle(cluster, 2.0)
    assert run.messages == 80


def test_a_run_of_no_length_still_commits() -> None:
    assert run_load(Load(in_flight=1), 0.0).committed >= 1
