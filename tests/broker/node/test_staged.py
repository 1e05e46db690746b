"""Staged records on real processes: nothing is seen before its commit, everything once after it, whoever is killed when."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.broker.protocol.kafka.apis import Api
from quorate.broker.protocol.kafka.errors import Error
from tests.support.node_processes import Nodes, until
from tests.support.stager import Failed, Part, Stager, read_all, wish

pytestmark = pytest.mark.timeout(240)
PARTITIONS = 3
BATCHES = 12


def stager_of(nodes: Nodes) -> Stager:
    return Stager(lambda: [address for address in nodes.bootstrap.split(",") if address])


def stage_batch(stager: Stager, batch: int) -> list[Part]:
    """An attempt: two tasks, each of which stages in every partition."""
    return [
        stager.stage("q", partition, [f"{batch}-{task}-{partition}-{number}" for number in range(9)], batches=3)
        for task in range(2)
        for partition in range(PARTITIONS)
    ]


def values_of(batch: int, partition: int) -> list[str]:
    return [f"{batch}-{task}-{partition}-{number}" for task in range(2) for number in range(9)]


def test_a_commit_is_seen_whole_and_once_and_what_is_dropped_never(tmp_path: Path) -> None:
    with Nodes(tmp_path) as nodes:
        nodes.create("q", PARTITIONS)
        stager = stager_of(nodes)
        first, second, dropped = (stage_batch(stager, 0) for _ in range(3))
        assert read_all(nodes.bootstrap, "q", 0) == [], "nothing is seen before its commit"
        stager.drop(dropped)
        with pytest.raises(Failed, match="cannot be committed") as caught:
            stager.commit("a", 0, dropped)
        assert caught.value.code == Error.INVALID_TXN_STATE
        lacking = [first[0]._replace(records=10), *first[1:]]
        with pytest.raises(Failed, match="9 records are here, not 3 of 10"):
            stager.commit("a", 0, lacking)
        assert read_all(nodes.bootstrap, "q", 1) == []
        said = stager.commit("a", 0, first)
        assert (said["outcome"], said["published"]) == (0, True)
        said = stager.commit("a", 0, second)
        assert (said["outcome"], said["published"]) == (1, True), "another attempt came first"
        assert stager.commit("a", 0, first)["outcome"] == 0, "the same attempt asks again"
        for partition in range(PARTITIONS):
            assert read_all(nodes.bootstrap, "q", partition) == values_of(0, partition)
        with pytest.raises(Failed):
            stager.commit("a", 1, second)
        assert stager.commit("a", 1, [])["outcome"] == 0, "a batch may be empty"
        assert stager.commit("a", 0, [])["outcome"] == 1


def test_a_commit_into_a_queue_that_is_deleted_is_refused_and_leaves_the_others_alone(tmp_path: Path) -> None:
    with Nodes(tmp_path) as nodes:
        nodes.create("q", 1)
        nodes.create("gone", 1)
        stager = stager_of(nodes)
        kept, lost = stager.stage("q", 0, ["kept"]), stager.stage("gone", 0, ["lost"])
        nodes.delete("gone")
        body = {"application_id": "a", "batch_id": 0, "timeout_ms": 1_000, "stages": []}
        wishes = [{"producer_id": part.producer, "parts": [wish(part)]} for part in (kept, lost)]
        answer = stager.ask_any(Api.COMMIT_STAGED, body | {"stages": wishes})
        assert answer["error_code"] == Error.UNKNOWN_TOPIC_OR_PARTITION
        assert read_all(nodes.bootstrap, "q", 0) == []
        assert stager.commit("a", 0, [kept])["published"]
        assert read_all(nodes.bootstrap, "q", 0) == ["kept"]


class Killer:
    """Kills one node after the other with kill -9 and starts it again, as long as it is entered."""

    def __init__(self, nodes: Nodes, seed: int) -> None:
        self._nodes = nodes
        self._random = random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.kills = 0
        self.failure: BaseException | None = None

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._over.wait(self._random.uniform(0.1, 1.2)):
                node = self._random.choice(sorted(self._nodes.running))
                self._nodes.kill(node)
                self.kills += 1
                self._over.wait(self._random.uniform(0.0, 0.8))
                self._nodes.start(node)
                self._nodes.await_ready(node)
        except BaseException as failure:
            self.failure = failure
            raise


def commit_batch(stager: Stager, rng: random.Random, batch: int) -> None:
    """Commit a batch as a job with restarts does: attempts that are given up, and attempts that compete."""
    while True:
        attempts = [stage_batch(stager, batch) for _ in range(rng.choice((1, 1, 2)))]
        if rng.random() < 0.2:
            with contextlib.suppress(Failed):
                stager.drop(attempts[0])
        outcomes = [outcome for parts in attempts for outcome in committed(stager, batch, parts)]
        if outcomes:
            return


def committed(stager: Stager, batch: int, parts: list[Part]) -> Iterator[int]:
    try:
        yield stager.commit("a", batch, parts)["outcome"]
    except Failed as failure:
        if failure.code != Error.INVALID_TXN_STATE:
            raise


@pytest.mark.parametrize("seed", [1])
def test_kill_9_at_any_time(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with Nodes(tmp_path) as nodes:
        nodes.create("q", PARTITIONS)
        stager = stager_of(nodes)
        with Killer(nodes, seed) as killer:
            for batch in range(BATCHES):
                commit_batch(stager, rng, batch)
        assert killer.failure is None
        assert killer.kills > 0
        for node in nodes.running:
            nodes.await_ready(node)
        expected = {
            partition: sorted(value for batch in range(BATCHES) for value in values_of(batch, partition))
            for partition in range(PARTITIONS)
        }

        def whole() -> bool:
            return all(sorted(read_all(nodes.bootstrap, "q", one)) == expected[one] for one in expected)

        until(whole, "everything is published")
        for partition in range(PARTITIONS):
            found = read_all(nodes.bootstrap, "q", partition)
            for batch in range(BATCHES):
                for task in range(2):
                    prefix = f"{batch}-{task}-{partition}-"
                    assert [one for one in found if one.startswith(prefix)] == [f"{prefix}{n}" for n in range(9)]
            order = list(dict.fromkeys(int(one.split("-")[0]) for one in found))
            assert order == list(range(BATCHES)), "commits are published in the order in which they were decided"


def test_closed_time_of_an_idle_queue_goes_on_rising(tmp_path: Path) -> None:
    with Nodes(tmp_path, uncertainty_ms=20) as nodes:
        nodes.create("q", 1)
        stager = stager_of(nodes)
        seen = [stager.closed_time("q", 0)[0]]
        assert seen[0] > time.time() * 1000 - 60_000
        for _ in range(3):
            closed, end = stager.closed_time("q", 0, seen[-1] + 100, 5_000)
            assert closed >= seen[-1] + 100
            seen.append(closed)
        nodes.kill(nodes.leader("q"))
        assert stager.closed_time("q", 0, seen[-1] + 100, 20_000)[0] >= seen[-1] + 100, "the next leader goes on"
        assert stager.closed_time("q", 0)[1] >= end
