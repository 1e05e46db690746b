"""Batches (RecordBatch v2) for those who build or take apart what a client produces and fetches. All of it lives elsewhere.

`BatchBuilder` and `read_records` look at each record; `span`, `split_batches` and `read_header` at headers only.
"""

from quorate.broker.protocol.batches import (
    CONTROL,
    HEADER_BYTES,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAGIC,
    MIN_RECORD_BYTES,
    NO_EPOCH,
    NO_PRODUCER,
    BadBatch,
    Buffer,
    Compression,
    Header,
    Reason,
    Span,
    check_stored,
    deflate,
    inflate,
    pack_header,
    read_header,
    seal,
    span,
)
from quorate.broker.protocol.builder import NO_PRODUCER_STATE, BatchBuilder, Producer
from quorate.broker.protocol.compression import MAX_INFLATED_BYTES
from quorate.broker.protocol.records import Record, read_records, split_batches

__all__ = [
    "CONTROL",
    "HEADER_BYTES",
    "LENGTH_END",
    "LOG_APPEND_TIME",
    "MAGIC",
    "MAX_INFLATED_BYTES",
    "MIN_RECORD_BYTES",
    "NO_EPOCH",
    "NO_PRODUCER",
    "NO_PRODUCER_STATE",
    "BadBatch",
    "BatchBuilder",
    "Buffer",
    "Compression",
    "Header",
    "Producer",
    "Reason",
    "Record",
    "Span",
    "check_stored",
    "deflate",
    "inflate",
    "pack_header",
    "read_header",
    "read_records",
    "seal",
    "span",
    "split_batches",
]
