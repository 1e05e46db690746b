"""docs/spark.md: its table of options is that of the code, and its tutorial is run, block after block."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from quorate.cli.main import main
from quorate.spark.options import OPTIONS, Use
from tests.support.broker_cluster import BrokerCluster

pytestmark = pytest.mark.xdist_group("spark")

PAGE = Path(__file__).resolve().parents[3] / "docs" / "spark.md"
TUTORIAL = PAGE.read_text().partition("## Tutorial")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", TUTORIAL, re.MULTILINE | re.DOTALL)
FOLDERS = "/tmp/quorate-"
USES = {Use.BATCH: "batch", Use.STREAM: "stream", Use.WRITE: "write"}


def table() -> list[str]:
    lines = ["| option | for | what it says |", "| --- | --- | --- |"]
    for option in OPTIONS:
        uses = ", ".join(word for use, word in USES.items() if use in option.uses)
        lines.append(f"| `{option.name}` | {uses} | {option.doc} |")
    return lines


def test_the_table_of_options_is_complete() -> None:
    wanted = "\n".join(table())
    assert wanted in PAGE.read_text(), f"put this table into docs/spark.md:\n\n{wanted}"


@pytest.mark.timeout(600)
def test_the_tutorial_does_what_it_says(
    spark: SparkSession, cluster: BrokerCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What `quorate pipeline` says to a Spark that it starts; here it finds one.
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    names: dict[str, Any] = {}

    def python(text: str) -> None:
        text = re.sub(r'^BOOTSTRAP = ".*"$', f'BOOTSTRAP = "{cluster.bootstrap}"', text, flags=re.MULTILINE)
        exec(compile(text.replace(FOLDERS, f"{tmp_path}/"), str(PAGE), "exec"), names)

    def shell(text: str) -> None:
        if text == "make run\n":
            return
        words = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', text.replace(FOLDERS, f"{tmp_path}/"))]
        assert words[:2] == ["quorate", "pipeline"], f"the test does not know how to run {text!r}"
        result = CliRunner().invoke(main, [*words[1:], "--bootstrap", cluster.bootstrap])
        assert result.exit_code == 0, result.output

    for language, text in BLOCKS:
        {"python": python, "sh": shell}[language](text)
    assert {found.name for found in tmp_path.iterdir()} == {"archive", "replay", "traffic"}
    shutil.rmtree(names["checkpoint"])


def test_the_tutorial_begins_with_its_cluster() -> None:
    assert BLOCKS[0] == ("sh", "make run\n")
    assert sum(text.startswith("quorate pipeline") for _, text in BLOCKS) == 3
