"""The pipelines as they are: their `main`, a local Spark, a cluster of real processes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from bench.peers.processes import await_condition
from quorate.spark.pipelines import PIPELINES
from quorate.spark.pipelines.archive import read_archive
from quorate.spark.pipelines.files import Files
from quorate.spark.pipelines.watch import Progress
from tests.support.broker_cluster import BrokerCluster
from tests.support.queue_contents import contents

pytestmark = pytest.mark.xdist_group("spark")

PARTITIONS = 3
PATIENCE_S = 60.0


class Heard:
    """A watch that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.shown: list[Progress] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    def show(self, progress: Progress) -> None:
        self.shown.append(progress)


class Impatient(Heard):
    """Presses Ctrl-C at the first news of progress."""

    def show(self, progress: Progress) -> None:
        raise KeyboardInterrupt


class Message(NamedTuple):
    key: bytes | None
    value: bytes | None
    partition: int
    headers: tuple[tuple[str, bytes], ...]


def run(name: str, cluster: BrokerCluster, *arguments: str, watch: Heard | None = None) -> tuple[int, Heard]:
    heard = watch if watch is not None else Heard()
    return PIPELINES[name].load().main([*arguments, "--bootstrap", cluster.bootstrap], heard), heard


def produce(cluster: BrokerCluster, queue: str, messages: Iterable[dict[str, Any]]) -> None:
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for message in messages:
        producer.produce(queue, on_delivery=lambda error, _: failed.append(error), **message)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not any(failed)


def numbered(first: int, last: int) -> list[dict[str, Any]]:
    return [
        {"key": f"k{n % 7}", "value": str(n), "partition": n % PARTITIONS, "headers": [("n", str(n).encode())]}
        for n in range(first, last)
    ]


def held(cluster: BrokerCluster, queue: str) -> list[Message]:
    """All that can be read now, in each partition's order."""
    return [
        Message(record.key, record.value, part, tuple((key, value or b"") for key, value in record.headers))
        for part, record in contents(cluster.bootstrap, queue)
    ]


def values(messages: Iterable[Message]) -> Counter[int]:
    return Counter(int(message.value or b"-1") for message in messages)


def until_held(cluster: BrokerCluster, queue: str, count: int) -> list[Message]:
    """What was committed can be read soon afterwards, not at once."""
    await_condition(lambda: len(held(cluster, queue)) >= count, f"{queue} holds {count}", PATIENCE_S, pause_s=0.2)
    return held(cluster, queue)


@pytest.mark.timeout(600)
def test_archived_once_and_replayed_once(session: SparkSession, cluster: BrokerCluster, tmp_path: Path) -> None:
    source, sink, archive = cluster.topic(PARTITIONS), cluster.topic(PARTITIONS), str(tmp_path / "archive")
    produce(cluster, source, numbered(0, 600))
    code, heard = run("archive", cluster, source, "--to", archive, "--max-messages", "250")
    assert code == 0, heard.lines
    produce(cluster, source, numbered(600, 700))
    code, heard = run("archive", cluster, source, "--to", archive)
    assert code == 0, heard.lines
    assert heard.shown[-1].messages == 100
    kept = read_archive(session, archive).collect()
    assert Counter(int(row.value) for row in kept) == Counter(range(700))
    assert all(row.headers[0].value == row.value and row.key == f"k{int(row.value) % 7}".encode() for row in kept)
    assert len({(row.partition, row.offset) for row in kept}) == 700

    replay = ["replay", source, "--archive", archive, "--to", sink, "--state", str(tmp_path / "state")]
    options = ["--step", "200", "--keep-partitions", "--mark"]
    code, heard = run(replay[0], cluster, *replay[1:], *options, watch=Impatient())
    assert code == 0, heard.lines
    assert "stopped" in heard.lines[-1]
    # It was killed between the broker's commit and its own note of it.
    state = Files(session, str(tmp_path / "state"))
    state.remove(f"done/{state.names('done')[-1]}")
    code, heard = run(replay[0], cluster, *replay[1:], *options)
    assert code == 0, heard.lines
    assert heard.shown[-1] == Progress(messages=700, total=700, per_s=heard.shown[-1].per_s, note="step 4 of 4")
    again = until_held(cluster, sink, 700)
    assert values(again) == Counter(range(700))
    for number in range(PARTITIONS):
        order = [int(message.value or b"-1") for message in again if message.partition == number]
        assert order == list(range(number, 700, PARTITIONS))
    assert all(
        dict(message.headers)["quorate-replayed"].startswith(f"{source}/{message.partition}/".encode()) for message in again
    )

    code, heard = run(replay[0], cluster, *replay[1:], "--step", "200")
    assert code == 1
    assert "holds another replay, with other keep_partitions, mark" in heard.lines[-1]


@pytest.mark.timeout(600)
def test_a_time_range_of_a_queue_is_replayed(session: SparkSession, cluster: BrokerCluster, tmp_path: Path) -> None:
    source, sink = cluster.topic(PARTITIONS), cluster.topic(PARTITIONS)
    produce(cluster, source, numbered(0, 100))
    since = _after_last(cluster, source)
    produce(cluster, source, numbered(100, 250))
    until = _after_last(cluster, source)
    produce(cluster, source, numbered(250, 300))
    options = ["--from", str(since), "--until", str(until), "--state", str(tmp_path / "state"), "--rate", "1000"]
    code, heard = run("replay", cluster, source, "--to", sink, *options)
    assert code == 0, heard.lines
    assert values(until_held(cluster, sink, 150)) == Counter(range(100, 250))


def _after_last(cluster: BrokerCluster, queue: str) -> int:
    """A moment after the last message's log time, which has passed."""
    from quorate.client import MAX_TIMESTAMP, Client
    from quorate.client import TopicPartition as Part

    with Client(cluster.bootstrap) as client:
        parts = [Part(queue, number) for number in range(PARTITIONS)]
        last = max(found.timestamp for found in client.offsets(dict.fromkeys(parts, MAX_TIMESTAMP)).values())
    await_condition(lambda: datetime.now(UTC).timestamp() * 1_000 > last + 5, "the clock has gone on", PATIENCE_S)
    return last + 1


@pytest.mark.timeout(600)
def test_traffic_to_parquet_and_to_a_queue(session: SparkSession, cluster: BrokerCluster, tmp_path: Path) -> None:
    source, sink, folder = cluster.topic(PARTITIONS), cluster.topic(PARTITIONS), str(tmp_path / "traffic")
    options = [source, "--to-parquet", folder, "--to-queue", sink, "--event-time", "json:at", "--key-prefix", "until::"]

    def sent(minute: int, number: int, region: str) -> dict[str, Any]:
        at = f"2026-11-18T12:{minute:02}:00Z"
        return {"key": f"{region}:{number}", "value": json.dumps({"at": at}), "partition": number % PARTITIONS}

    produce(cluster, source, [sent(0, n, "eu") for n in range(40)] + [sent(1, n, "us") for n in range(20)])
    # Half an hour later: the first minutes are over, and what still comes of them is too late.
    produce(cluster, source, [sent(30, n, "eu") for n in range(PARTITIONS)])
    code, heard = run("traffic", cluster, *options, "--lateness", "5m")
    assert code == 0, heard.lines
    produce(cluster, source, [sent(0, n, "eu") for n in range(6)] + [sent(59, n, "eu") for n in range(PARTITIONS)])
    code, heard = run("traffic", cluster, *options, "--lateness", "5m")
    assert code == 0, heard.lines

    size = len(json.dumps({"at": "2026-11-18T12:00:00Z"}))
    wanted = {("eu", 0): 40, ("us", 1): 20, ("eu", 30): PARTITIONS}
    rows = session.read.parquet(folder).collect()
    assert {(row.prefix, row.minute.minute): row.messages for row in rows} == wanted
    assert len(rows) == len(wanted)
    assert {row.bytes for row in rows if row.prefix == "us"} == {20 * size + sum(len(f"us:{n}") for n in range(20))}
    told = [json.loads(message.value or b"{}") for message in until_held(cluster, sink, len(wanted))]
    assert {(row["prefix"], int(row["minute"][14:16])): row["messages"] for row in told} == wanted
    assert len(told) == len(wanted)
    assert {row["queue"] for row in told} == {source}


@pytest.mark.timeout(600)
def test_an_output_and_a_checkpoint_that_do_not_belong_together(
    session: SparkSession, cluster: BrokerCluster, tmp_path: Path
) -> None:
    source, archive = cluster.topic(PARTITIONS), str(tmp_path / "archive")
    produce(cluster, source, numbered(0, 30))
    assert run("archive", cluster, source, "--to", archive)[0] == 0
    code, heard = run("archive", cluster, source, "--to", archive, "--checkpoint", str(tmp_path / "new"))
    assert code == 1
    assert "would write messages a second time" in heard.lines[-1]
    code, heard = run("traffic", cluster, source, "--to-parquet", archive)
    assert code == 1
    assert "belongs to another pipeline (archive)" in heard.lines[-1]
    code, heard = run(
        "archive", cluster, source, "--to", str(tmp_path / "b"), "--checkpoint", f"{archive}/_quorate/checkpoint"
    )
    assert code == 1
    assert "was made with another output" in heard.lines[-1]
    assert read_archive(session, archive).count() == 30


@pytest.mark.timeout(600)
def test_what_is_not_there_is_one_line(session: SparkSession, cluster: BrokerCluster, tmp_path: Path) -> None:
    source, archive = cluster.topic(PARTITIONS), str(tmp_path / "archive")
    code, heard = run("archive", cluster, "no-such-queue", "--to", archive)
    assert code == 1
    assert "no-such-queue" in heard.lines[-1], heard.lines
    assert "\n" not in heard.lines[-1]
    code, heard = run("replay", cluster, source, "--to", "no-such-queue", "--state", str(tmp_path / "s"))
    assert (code, heard.lines) == (1, ["error: there is no queue 'no-such-queue'"])
    code, heard = run("replay", cluster, source, "--archive", str(tmp_path), "--to", source, "--state", str(tmp_path / "s2"))
    assert code == 1
    assert "is no archive" in heard.lines[-1]
