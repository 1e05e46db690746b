"""`python -m bench.spark.decode`: rows per second from batches to Arrow columns and back, on one core, without Spark.

CPU time of one thread, best of several rounds, so that other work on the machine counts little.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import click
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from quorate.broker.protocol.builder import BatchBuilder
from quorate.broker.protocol.compression import Compression
from quorate.consensus.batch.header import stamp, stamp_append_time
from quorate.spark.columns import Decoder
from quorate.spark.encode import cut, encode

ROUNDS = 7
ROWS = 100_000
T0 = 1_700_000_000_000


def best_rate(work: Callable[[], int]) -> float:
    """Rows per CPU second of the best round."""
    best = 0.0
    for _ in range(ROUNDS):
        begin = time.process_time()
        rows = work()
        best = max(best, rows / (time.process_time() - begin))
    return best


def batches(per_batch: int, value: Callable[[], bytes], key: bytes | None, codec: Compression, appended: bool) -> bytes:
    """ROWS records, stamped as a leader does it."""
    out = bytearray()
    for base in range(0, ROWS, per_batch):
        builder = BatchBuilder()
        for number in range(base, base + per_batch):
            builder.append(T0 + number // 8, key, value())
        data = builder.build(codec)
        if appended:
            stamp_append_time(data, T0 + base)
        stamp(data, base, 1)
        out += data
    return bytes(out)


@click.command(name="python -m bench.spark.decode")
def main() -> None:
    """Measure decoding for values of several sizes, batches of several sizes and every compression."""
    console = Console()
    table = Table("values", "key", "records a batch", "compression", "times", "rows/s (one core)")
    rng = random.Random(7)
    fixed = rng.randbytes(100)
    sizes: dict[str, Callable[[], bytes]] = {
        "100 B": lambda: fixed,
        "50-150 B": lambda: fixed[: rng.randrange(50, 101)] + fixed[: rng.randrange(51)],
        "1 KiB": lambda: 10 * fixed + fixed[:24],
    }
    cases = [
        ("100 B", None, 5000, Compression.NONE, True),
        ("100 B", None, 5000, Compression.NONE, False),
        ("100 B", b"key-0001", 5000, Compression.NONE, True),
        ("100 B", None, 100, Compression.NONE, True),
        ("100 B", None, 10, Compression.NONE, True),
        ("50-150 B", None, 5000, Compression.NONE, True),
        ("50-150 B", b"key-0001", 5000, Compression.NONE, False),
        ("1 KiB", None, 500, Compression.NONE, True),
        *(("100 B", None, 5000, codec, True) for codec in Compression if codec),
    ]
    for size, key, per_batch, codec, appended in cases:
        data = batches(per_batch, sizes[size], key, codec, appended)
        decoder = Decoder("queue", 3)

        def work(data: bytes = data, decoder: Decoder = decoder) -> int:
            return sum(rows.num_rows for rows in decoder.decode(data, 0, ROWS))

        assert work() == ROWS
        rate = f"{best_rate(work):,.0f}"
        table.add_row(size, str(key), str(per_batch), codec.name.lower(), "append" if appended else "create", rate)
    console.print(table)
    console.print(f"encode, 100 B values, 5000 records a batch: {best_rate(lambda: written(fixed)):,.0f} rows/s (one core)")


def written(value: bytes) -> int:
    """Encode ROWS values; how many there were."""
    keys, values = pa.nulls(5000, pa.binary()), pa.array([value] * 5000, pa.binary())
    for _ in range(ROWS // 5000):
        for rows in cut(keys, values, None, 1 << 20):
            encode(keys[rows], values[rows], None, T0)
    return ROWS


if __name__ == "__main__":
    main()
