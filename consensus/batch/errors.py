"""The one error that a malformed batch raises, whatever is wrong with it."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """What is wrong with a batch, for code that has to choose: metrics, a Kafka error code, a test."""

    TRUNCATED = "truncated"
    TRAILING = "trailing-bytes"
    LENGTH = "bad-length"
    FIELD = "bad-field"
    MAGIC = "unsupported-magic"
    CRC = "wrong-crc"
    COUNT = "wrong-count"
    COMPRESSION = "unknown-compression"
    CORRUPT_COMPRESSION = "corrupt-compression"
    TOO_LARGE = "too-large"
    ATTRIBUTES = "bad-attributes"
    TIMESTAMP = "bad-timestamp"
    PRODUCER = "bad-producer"
    OFFSET = "bad-offset"
    VARINT = "bad-varint"
    RECORD = "bad-record"
    CONTROL = "bad-control"


class BadBatch(ValueError):
    """These bytes are not the batch they should be. Nothing was changed.

    `reason` is for machines, `at` is the byte of the batch (or of its inflated records) where it showed, the message is
    for people.
    """

    def __init__(self, reason: Reason, at: int, detail: str) -> None:
        super().__init__(f"{reason.value} at byte {at}: {detail}")
        self.reason = reason
        self.at = at
        self.detail = detail

    def __reduce__(self) -> tuple[type[BadBatch], tuple[Reason, int, str]]:
        # An exception is pickled by its `args`, which hold the finished message only.
        return type(self), (self.reason, self.at, self.detail)
