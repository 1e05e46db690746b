"""What is special to the LevelDB log: room that is given back, and the formats of its files."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from quorate.consensus.core import HardState, LogStart, Millis, Offset, Persist, ReplicaId, Term, Token
from quorate.consensus.storage import journal, keys
from quorate.consensus.storage.api import StorageFailed
from quorate.consensus.storage.keys import BadValue, Beginning, Index, Mark
from quorate.consensus.storage.manifest import BadManifest, live_tables
from quorate.consensus.storage.promise import Promise
from quorate.consensus.storage.settings import StorageSettings
from tests.consensus.storage.conftest import Opener
from tests.support.batches import THREE, append, data_batch, run_of

TOKEN = Token(1, Term(1), Offset(0), Term(1))
INT64 = st.integers(-1, (1 << 63) - 1)
UINT64 = st.integers(0, (1 << 64) - 1)


def size_on_disk(path: Path) -> int:
    return sum(file.stat().st_size for file in (path / "db").iterdir())


def test_trimming_gives_the_room_back(open_log: Opener) -> None:
    log = open_log()
    for first in range(0, 400, 20):
        log.write([append(*run_of(first, 20, size=10_000))])
    before = size_on_disk(log.path)
    assert before > 4_000_000
    log.write([Persist(TOKEN, sync=False, start=LogStart(Offset(389), Term(1), THREE))])
    while log.trim():
        pass
    assert size_on_disk(log.path) < before / 4
    assert [batch.base for batch in log.read(Offset(390), 1 << 30)] == list(range(390, 400))


def test_a_log_that_is_open_cannot_be_opened(open_log: Opener) -> None:
    log = open_log()
    log.write([append(data_batch(0))])
    with pytest.raises(StorageFailed, match="open already"):
        open_log()
    log.write([append(data_batch(1))])
    log.close()
    assert open_log().last == 1


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="trim_batches must be a positive whole number"):
        StorageSettings(trim_batches=0)


@given(UINT64, UINT64, UINT64, INT64, INT64, UINT64, UINT64, INT64, UINT64)
def test_marks_come_back(
    counter: int, term: int, vote: int, commit: int, last: int, last_term: int, size: int, stamp: int, at: int
) -> None:
    hard_state = HardState(Term(term), ReplicaId(vote), Offset(commit))
    mark = Mark(counter, hard_state, Offset(last), Term(last_term), size, Millis(stamp), at)
    assert keys.decode_mark(keys.encode_mark(mark)) == mark


@given(st.lists(st.tuples(INT64, UINT64), max_size=5), st.lists(INT64, max_size=3), st.booleans())
def test_indexes_come_back(runs: list[tuple[int, int]], configurations: list[int], has_state: bool) -> None:
    index = Index(
        Beginning(LogStart(Offset(4), Term(2), THREE), 77, Millis(5)),
        Offset(9),
        has_state,
        tuple(Offset(first) for first, _ in runs),
        tuple(Term(term) for _, term in runs),
        tuple((Offset(offset), THREE) for offset in configurations),
    )
    assert keys.decode_index(keys.encode_index(index)) == index


@given(st.binary(max_size=300), st.booleans())
def test_values_that_make_no_sense_are_refused(value: bytes, sealed: bool) -> None:
    value = keys._sealed(value) if sealed else value
    for decode in (keys.decode_mark, keys.decode_index, keys.decode_state):
        with suppress(BadValue):
            decode(value)
    with pytest.raises(BadValue):
        keys.decode_index(value)
    assert keys.parse_key(value) is None or len(value) == 10


@given(st.integers(0, 1 << 62), st.integers(0, 1 << 62))
def test_keys_sort_as_the_log_does(one: int, other: int) -> None:
    low, high = sorted((one, other))
    at_low = [keys.state_key(low - 1), keys.index_key(low), keys.mark_key(low - 1), keys.batch_key(low)]
    assert at_low == sorted(at_low)
    assert low == high or at_low[-1] < keys.state_key(high - 1)
    assert [keys.parse_key(key) for key in at_low] == [(low, part) for part in range(4)]


@given(data=st.binary(max_size=400))
def test_any_bytes_are_some_journal(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any.log"
    file.write_bytes(data)
    found = journal.inspect(file)
    assert 0 <= found.whole <= found.size == len(data)
    if found.damage is None and found.whole:
        file.write_bytes(data[: found.whole])
        with suppress(BadManifest):
            live_tables(file)


def test_the_journal_is_read_as_leveldb_writes_it(open_log: Opener) -> None:
    log = open_log(settings=StorageSettings())
    for first in range(0, 50, 5):
        log.write([append(*run_of(first, 5, size=9_000))])
    log.close()
    file = next((log.path / "db").glob("*.log"))
    found = journal.inspect(file)
    assert (found.records, found.damage) == (11, None)
    assert found.whole == found.size == file.stat().st_size
    assert len(journal.records(file)) == 11


def test_the_manifest_is_read_as_leveldb_writes_it(open_log: Opener) -> None:
    log = open_log()
    for first in range(0, 400, 20):
        log.write([append(*run_of(first, 20, size=10_000))])
    log.close()
    tables = {int(file.stem) for file in (log.path / "db").glob("*.ldb")}
    manifest = next((log.path / "db").glob("MANIFEST-*"))
    live = live_tables(manifest)
    assert len(live) > 10
    assert live <= tables
    assert len(tables - live) <= 1, "only one that was being written when the log was closed"


def test_a_promise_survives_a_torn_write(tmp_path: Path) -> None:
    file = tmp_path / "promise"
    promise = Promise(file)
    assert promise.counter == 0
    for counter in range(1, 10):
        promise.raise_to(counter)
    promise.close()
    content = file.read_bytes()
    for at in range(len(content)):
        file.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
        again = Promise(file)
        assert again.counter in (8, 9)
        again.close()
    file.write_bytes(b"\xff" * 1024)
    again = Promise(file)
    assert again.counter is None
    again.close()
