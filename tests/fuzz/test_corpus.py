"""The corpus, replayed without the fuzzer: what it ever stumbled over stays fixed."""

from pathlib import Path
from random import Random
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.protocol.kafka.apis import ALL_VERSIONS, Api
from quorate.broker.protocol.kafka.codec import encode_request_frame, encode_response
from quorate.broker.protocol.kafka.fetch import FetchRequest
from quorate.broker.protocol.kafka.fetched import FetchAnswer
from quorate.client.connection import SPOKEN
from quorate.consensus.storage import opening
from quorate.consensus.storage.database import Database
from quorate.consensus.storage.level import LevelLog
from quorate.consensus.storage.promise import Promise
from quorate.consensus.storage.settings import StorageSettings
from tests.broker.protocol.cases import FIXTURES
from tests.broker.protocol.kafka.values import CASES, REQUESTS, Case, draw
from tests.fuzz.targets import TARGETS, target
from tests.fuzz.targets.batches import batch
from tests.fuzz.targets.expect import Broken
from tests.fuzz.targets.logs import LOGS, MemoryDatabase, read
from tests.fuzz.targets.replies import answers
from tests.fuzz.targets.requests import kafka

CORPUS = Path(__file__).parent / "corpus"
SEEDS = sorted(path for name in TARGETS for path in (CORPUS / name).iterdir())


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_seed(path: Path) -> None:
    target(path.parent.name)(path.read_bytes())


def test_captured_batches_pass_both_ways() -> None:
    for path in FIXTURES.glob("*.bin"):
        for way in (b"\0", b"\1"):
            batch(way + path.read_bytes())


@given(st.binary(max_size=300))
def test_noise(data: bytes) -> None:
    batch(data)


@given(st.sampled_from(REQUESTS), st.integers(0, 1 << 32))
def test_requests_with_a_wound(case: Case, seed: int) -> None:
    """A request in which a few bytes are others, or missing: what the fuzzer would try first."""
    random = Random(seed)
    frame = bytearray(encode_request_frame(case.api, case.version, 1, "c", draw(case, random))[4:])
    for _ in range(random.randrange(4)):
        frame[random.randrange(len(frame))] = random.choice((0, 1, 0x7F, 0x80, 0xFF))
    kafka(bytes(frame[: random.randrange(len(frame)) + 1] if random.random() < 1 / 3 else frame))


def test_every_request_has_a_seed() -> None:
    frames = [path.read_bytes() for path in (CORPUS / "kafka").iterdir()]
    assert {Api(int.from_bytes(frame[:2], "big")) for frame in frames} == set(ALL_VERSIONS)


def test_every_answer_has_a_seed() -> None:
    heads = [path.read_bytes()[:2] for path in (CORPUS / "answers").iterdir()]
    assert {Api(int.from_bytes(head, "big")) for head in heads} >= set(SPOKEN)


def test_the_answers_target_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.targets.replies.decode_fetch_response", lambda version, body: FetchAnswer(0, 0, 0, []))
    seed = next(path.read_bytes() for path in (CORPUS / "answers").iterdir() if path.name.startswith("fetch"))
    with pytest.raises(Broken):
        answers(seed)


@given(st.sampled_from(CASES), st.integers(0, 1 << 32))
def test_answers_with_a_wound(case: Case, seed: int) -> None:
    random = Random(seed)
    if case.direction == "response":
        body = bytearray(encode_response(case.api, case.version, draw(case, random)))
        for _ in range(random.randrange(4)):
            body[random.randrange(len(body))] = random.choice((0, 1, 0x7F, 0x80, 0xFF))
        answers(case.api.to_bytes(2, "big") + case.version.to_bytes(2, "big") + b"\0" + body)


def test_the_requests_target_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tests.fuzz.targets.requests.decode_fetch", lambda version, body: FetchRequest(0, 0, 0, 0, 0, 0, [("t", [])])
    )
    frame = next(path.read_bytes() for path in (CORPUS / "kafka").iterdir() if path.name.startswith("fetch"))
    with pytest.raises(Broken):
        kafka(frame)


def test_the_target_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.targets.batches.decode_batch", lambda data: _Nonsense())
    with pytest.raises(Broken):
        batch(b"\0" + bytes(100))


@pytest.mark.parametrize("content", LOGS)
def test_the_logs_that_are_changed_are_whole(content: dict[bytes, bytes]) -> None:
    database = cast(Database, MemoryDatabase(dict(content)))
    view = opening.load(database)
    assert view is not None
    read(LevelLog(database.path, StorageSettings(), database, cast(Promise, None), view), view)


class _Nonsense:
    base, last, kind, data = 5, 4, None, b""
