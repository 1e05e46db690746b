"""What we write is read by other people's clients: kafka-python, aiokafka's C codec, and librdkafka over a socket."""

import time
import warnings
from collections.abc import Sequence
from typing import cast

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from confluent_kafka import Consumer, TopicPartition
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.broker.protocol.compression import Compression
from quorate.broker.protocol.records import Headers, Record, read_records
from quorate.consensus.batch.control import encode_control
from quorate.consensus.batch.errors import BadBatch
from quorate.consensus.batch.header import seal, stamp, stamp_append_time
from quorate.consensus.core import Batch, BatchKind, Configuration, Offset, Term, replica_id
from tests.broker.protocol.cases import RECORDS, SMALL, build
from tests.support.fake_kafka import TOPIC, FakeKafka

with warnings.catch_warnings():
    # On 3.11 and 3.12 kafka-python reads its schemas through a deprecated function, when it is imported.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record import MemoryRecords

DEADLINE_S = 60


@pytest.mark.parametrize("codec", Compression)
def test_kafka_python_reads_ours(codec: Compression) -> None:
    (batch,) = _batches(bytes(build(RECORDS, codec)))
    assert batch.validate_crc()
    got = [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]
    assert got == list(RECORDS)


def _batches(data: bytes) -> list[DefaultRecordBatch]:
    records, found = MemoryRecords(data), []
    while records.has_next():
        found.append(records.next_batch())
    return found


@pytest.mark.parametrize("codec", Compression)
def test_aiokafka_reads_ours(codec: Compression) -> None:
    batch = DefaultRecordBatch(bytes(build(RECORDS, codec)))
    assert batch.validate_crc()
    assert [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch] == list(RECORDS)


def consume(batches: Sequence[bytes], wanted: int) -> list[Record]:
    """What librdkafka's consumer makes of these batches."""
    records: list[Record] = []
    settings = {"group.id": "g", "enable.auto.commit": False, "check.crcs": True, "fetch.wait.max.ms": 10}
    with FakeKafka(batches) as broker:
        consumer = Consumer({**settings, "bootstrap.servers": broker.address})
        try:
            consumer.assign([TopicPartition(TOPIC, 0, 0)])
            deadline = time.monotonic() + DEADLINE_S
            while len(records) < wanted and time.monotonic() < deadline:
                message = consumer.poll(0.1)
                if message is not None:
                    assert message.error() is None, message.error()
                    offset = message.offset()
                    assert offset is not None
                    headers = cast("Headers", tuple(map(tuple, message.headers() or ())))
                    records.append(Record(offset, message.timestamp()[1], message.key(), message.value(), headers))
        finally:
            consumer.close()
    return records


def test_librdkafka_reads_ours() -> None:
    """Every codec, one batch after the other, and the broker's own time on the last."""
    batches, expected = [], []
    for index, codec in enumerate(Compression):
        data = build(RECORDS, codec)
        base = index * len(RECORDS)
        stamp(data, base, 4)
        if codec is Compression.ZSTD:
            stamp_append_time(data, 1_800_000_000_000)
        batches.append(bytes(data))
        time_of = (lambda r: 1_800_000_000_000) if codec is Compression.ZSTD else (lambda r: r.timestamp)
        expected += [r._replace(offset=base + r.offset, timestamp=time_of(r)) for r in RECORDS]
    assert consume(batches, len(expected)) == expected


def _mixed_log() -> list[bytes]:
    """A no-op, two records, a configuration, two records: offsets 0, 1-2, 3, 4-5."""
    voters = Configuration(voters=frozenset(map(replica_id, (1, 2, 3))))
    first, second = build(SMALL), build(SMALL)
    stamp(first, 1, 1)
    stamp(second, 4, 1)
    noop = Batch(Offset(0), Offset(0), Term(1), BatchKind.NOOP, b"")
    config = Batch(Offset(3), Offset(3), Term(1), BatchKind.CONFIG, voters.encode())
    return [encode_control(noop), bytes(first), encode_control(config), bytes(second)]


def test_librdkafka_skips_our_control_batches() -> None:
    log = _mixed_log()
    got = consume(log, 4)
    assert [record.offset for record in got] == [1, 2, 4, 5]
    assert [record._replace(offset=0) for record in got] == [record._replace(offset=0) for record in (*SMALL, *SMALL)]


def test_the_python_clients_see_them_as_control_batches() -> None:
    log = _mixed_log()
    assert [batch.is_control_batch for batch in _batches(b"".join(log))] == [True, False, True, False]
    assert [DefaultRecordBatch(data).is_control_batch for data in log] == [True, False, True, False]


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(61, 200), st.integers(0, 255)), max_size=4))
def test_what_we_accept_aiokafka_reads_the_same(changes: list[tuple[int, int]]) -> None:
    """Damaged behind a right checksum. aiokafka may be stricter about the names of headers, we are about all else."""
    data = build(SMALL)
    for at, byte in changes:
        data[61 + at % (len(data) - 61)] = byte
    seal(data)
    try:
        ours = list(read_records(data))
    except BadBatch:
        return
    try:
        theirs = [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in DefaultRecordBatch(bytes(data))]
    except UnicodeDecodeError:
        assert any("\udc80" <= letter <= "\udcff" for record in ours for name, _ in record.headers for letter in name)
        return
    assert ours == theirs
