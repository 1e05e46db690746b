"""Closed time, stages and their commit, on real processes, while nodes are killed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from quorate.client import LATEST, BadInput, Client, ClientSettings, RequestFailed, Stage, StagePart, TopicPartition
from quorate.client.batches import BatchBuilder, Producer, read_header, read_records, split_batches
from tests.support.node_processes import Nodes, until

PARTS = [TopicPartition("q", index) for index in range(2)]
PER_PART = 3
pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("client-staging")]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with Nodes(tmp_path_factory.mktemp("staging")) as running:
        yield running


@pytest.fixture(scope="module")
def client(nodes: Nodes) -> Iterator[Client]:
    with Client(ClientSettings(bootstrap=nodes.bootstrap, request_timeout_ms=5_000)) as made:
        made.create_topic("q", len(PARTS), 3)
        yield made


def staged(client: Client, word: str) -> Stage:
    """Some batches for each partition."""
    me = client.new_producer()
    for part in PARTS:
        for number in range(PER_PART):
            builder = BatchBuilder()
            builder.append(5, None, f"{word} {part.partition} {number}".encode())
            data = builder.build(producer=Producer(me.id, 0, number))
            first = client.stage(part, data)
            assert client.stage(part, data) == first, "a repetition is the same stage"
    return Stage(me.id, tuple(StagePart(*part, PER_PART, PER_PART) for part in PARTS))


def readable(client: Client) -> list[str]:
    found = []
    for part in PARTS:
        for data in client.stream(part, 0, client.offsets({part: LATEST})[part].offset, max_bytes=1 << 20):
            for batch in split_batches(data):
                if not read_header(batch).control:
                    found += [(record.value or b"").decode() for record in read_records(batch)]
    return found


def of(word: str) -> list[str]:
    return [f"{word} {part.partition} {number}" for part in PARTS for number in range(PER_PART)]


def seen(client: Client, word: str) -> list[str]:
    return [value for value in readable(client) if value.split()[0] == word]


def test_a_commit_shows_all_of_it_once(client: Client) -> None:
    one, other = staged(client, "one"), staged(client, "other")
    assert not seen(client, "one")
    assert client.commit_staged("app", 5, [one], timeout_ms=20_000) == ("committed", True)
    assert seen(client, "one") == of("one")
    assert client.commit_staged("app", 5, [one], timeout_ms=20_000).outcome == "committed"
    assert client.commit_staged("app", 5, [other], timeout_ms=20_000).outcome == "already"
    assert client.commit_staged("app", 4, [other], timeout_ms=20_000).outcome == "already"
    assert seen(client, "one") == of("one")
    assert not seen(client, "other")


def test_what_is_not_whole_is_not_committed(client: Client) -> None:
    half = staged(client, "half")
    more = Stage(half.producer_id, tuple(part._replace(batches=PER_PART + 1) for part in half.parts))
    with pytest.raises(RequestFailed) as error:
        client.commit_staged("whole", 0, [more], timeout_ms=5_000)
    assert error.value.definite
    assert not error.value.retriable
    client.drop_staged([half])
    with pytest.raises(RequestFailed):
        client.commit_staged("whole", 0, [half], timeout_ms=5_000)
    with pytest.raises(BadInput):
        client.commit_staged("", 0, [half], timeout_ms=5_000)
    assert not seen(client, "half")


def test_closed_time_moves_on(client: Client) -> None:
    # Nodes of a test do not know how far off their clocks are, unless the kernel does.
    place = client.closed_time(PARTS)
    assert set(place) == set(PARTS)
    end = client.offsets({PARTS[0]: LATEST})[PARTS[0]].offset
    assert place[PARTS[0]].end_offset <= end
    now = int(time.time() * 1000)
    later = client.closed_time(PARTS, at_least=now, max_wait_ms=300)
    assert all(later[part].closed_ms >= place[part].closed_ms for part in PARTS)


def test_leaders_die_between_stage_and_commit(nodes: Nodes, client: Client) -> None:
    for round_ in range(2):
        word = f"killed-{round_}"
        stage = staged(client, word)
        leader = client.topics(["q"])["q"].partitions[round_ % len(PARTS)].leader
        nodes.kill(leader)
        assert client.commit_staged("hunted", round_, [stage], timeout_ms=30_000).outcome == "committed"
        nodes.start(leader)
        nodes.await_ready(leader)
        until(lambda word=word: len(seen(client, word)) >= len(of(word)), "all of it is published")  # type: ignore[misc]
        assert seen(client, word) == of(word)
