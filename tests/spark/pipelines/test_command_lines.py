"""The pipelines' command lines: what they mean, what is refused and how. No Spark is started."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from quorate.cli.main import main
from quorate.spark.pipelines import PIPELINES, archive, replay, traffic
from quorate.spark.pipelines.arguments import moment, span_s
from quorate.spark.pipelines.errors import PipelineError, reason
from quorate.spark.pipelines.session import behind_of
from quorate.spark.pipelines.traffic import EventTime, Prefix

REPLAY = ["orders", "--to", "again", "--state", "/s"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["pipeline", *arguments])


@pytest.mark.parametrize("name", list(PIPELINES))
def test_each_pipeline_teaches_by_both_ways_in(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        PIPELINES[name].load().main(["--help"])
    text = capsys.readouterr().out
    assert ended.value.code == 0
    assert f"quorate pipeline {name}" in text
    assert "examples:" in text
    assert "spark-submit" in text
    result = run(name, "--help")
    assert result.exit_code == 0
    assert result.stdout == text


def test_the_group_lists_them() -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert all(pipeline.summary in result.output for pipeline in PIPELINES.values())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["archive"], "required: QUEUE, --to"),
        (["archive", "orders", "--to", "/a", "--every", "5m"], "--every goes with --follow"),
        (["archive", "orders", "--to", "/a", "--follow", "--every", "soon"], "'soon' is no length of time"),
        (["archive", "orders", "--to", "/a", "--max-messages", "0"], "'0' is no number of at least 1"),
        (["archive", "orders", "--to", "/a", "--read-option", "minPartitions"], "'minPartitions' is not KEY=VALUE"),
        (["replay", *REPLAY, "--from", "yesterday"], "'yesterday' is no time"),
        (["replay", *REPLAY, "--from", "2026-11-18", "--until", "2026-11-17"], "--from must lie before --until"),
        (["replay", *REPLAY, "--nonsense"], "unrecognized arguments: --nonsense"),
        (["traffic", "orders"], "name --to-parquet, --to-queue or both"),
        (["traffic", "orders", "--to-queue", "t"], "name one with --checkpoint"),
        (["traffic", "orders", "--to-queue", "orders", "--checkpoint", "/c"], "count its own rows for ever"),
        (["traffic", "orders", "--to-parquet", "/t", "--event-time", "field"], "'field' is not json:FIELD"),
        (["traffic", "orders", "--to-parquet", "/t", "--event-time", "json:a'b"], "not json:FIELD"),
        (["traffic", "orders", "--to-parquet", "/t", "--key-prefix", "65"], "'65' is not until:TEXT"),
    ],
)
def test_mistakes_are_one_line_and_end_with_2(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        PIPELINES[arguments[0]].load().main(arguments[1:])
    assert ended.value.code == 2
    first, second = capsys.readouterr().err.strip().splitlines()
    assert complaint in first
    assert second == f"Try `quorate pipeline {arguments[0]} --help`."


def test_mistakes_through_the_command() -> None:
    result = run("archive", "orders", "--to", "/a", "--every", "5m")
    assert result.exit_code == 2
    assert "--every goes with --follow" in result.stderr
    assert run("--conf", "nonsense", "archive", "--help").exit_code == 2
    assert run("no-such-pipeline").exit_code == 2
    assert run("package", "quorate.tar").exit_code == 2


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1700000000000", 1_700_000_000_000),
        ("2026-11-18", 1_794_960_000_000),
        ("2026-11-18T01:00", 1_794_963_600_000),
        ("2026-11-18T03:00+02:00", 1_794_963_600_000),
        ("2026-11-18T01:00:00.250Z", 1_794_963_600_250),
    ],
)
def test_times(text: str, ms: int) -> None:
    assert moment(text) == ms


def test_spans() -> None:
    assert [span_s(text) for text in ("250ms", "30s", "1.5m", "2h", "7d")] == [0.25, 30, 90, 7_200, 604_800]


def test_defaults() -> None:
    kept = archive.parse(["orders", "orders", "payments", "--to", "/data/a/"])
    assert (kept.queues, kept.to, kept.checkpoint) == (("orders", "payments"), "/data/a", "/data/a/_quorate/checkpoint")
    assert kept.pace.every_s is None
    assert kept.pace.source_options() == {"maxOffsetsPerTrigger": "1000000", "failOnDataLoss": "true"}
    assert archive.parse(["orders", "--to", "/a", "--follow"]).pace.every_s == 60
    assert [replay.parse([*REPLAY, *more]).step for more in ([], ["--rate", "100"], ["--rate", "9", "--step", "7"])] == [
        500_000,
        500,
        7,
    ]
    flow = traffic.parse(["orders", "--to-parquet", "/t", "--event-time", "json:a.b", "--key-prefix", "until::"])
    assert (flow.event_time, flow.prefix) == (EventTime(kind="json", name="a.b"), Prefix(until=":"))
    assert (flow.lateness_s, flow.checkpoint) == (600, "/t/_quorate/checkpoint")


def test_the_package_holds_what_spark_imports_and_no_node(tmp_path: Path) -> None:
    path = tmp_path / "quorate.zip"
    result = run("package", str(path))
    assert result.exit_code == 0, result.output
    assert "spark-submit" in result.output
    names = zipfile.ZipFile(path).namelist()
    assert {"quorate/__init__.py", "quorate/spark/source.py", "quorate/client/core.py"} <= set(names)
    assert {name.split("/")[1] for name in names} == {"__init__.py", "broker", "client", "consensus", "spark"}
    assert not any(name.startswith("quorate/broker/node") for name in names)
    first = path.read_bytes()
    run("package", str(path))
    assert path.read_bytes() == first


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[STREAM_FAILED] Query terminated\norg.apache.spark.SparkException: x\n  File "a.py", line 3\n'
            "quorate.spark.errors.DataLost: data that has not been read is gone: q-0 offsets 0 to 9",
            "DataLost: data that has not been read is gone: q-0 offsets 0 to 9",
        ),
        ("quorate.spark.pipelines.errors.PipelineError: no such archive", "no such archive"),
        ("[X] Spark does not like it.\nmore", "[X] Spark does not like it."),
        ("", "PipelineError"),
    ],
)
def test_of_a_stack_only_the_reason_is_shown(text: str, said: str) -> None:
    assert reason(PipelineError(text)) == said


@pytest.mark.parametrize(
    ("end", "latest", "behind"),
    [
        ('{"q":{"0":5,"1":7}}', '{"q":{"0":9,"1":7}}', 4),
        ('{"q":{"0":5}}', '{"q":{"0":4,"1":7}}', 7),
        ('{"q":{"0":5}}', '{"q":{"0":6},"lost":{"q":{"0":1}}}', 1),
        (None, '{"q":{"0":9}}', None),
        ('{"q":{"0":5}}', None, None),
        ('{"q":{"0":5}}', "null", None),
    ],
)
def test_how_far_a_query_is_behind(end: str | None, latest: str | None, behind: int | None) -> None:
    assert behind_of(end, latest) == behind
