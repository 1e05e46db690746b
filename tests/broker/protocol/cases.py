"""The records that every client was made to write, and that everybody has to read back."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from quorate.broker.protocol.builder import NO_PRODUCER_STATE, BatchBuilder, Producer
from quorate.broker.protocol.compression import Compression
from quorate.broker.protocol.records import Record

FIXTURES = Path(__file__).parent / "fixtures"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CLIENTS = ("librdkafka", "kafka-python", "java")

T0 = 1_700_000_000_000

RECORDS = (
    Record(0, T0, None, b"no key"),
    Record(1, T0, b"tombstone", None),
    Record(2, T0 + 1, b"", b""),
    Record(3, T0 - 86_400_000, b"back in time", b"a day earlier than the first"),
    Record(4, T0 + 63, b"k" * 63, b"v" * 64),
    Record(5, T0 + 64, b"long", b"0123456789" * 90),
    Record(6, T0 + 10_000_000_000, b"far", b"115 days later"),
    Record(7, T0 + 2, None, None),
    Record(8, T0 + 3, b"headers", b"x", (("a", b"1"), ("empty", b""), ("null", None), ("a", b"twice"))),
    Record(9, T0 + 4, b"\x00\xff", "größe €".encode(), (("schlüssel", bytes(range(256))),)),
    *(Record(10 + i, T0 + 100 * i, b"key-%d" % (i % 7), b"value number %d" % i) for i in range(90)),
)

SMALL = (Record(0, T0, b"k", b"v"), Record(1, T0 + 5, None, b"w", (("h", b"x"),)))
"""For the batches with a producer id, and for mutations: short enough to break at every byte."""


def written_by(client: str) -> tuple[Record, ...]:
    """What a client was given. kafka-python refuses a record of nothing, and headers without a value."""
    if client != "kafka-python":
        return RECORDS
    fixed = {7: RECORDS[7]._replace(value=b""), 8: RECORDS[8]._replace(headers=RECORDS[8].headers[:2])}
    return tuple(fixed.get(record.offset, record) for record in RECORDS)


def fixture(name: str) -> bytes:
    return (FIXTURES / f"{name}.bin").read_bytes()


def build(
    records: Iterable[Record], codec: Compression = Compression.NONE, producer: Producer = NO_PRODUCER_STATE
) -> bytearray:
    """Our own batch of these records."""
    builder = BatchBuilder()
    for record in records:
        builder.append(record.timestamp, record.key, record.value, record.headers)
    return builder.build(codec, producer)
