"""Batches as bytes, for those who decode and build them by themselves: `quorate.spark` does so in whole columns.

Only names from `quorate.broker.protocol`; an application that reads and writes records needs nothing of this.
"""

from quorate.broker.protocol.builder import NO_PRODUCER_STATE, Producer
from quorate.broker.protocol.compression import MAX_INFLATED_BYTES, Compression, deflate, inflate
from quorate.broker.protocol.headers import (
    COMPRESSION_MASK,
    CONTROL,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAGIC,
    MIN_RECORD_BYTES,
    NO_EPOCH,
    BadBatch,
    Buffer,
    Header,
    Reason,
    check_stored,
    pack_header,
    seal,
)
from quorate.broker.protocol.records import read_records, split_batches

__all__ = [
    "COMPRESSION_MASK",
    "CONTROL",
    "HEADER",
    "HEADER_BYTES",
    "LENGTH_END",
    "LOG_APPEND_TIME",
    "MAGIC",
    "MAX_INFLATED_BYTES",
    "MIN_RECORD_BYTES",
    "NO_EPOCH",
    "NO_PRODUCER_STATE",
    "BadBatch",
    "Buffer",
    "Compression",
    "Header",
    "Producer",
    "Reason",
    "check_stored",
    "deflate",
    "inflate",
    "pack_header",
    "read_records",
    "seal",
    "split_batches",
]
