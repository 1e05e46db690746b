"""kill -9 of Spark's driver and of a broker, at each step of a micro-batch: the sink has each message once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.spark.proofs.hooked import STEPS, arm, go_on
from tests.spark.proofs.stage import Driver, holds_each_once, produce
from tests.support.broker_cluster import BrokerCluster

pytestmark = pytest.mark.xdist_group("spark")

PARTITIONS = 3
COUNT = 1_500
MOST = 300
"""Of a micro-batch: there are five of them, and the kills come in the first three."""
LATEST_KILL = 3


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        first = metafunc.config.getoption("--spark-kill-seed0")
        metafunc.parametrize("seed", range(first, first + metafunc.config.getoption("--spark-kill-seeds")))


def spec_of(cluster: BrokerCluster, tmp_path: Path, source: str, sink: str, **more: str) -> dict[str, str]:
    return {
        "bootstrap": cluster.bootstrap,
        "source": source,
        "sink": sink,
        "starting": "earliest",
        "most": str(MOST),
        "checkpoint": str(tmp_path / "checkpoint"),
        **more,
    }


@pytest.mark.timeout(900)
def test_each_message_comes_once_whoever_is_killed(cluster: BrokerCluster, tmp_path: Path, seed: int) -> None:
    """The driver dies at one step; started again, a broker dies at another one. Six seeds visit each step with both."""
    rng = random.Random(seed)
    source, sink = cluster.topic(PARTITIONS), cluster.topic(PARTITIONS)
    produce(cluster, source, range(COUNT), PARTITIONS)
    spec = spec_of(cluster, tmp_path, source, sink)
    log = tmp_path / "driver.log"

    hooks, step = tmp_path / "first", STEPS[seed % len(STEPS)]
    arm(hooks, step, rng.randint(1, LATEST_KILL))
    with Driver(spec, hooks, log) as driver:
        driver.until_reached(hooks, step)
        driver.kill()

    hooks, step = tmp_path / "second", STEPS[(seed + 3) % len(STEPS)]
    arm(hooks, step, 1)
    with Driver(spec, hooks, log) as driver:
        driver.until_reached(hooks, step)
        with cluster.without(rng.randint(1, 3)):
            go_on(hooks)
            driver.until_done()
    cluster.await_whole(sink, PARTITIONS)
    holds_each_once(cluster, sink, range(COUNT))


@pytest.mark.timeout(600)
def test_a_crash_before_the_first_commit_does_not_move_latest(cluster: BrokerCluster, tmp_path: Path) -> None:
    """A stream that begins at latest: what came after its first start is in it, though that start committed nothing."""
    source, sink = cluster.topic(PARTITIONS), cluster.topic(PARTITIONS)
    produce(cluster, source, range(-10, 0), PARTITIONS)
    spec = spec_of(cluster, tmp_path, source, sink, starting="latest", follow="yes")
    log, checkpoint = tmp_path / "driver.log", tmp_path / "checkpoint"

    hooks = tmp_path / "first"
    arm(hooks, "committing", 1)
    with Driver(spec, hooks, log) as driver:
        # Where it begins is settled once Spark has written it down.
        driver.until(lambda: (checkpoint / "sources").exists() or (checkpoint / "offsets" / "0").exists(), "it has begun")
        produce(cluster, source, range(100), PARTITIONS)
        driver.until_reached(hooks, "committing")
        driver.kill()
    produce(cluster, source, range(100, 200), PARTITIONS)
    with Driver(spec | {"follow": ""}, tmp_path / "second", log) as driver:
        driver.until_done()
    holds_each_once(cluster, sink, range(200))
