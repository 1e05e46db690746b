"""What real producers wrote is read right in every field, and what we write is the same bytes where there is one way to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.protocol.builder import BatchBuilder, Producer
from quorate.broker.protocol.compression import Compression
from quorate.broker.protocol.records import Record, read_records, split_batches
from quorate.consensus.batch.errors import BadBatch, Reason
from quorate.consensus.batch.header import read_header, stamp, stamp_append_time
from quorate.consensus.batch.validate import validate
from tests.broker.protocol.cases import CLIENTS, CODECS, RECORDS, SMALL, build, fixture, written_by
from tests.support.fake_kafka import PRODUCER_EPOCH, PRODUCER_ID

LEADER_EPOCH = slice(12, 16)
"""Java leaves -1 there, the others 0. It is the broker's to write, and outside of the checksum."""


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("client", CLIENTS)
def test_captured_batches_are_read_right(client: str, codec: str) -> None:
    data = fixture(f"{client}-{codec}")
    records = written_by(client)
    header = validate(data)
    assert header.compression == Compression[codec.upper()]
    assert (header.base, header.records, header.last_delta) == (0, len(records), len(records) - 1)
    assert (header.base_timestamp, header.max_timestamp) == (records[0].timestamp, max(r.timestamp for r in records))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert tuple(read_records(data)) == records


@pytest.mark.parametrize("client", CLIENTS)
def test_ours_is_byte_for_byte_theirs(client: str) -> None:
    data = bytearray(fixture(f"{client}-none"))
    ours = build(written_by(client))
    data[LEADER_EPOCH] = ours[LEADER_EPOCH]
    assert ours == data


@pytest.mark.parametrize("client", CLIENTS)
def test_ours_is_byte_for_byte_theirs_with_a_producer_id(client: str) -> None:
    data = bytearray(fixture(f"{client}-idempotent"))
    ours = build(SMALL, producer=Producer(PRODUCER_ID, PRODUCER_EPOCH, 0))
    data[LEADER_EPOCH] = ours[LEADER_EPOCH]
    assert ours == data
    header = validate(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (PRODUCER_ID, PRODUCER_EPOCH, 0)


def test_java_is_met_in_every_byte() -> None:
    assert build(RECORDS) == fixture("java-none")


@pytest.mark.parametrize("codec", Compression)
def test_each_codec_there_and_back(codec: Compression) -> None:
    large = [*RECORDS, Record(len(RECORDS), 5, None, b"0123456789abcdef" * 20_000)]  # several blocks of snappy and lz4
    data = build(large, codec)
    assert validate(data).compression == codec
    assert list(read_records(data)) == large


def test_offsets_and_times_follow_the_header() -> None:
    data = build(SMALL)
    stamp(data, 1 << 40, 9)
    assert [record.offset for record in read_records(data)] == [1 << 40, (1 << 40) + 1]
    assert [record.timestamp for record in read_records(data)] == [record.timestamp for record in SMALL]
    stamp_append_time(data, 777)
    assert [record.timestamp for record in read_records(memoryview(data))] == [777, 777]


def test_the_builder_knows_its_size() -> None:
    builder = BatchBuilder()
    assert builder.size == 61
    for record in RECORDS:
        builder.append(*record[1:])
        assert builder.size == len(builder.build())
    assert builder.count == len(RECORDS)


def test_a_transactional_batch_says_so() -> None:
    builder = BatchBuilder()
    builder.append(1, None, b"v")
    data = builder.build(producer=Producer(1, 2, 3), transactional=True)
    assert read_header(data).transactional
    validate(data)


def test_what_cannot_be_built() -> None:
    builder = BatchBuilder()
    with pytest.raises(BadBatch) as caught:
        builder.build()
    assert caught.value.reason is Reason.COUNT
    for timestamp, headers in ((1 << 63, ()), (0, (("\ud800", None),))):
        with pytest.raises(BadBatch):
            builder.append(timestamp, None, None, headers)
    assert (builder.count, builder.size) == (0, 61)
    builder.append(0, None, None)
    with pytest.raises(BadBatch):
        builder.build(producer=Producer(1 << 63, 0, 0))


def test_a_fetched_buffer_is_split_and_a_cut_tail_left_out() -> None:
    one, two = fixture("java-none"), fixture("librdkafka-zstd")
    whole = one + two
    assert [bytes(part) for part in split_batches(whole)] == [one, two]
    for size in (0, 11, 60, len(one) - 1):
        assert list(split_batches(whole[:size])) == []
    for size in (len(one), len(one) + 60, len(whole) - 1):
        assert [bytes(part) for part in split_batches(whole[:size])] == [one]
    with pytest.raises(BadBatch):
        list(split_batches(one + bytes(61)))


def test_a_header_name_that_is_no_text_keeps_its_bytes() -> None:
    data = build([Record(0, 0, None, None, (("\udcff\udc80x", b"1"),))])
    assert b"\xff\x80x" in data
    (record,) = read_records(data)
    assert build([record]) == data


_blob = st.none() | st.binary(max_size=200)
_record = st.tuples(
    st.integers(-1, 253_402_300_799_999),
    _blob,
    _blob,
    st.lists(st.tuples(st.text(max_size=20).filter(lambda name: name.isprintable()), _blob), max_size=4).map(tuple),
)


@given(st.lists(_record, min_size=1, max_size=100), st.sampled_from(Compression))
def test_any_records_there_and_back(rows: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
                                    codec: Compression) -> None:  # fmt: skip
    records = [Record(offset, *row) for offset, row in enumerate(rows)]
    assert list(read_records(build(records, codec))) == records
