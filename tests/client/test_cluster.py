"""Real processes whose leaders are killed: a stream has every batch once, and what was acknowledged stands once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.client import EARLIEST, LATEST, Client, ClientSettings, QuorateError, TopicPartition
from quorate.client.batches import BatchBuilder, Producer, read_header, read_records, split_batches
from tests.support.node_processes import PATIENCE_S, Nodes, until

PARTITIONS = 2
VALUE = b"v" * 200
pytestmark = pytest.mark.timeout(600)


def batch(numbers: range, producer: Producer) -> bytearray:
    builder = BatchBuilder()
    for number in numbers:
        builder.append(5, None, b"%d " % number + VALUE)
    return builder.build(producer=producer)


class Writer:
    """An idempotent producer of one partition in its own thread. What it was told is in `acknowledged`."""

    def __init__(self, client: Client, part: TopicPartition) -> None:
        self._client = client
        self.part = part
        self.acknowledged: list[tuple[int, int]] = []
        self.error: QuorateError | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(2 * PATIENCE_S)

    def _run(self) -> None:
        producer = self._client.new_producer()
        first = 0
        try:
            while not self._over.wait(0.001):
                data = batch(range(first, first + 10), Producer(producer.id, producer.epoch, first))
                self.acknowledged.append((self._client.produce(self.part, data).base_offset, first))
                first += 10
        except QuorateError as error:
            self.error = error

    def await_progress(self) -> None:
        goal = len(self.acknowledged) + 30
        until(lambda: len(self.acknowledged) >= goal or self.error is not None, f"{self.part} goes on")
        assert self.error is None, repr(self.error)


class Reader:
    """Reads what is there, again and again from where it was, while nodes come and go."""

    def __init__(self, client: Client, part: TopicPartition) -> None:
        self._client = client
        self._part = part
        self.offsets: list[int] = []
        self.numbers: list[int] = []

    def read(self, start: int, end: int) -> None:
        for data in self._client.stream(self._part, start, end, max_bytes=20_000):
            for one in split_batches(data):
                header = read_header(one)
                self.offsets.append(header.base)
                if not header.control:
                    self.numbers += [int((record.value or b"").split()[0]) for record in read_records(one)]


@contextlib.contextmanager
def writers(client: Client, topic: str) -> Iterator[list[Writer]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Writer(client, TopicPartition(topic, index))) for index in range(PARTITIONS)]


def test_leaders_are_killed(tmp_path: Path) -> None:
    with Nodes(tmp_path) as nodes, Client(ClientSettings(bootstrap=nodes.bootstrap, request_timeout_ms=5_000)) as client:
        client.create_topic("q", PARTITIONS, 3)
        parts = [TopicPartition("q", index) for index in range(PARTITIONS)]
        with writers(client, "q") as work:
            for round_ in range(3):
                for one in work:
                    one.await_progress()
                leader = client.topics(["q"])["q"].partitions[round_ % PARTITIONS].leader
                nodes.kill(leader)
                for one in work:
                    one.await_progress()
                nodes.start(leader)
                nodes.await_ready(leader)
        for one in work:
            assert one.error is None, repr(one.error)
        _check(nodes, client, work, parts)


def _check(nodes: Nodes, client: Client, work: list[Writer], parts: list[TopicPartition]) -> None:
    """Read everything twice: in peace, and while the leader is killed half way."""
    ends = client.offsets(dict.fromkeys(parts, LATEST))
    assert {one.offset for one in client.offsets(dict.fromkeys(parts, EARLIEST)).values()} == {0}
    for one in work:
        calm = Reader(client, one.part)
        calm.read(0, ends[one.part].offset)
        _compare(calm, one)
        hunted = Reader(client, one.part)
        stream = client.stream(one.part, 0, ends[one.part].offset, max_bytes=5_000, prefetch=1)
        begun = [next(stream)]
        leader = client.topics(["q"])["q"].partitions[one.part.partition].leader
        nodes.kill(leader)
        begun += stream
        nodes.start(leader)
        nodes.await_ready(leader)
        hunted.offsets = [read_header(found).base for data in begun for found in split_batches(data)]
        assert hunted.offsets == calm.offsets


def _compare(found: Reader, writer: Writer) -> None:
    assert found.offsets == sorted(set(found.offsets)), "every batch once, in order"
    numbers = len(found.numbers)
    assert found.numbers == list(range(numbers)), "every message once, in order"
    # The last one may have been under way at the end, but whatever was acknowledged is there, and where it was said to be.
    assert numbers >= 10 * len(writer.acknowledged)
    assert {offset for offset, _ in writer.acknowledged} <= set(found.offsets)
