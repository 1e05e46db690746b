"""A standalone Spark cluster on loopback, from pyspark's own jars: a master, and workers of one core each."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from bench.peers.processes import await_condition, free_base_port, launch, stop_all

HOME = Path(pyspark.__file__).parent
_READY_S = 240.0


@contextmanager
def standalone(folder: Path, workers: int) -> Iterator[str]:
    """Its address for `--master`, once every worker has registered."""
    port = free_base_port([0])
    address = f"spark://127.0.0.1:{port}"
    log = folder / "master.log"
    environment = _environment(folder) | {"SPARK_DAEMON_MEMORY": "256m"}
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    worker = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g"]
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.append(launch([_script("spark-class"), *master], log, environment))
        await_condition(lambda: "Starting Spark master" in _text(log), "the master starts", _READY_S, pause_s=0.2)
        for number in range(workers):
            words = [*worker, "--webui-port", "0", "--work-dir", str(folder / f"work-{number}"), address]
            started.append(launch([_script("spark-class"), *words], folder / f"worker-{number}.log", environment))
        await_condition(
            lambda: _text(log).count("Registering worker") >= workers, "all workers are registered", _READY_S, pause_s=0.2
        )
        yield address
    finally:
        stop_all(started)


def submit(address: str, folder: Path, package: Path, program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`spark-submit` with the package; our checkout is not on the path of anything that it starts."""
    command = [_script("spark-submit"), "--master", address, "--py-files", str(package)]
    for key, value in _SETTINGS.items():
        command += ["--conf", f"{key}={value}"]
    return subprocess.run(
        [*command, str(program), *arguments],
        cwd=folder,
        env={**_without_us(), **_environment(folder)},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.log.level": "WARN",
    "spark.sql.shuffle.partitions": "2",
}


def _environment(folder: Path) -> dict[str, str]:
    return {
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "PYSPARK_PYTHON": sys.executable,
    }


def _without_us() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def _script(name: str) -> str:
    return str(HOME / "bin" / name)


def _text(log: Path) -> str:
    return log.read_text(errors="replace") if log.exists() else ""
