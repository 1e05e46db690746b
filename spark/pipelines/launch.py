"""Spark for a pipeline that was not started by `spark-submit`: which master, and where Python is."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping

_HERE = "local[*]"


def configure(master: str | None, settings: Mapping[str, str], *, verbose: bool = False) -> None:
    """Prepare the Java side before it starts. The tasks' Python is this one unless somebody has chosen another."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    words = ["--master", master or _HERE]
    for key, value in {**_quiet(verbose), **settings}.items():
        words += ["--conf", f"{key}={value}"]
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*words, "pyspark-shell"])


def _quiet(verbose: bool) -> dict[str, str]:
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    return quiet if verbose else {**quiet, "spark.log.level": "ERROR"}
