"""What a client needs of a batch's header: those who may not see `quorate.consensus` find it here.

Not here: records (`records`, `builder`), and whether a broker accepts a batch (`quorate.consensus.batch.validate`).
"""

from quorate.consensus.batch.errors import BadBatch, Reason
from quorate.consensus.batch.header import (
    COMPRESSION_MASK,
    CONTROL,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAGIC,
    NO_EPOCH,
    Header,
    pack_header,
    seal,
)
from quorate.consensus.batch.validate import MIN_RECORD_BYTES, check_stored
from quorate.consensus.core.types import Buffer

__all__ = [
    "COMPRESSION_MASK",
    "CONTROL",
    "HEADER",
    "HEADER_BYTES",
    "LENGTH_END",
    "LOG_APPEND_TIME",
    "MAGIC",
    "MIN_RECORD_BYTES",
    "NO_EPOCH",
    "BadBatch",
    "Buffer",
    "Header",
    "Reason",
    "check_stored",
    "pack_header",
    "seal",
]
