"""The same programs on a standalone Spark cluster, submitted with the code in a zip file."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from quorate.spark.pipelines import archive, replay
from quorate.spark.pipelines.packaging import write_package
from tests.spark.pipelines import where
from tests.spark.pipelines.test_end_to_end import PARTITIONS, numbered, produce, until_held, values
from tests.support.broker_cluster import BrokerCluster
from tests.support.spark_standalone import standalone, submit

pytestmark = pytest.mark.xdist_group("spark")


@pytest.mark.timeout(900)
def test_pipelines_run_on_a_spark_cluster(cluster: BrokerCluster, tmp_path: Path) -> None:
    source, sink, folder = cluster.topic(PARTITIONS), cluster.topic(PARTITIONS), str(tmp_path / "archive")
    produce(cluster, source, numbered(0, 500))
    package = tmp_path / "quorate.zip"
    write_package(package)
    near = ["--bootstrap", cluster.bootstrap]
    with standalone(tmp_path, 2) as master:
        done = submit(master, tmp_path, package, Path(where.__file__))
        assert done.returncode == 0, done.stderr
        [line] = [line for line in done.stdout.splitlines() if line.startswith("where: ")]
        found = json.loads(line.removeprefix("where: "))
        assert all(".zip/" in file for file, _ in found), found

        done = submit(master, tmp_path, package, Path(archive.__file__), source, "--to", folder, *near)
        assert done.returncode == 0, done.stderr
        options = ["--archive", folder, "--to", sink, "--state", str(tmp_path / "state")]
        done = submit(master, tmp_path, package, Path(replay.__file__), source, *options, *near)
        assert done.returncode == 0, done.stderr
    table = ds.dataset(folder, partitioning="hive").to_table(columns=["value"])
    assert Counter(int(value) for value in table["value"].to_pylist()) == Counter(range(500))
    assert values(until_held(cluster, sink, 500)) == Counter(range(500))
