"""Building a batch from records, byte for byte as librdkafka and the Java client do where there is only one way.

Not here: reading (`records`), and the header fields that a broker patches later (`quorate.consensus.batch.header`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from quorate.broker.protocol.compression import Compression, deflate
from quorate.consensus.batch.errors import BadBatch, Reason
from quorate.consensus.batch.header import (
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    NO_EPOCH,
    NO_PRODUCER,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    Header,
    pack_header,
    seal,
)
from quorate.consensus.batch.varint import INT32_MAX, INT64_MAX, INT64_MIN, encode_varint


class Producer(NamedTuple):
    """Who produces, for a broker that weeds out duplicates. The default is nobody."""

    id: int = NO_PRODUCER
    epoch: int = NO_EPOCH
    sequence: int = NO_SEQUENCE


NO_PRODUCER_STATE: Final = Producer()
_NULL: Final = encode_varint(-1)
_ATTRIBUTES: Final = b"\x00"
_NO_HEADERS: Final = encode_varint(0)


class BatchBuilder:
    """Collects records, then makes one batch of them. Offsets count from 0; the broker gives the batch its place."""

    __slots__ = ("_base_timestamp", "_max_timestamp", "_parts", "count", "size")

    # size is that of the batch so far, header included, before compression.
    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._base_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP
        self.count = 0
        self.size = HEADER_BYTES

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        """Add a record. Raises BadBatch, and adds nothing, for one that cannot be written."""
        first = not self.count
        delta = 0 if first else timestamp - self._base_timestamp
        record = b"".join(
            (
                _ATTRIBUTES,
                encode_varint(delta),
                encode_varint(self.count),
                _NULL if key is None else encode_varint(len(key)),
                key or b"",
                _NULL if value is None else encode_varint(len(value)),
                value or b"",
                _encode_headers(headers) if headers else _NO_HEADERS,
            )
        )
        prefix = encode_varint(len(record))
        size = self.size + len(prefix) + len(record)
        if size > INT32_MAX:
            raise BadBatch(Reason.TOO_LARGE, self.size, f"a record of {len(record)} bytes makes the batch too large")
        if not INT64_MIN <= timestamp <= INT64_MAX:
            raise BadBatch(Reason.TIMESTAMP, self.size, f"timestamp {timestamp} does not fit 64 bits")
        self._parts += (prefix, record)
        if first:
            self._base_timestamp = self._max_timestamp = timestamp
        elif timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        self.count += 1
        self.size = size

    def build(
        self,
        compression: Compression = Compression.NONE,
        producer: Producer = NO_PRODUCER_STATE,
        *,
        transactional: bool = False,
    ) -> bytearray:
        """The batch, sealed, in a buffer that may be patched. Raises BadBatch when there is no record in it."""
        if not self.count:
            raise BadBatch(Reason.COUNT, 0, "a batch needs at least one record")
        body = deflate(compression, b"".join(self._parts))
        header = Header(
            base=0,
            length=HEADER_BYTES - LENGTH_END + len(body),
            leader_epoch=NO_EPOCH,
            magic=MAGIC,
            crc=0,
            attributes=compression | (TRANSACTIONAL if transactional else 0),
            last_delta=self.count - 1,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=producer.sequence,
            records=self.count,
        )
        data = bytearray(pack_header(header))
        data += body
        seal(data)
        return data


def _encode_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        try:
            encoded = name.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise BadBatch(Reason.RECORD, 0, f"a header's name is no text: {name!r}") from error
        parts += (encode_varint(len(encoded)), encoded)
        parts += (_NULL,) if value is None else (encode_varint(len(value)), value)
    return b"".join(parts)
