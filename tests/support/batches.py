"""Batches for tests: whole RecordBatches with any content, and the writes that carry them."""

from __future__ import annotations

from quorate.consensus.batch.header import HEADER_BYTES, LENGTH_END, LOG_APPEND_TIME, MAGIC, Header, pack_header, seal
from quorate.consensus.core import Batch, BatchKind, Configuration, HardState, Offset, Persist, Term, Token, replica_id

THREE = Configuration(voters=frozenset({replica_id(1), replica_id(2), replica_id(3)}))


def data_batch(base: int, count: int = 1, term: int = 1, size: int = 40, stamp: int = 1_000, fill: bytes = b"") -> Batch:
    """A data batch of `count` offsets whose records are `size` bytes (not real records: nobody below looks at them)."""
    body = (fill or f"{base}@{term}|".encode()) * (size // max(1, len(fill or b"....")) + 1)
    header = Header(
        base=base,
        length=HEADER_BYTES - LENGTH_END + size,
        leader_epoch=term,
        magic=MAGIC,
        crc=0,
        attributes=LOG_APPEND_TIME,
        last_delta=count - 1,
        base_timestamp=stamp,
        max_timestamp=stamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records=count,
    )
    data = bytearray(pack_header(header) + (body * 2)[:size].ljust(size, b"."))
    seal(data)
    return Batch(Offset(base), Offset(base + count - 1), Term(term), BatchKind.DATA, bytes(data))


def noop(base: int, term: int = 1) -> Batch:
    """The batch with which a leader begins its term."""
    return Batch(Offset(base), Offset(base), Term(term), BatchKind.NOOP, b"")


def config_batch(base: int, configuration: Configuration = THREE, term: int = 1) -> Batch:
    """A configuration change."""
    return Batch(Offset(base), Offset(base), Term(term), BatchKind.CONFIG, configuration.encode())


def run_of(first: int, batches: int, term: int = 1, size: int = 40, stamp: int = 1_000) -> tuple[Batch, ...]:
    """So many batches of one offset each, the time rising by one."""
    return tuple(data_batch(first + n, term=term, size=size, stamp=stamp + n) for n in range(batches))


def append(*batches: Batch, sync: bool = True, truncate: int | None = None, commit: int | None = None) -> Persist:
    """A write of batches, as the core would ask for it."""
    end = batches[-1] if batches else None
    last, term = (end.last, end.term) if end is not None else (Offset(-1), Term(0))
    return Persist(
        token=Token(1, term, last, term),
        sync=sync,
        hard_state=None if commit is None else HardState(term, replica_id(1), Offset(commit)),
        truncate=None if truncate is None else Offset(truncate),
        batches=batches,
    )
