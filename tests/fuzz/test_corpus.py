"""The corpus, replayed without the fuzzer: what it ever stumbled over stays fixed."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.broker.protocol.cases import FIXTURES
from tests.fuzz.targets import TARGETS, Broken, batch

CORPUS = Path(__file__).parent / "corpus"
SEEDS = sorted(path for name in TARGETS for path in (CORPUS / name).iterdir())


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_seed(path: Path) -> None:
    TARGETS[path.parent.name](path.read_bytes())


def test_captured_batches_pass_both_ways() -> None:
    for path in FIXTURES.glob("*.bin"):
        for way in (b"\0", b"\1"):
            batch(way + path.read_bytes())


@given(st.binary(max_size=300))
def test_noise(data: bytes) -> None:
    batch(data)


def test_the_target_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.targets.decode_batch", lambda data: _Nonsense())
    with pytest.raises(Broken):
        batch(b"\0" + bytes(100))


class _Nonsense:
    base, last, kind, data = 5, 4, None, b""
