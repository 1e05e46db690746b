"""`python -m bench.batch`: what the broker does to a batch's header, and what records cost in Python.

CPU time of one thread, best of several rounds, so that other work on the machine counts little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial

import click
from rich.console import Console
from rich.table import Table

from quorate.broker.protocol.builder import BatchBuilder
from quorate.broker.protocol.compression import Compression
from quorate.broker.protocol.records import read_records
from quorate.consensus.batch.header import HEADER_BYTES, read_header, stamp, stamp_append_time
from quorate.consensus.batch.validate import check_stored, validate

SIZES = {"100 B": 100, "16 KiB": 16 << 10, "1 MiB": 1 << 20}
ROUNDS = 7
RECORDS = 5000


def best_us(work: Callable[[], object], budget_s: float) -> float:
    """CPU microseconds of one call: the best of several rounds that share the budget."""
    calls, spent = 1, 0.0
    while spent < budget_s / ROUNDS / 2:
        calls *= 2
        begin = time.process_time()
        for _ in range(calls):
            work()
        spent = time.process_time() - begin
    best = spent / calls
    for _ in range(ROUNDS - 1):
        begin = time.process_time()
        for _ in range(calls):
            work()
        best = min(best, (time.process_time() - begin) / calls)
    return best * 1e6


def one_record(size: int) -> bytearray:
    """A batch of one record, of just this many bytes."""
    builder = BatchBuilder()
    builder.append(1_700_000_000_000, None, bytes(size - HEADER_BYTES - 16))
    return builder.build()


def produce(data: bytearray, head: bytes) -> None:
    """All that an append does to a header, and then the client's header again, so that the next call finds the same."""
    validate(data)
    stamp_append_time(data, 1_700_000_000_001)
    stamp(data, 123_456_789, 7)
    data[:HEADER_BYTES] = head


def header_rows(budget_s: float) -> Iterable[tuple[str, ...]]:
    """Each step of an append, for each size."""
    steps: dict[str, Callable[[bytearray], object]] = {
        "read_header": read_header,
        "validate": validate,
        "check_stored": check_stored,
        "stamp (offset, epoch)": lambda data: stamp(data, 123_456_789, 7),
        "stamp_append_time": lambda data: stamp_append_time(data, 1_700_000_000_001),
    }
    for name, step in steps.items():
        yield name, *(f"{best_us(partial(step, one_record(size)), budget_s):.2f}" for size in SIZES.values())
    batches = [one_record(size) for size in SIZES.values()]
    whole = [best_us(partial(produce, data, bytes(data[:HEADER_BYTES])), budget_s) for data in batches]
    yield "validate and both stamps", *(f"{us:.2f}" for us in whole)


def count_records(data: bytearray) -> int:
    """Read every record, and keep none."""
    return sum(1 for _ in read_records(data))


def record_rows(budget_s: float) -> Iterable[tuple[str, ...]]:
    """Building and reading, per record of a batch of many."""

    def build(codec: Compression = Compression.NONE) -> bytearray:
        builder = BatchBuilder()
        for number in range(RECORDS):
            builder.append(1_700_000_000_000 + number, b"key", b"v" * 100)
        return builder.build(codec)

    yield "build", f"{best_us(build, budget_s) / RECORDS:.2f}"
    for codec in Compression:
        data = build(codec)
        us = best_us(partial(count_records, data), budget_s)
        yield f"read ({codec.name.lower()})", f"{us / RECORDS:.2f}"


@click.command(name="python -m bench.batch")
@click.option("--seconds", type=click.FloatRange(min=0.01), default=0.5, show_default=True, help="CPU time for each figure.")
def main(*, seconds: float) -> None:
    """Measure header work per batch, and record work per record, in CPU microseconds."""
    console = Console()
    headers = Table("header work, us per batch", *SIZES)
    for row in header_rows(seconds):
        headers.add_row(*row)
    console.print(headers)
    records = Table("record work, 100 B values, key", "us per record")
    for row in record_rows(seconds):
        records.add_row(*row)
    console.print(records)


if __name__ == "__main__":
    main()
