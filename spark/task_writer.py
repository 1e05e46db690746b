"""One task's rows on their way into queues: sorted by partition, encoded, and sent while more rows come.

What a batch becomes on its way, produced or staged, is a function that is handed in. Batches of one partition go one after
the other; those of several partitions go at the same time. Not here: commits (`sink`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import Final, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quorate.client import ProducerId, RequestFailed, TopicInfo, TopicPartition
from quorate.client.batches import Producer
from quorate.spark.encode import cut, encode
from quorate.spark.errors import BadOption, BadRows
from quorate.spark.options import WriteOptions
from quorate.spark.routing import by_key
from quorate.spark.varints import Ints

Send = Callable[[TopicPartition, bytearray], object]

_LANES: Final = 8
"""How many partitions are sent to at the same time."""
PATIENCE_S: Final = 3.0
"""A node may not know yet what another one has just created."""
_MOST_WAITING_BYTES: Final = 64 << 20
_SEQUENCES: Final = 1 << 31
"""Sequence numbers of a producer begin again at 0 after this many."""


class Topics(Protocol):
    """Where it is known which queues there are: a Client."""

    def topics(self, names: list[str]) -> dict[str, TopicInfo]:
        """See Client."""
        ...


class _Lane:
    """What waits for one partition, and what was sent there."""

    def __init__(self) -> None:
        self.rows: list[pa.RecordBatch] = []
        self.waiting_bytes = 0
        self.sent: Future[object] | None = None
        self.batches = 0
        self.records = 0


class TaskWriter:
    """Takes Arrow batches with the columns key, value, topic, partition, headers; all but value may be missing."""

    def __init__(self, topics: Topics, options: WriteOptions, producer: ProducerId, send: Send) -> None:
        self._topics = topics
        self._options = options
        self._producer = producer
        self._send = send
        self._counts: dict[str, int] = {}
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._waiting_bytes = 0
        # Tasks begin with different partitions, so that rows without a key are spread.
        self._any = random.randrange(1 << 16)
        self._pool = ThreadPoolExecutor(_LANES, thread_name_prefix="quorate-sink")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    @property
    def sent(self) -> dict[TopicPartition, tuple[int, int]]:
        """Batches and records of each partition."""
        return {part: (lane.batches, lane.records) for part, lane in sorted(self._lanes.items())}

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows, and send what fills a batch. Raises BadRows, BadOption, QuorateError."""
        if not rows.num_rows:
            return
        self._any += 1
        names, codes = _names(rows, self._options.topic)
        partitions = self._partitions(rows, names, codes)
        places = codes * (int(partitions.max()) + 1) + partitions
        order = np.argsort(places, kind="stable")
        edges = np.flatnonzero(np.diff(places[order], prepend=-1, append=-1))
        body = _body(rows).take(pa.array(order))
        for first, end in pairwise(edges.tolist()):
            row = order[first]
            part = TopicPartition(names[int(codes[row])], int(partitions[row]))
            self._append(part, body.slice(first, end - first))
        if self._waiting_bytes > _MOST_WAITING_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send everything that waits. It is not there yet: see `finish`."""
        for part, lane in self._lanes.items():
            self._flush(part, lane)

    def finish(self) -> None:
        """Send everything, and wait until all of it is there. Raises what went wrong first."""
        self.flush()
        for lane in self._lanes.values():
            if lane.sent is not None:
                lane.sent.result()

    def _append(self, part: TopicPartition, rows: pa.RecordBatch) -> None:
        lane = self._lanes.setdefault(part, _Lane())
        lane.rows.append(rows)
        size = rows.get_total_buffer_size() if rows.num_rows == 1 else rows.nbytes
        lane.waiting_bytes += size
        self._waiting_bytes += size
        if lane.waiting_bytes >= self._options.batch_bytes:
            self._flush(part, lane)

    def _flush(self, part: TopicPartition, lane: _Lane) -> None:
        if not lane.rows:
            return
        rows = pa.Table.from_batches(lane.rows).combine_chunks().to_batches()[0]
        self._waiting_bytes -= lane.waiting_bytes
        lane.rows, lane.waiting_bytes = [], 0
        key, value, headers = rows.column("key"), rows.column("value"), _headers(rows)
        for piece in cut(key, value, headers, self._options.batch_bytes):
            data = encode(
                key[piece],
                value[piece],
                None if headers is None else headers[piece],
                int(1000 * time.time()),
                compression=self._options.compression,
                producer=Producer(self._producer.id, self._producer.epoch, lane.records % _SEQUENCES),
            )
            if lane.sent is not None:
                lane.sent.result()
            lane.sent = self._pool.submit(self._deliver, part, data)
            lane.batches += 1
            lane.records += piece.stop - piece.start

    def _deliver(self, part: TopicPartition, data: bytearray) -> None:
        try:
            self._send(part, data)
        except RequestFailed as error:
            if error.code != "message-too-large":
                raise
            why = f"a batch of {len(data)} bytes is larger than max.message.bytes of {part.topic}"
            raise BadRows(f"{why}; option batchBytes is {self._options.batch_bytes}, and a larger row goes alone") from error

    def _partitions(self, rows: pa.RecordBatch, names: list[str], codes: Ints) -> Ints:
        """Where each row goes."""
        counts = np.array([self._count(name) for name in names], np.int64)[codes]
        chosen = np.empty(rows.num_rows, np.int64)
        named = _named_partitions(rows)
        key = _column(rows, "key")
        for code in range(len(names)):
            mine = np.flatnonzero(codes == code)
            count = self._count(names[code])
            chosen[mine] = by_key(key.take(pa.array(mine)), count, self._any % count)
        chosen = np.where(named >= 0, named, chosen)
        if (named >= counts).any() or (named < -1).any():
            row = int(np.flatnonzero((named >= counts) | (named < -1))[0])
            raise BadRows(f"column partition: {names[int(codes[row])]} has no partition {int(named[row])}")
        return chosen

    def _count(self, topic: str) -> int:
        if topic not in self._counts:
            deadline = time.monotonic() + PATIENCE_S
            while (info := self._topics.topics([topic]).get(topic)) is None or info.error or not info.partitions:
                if time.monotonic() > deadline:
                    raise no_queue(topic, self._options)
                time.sleep(0.1)
            self._counts[topic] = len(info.partitions)
        return self._counts[topic]


def no_queue(topic: str, options: WriteOptions) -> Exception:
    """There is no such queue, which an option or a row named."""
    if options.topic is not None:
        return BadOption("topic", f"there is no queue {topic!r}")
    return BadRows(f"column topic: there is no queue {topic!r}")


def _names(rows: pa.RecordBatch, topic: str | None) -> tuple[list[str], Ints]:
    """The queues' names, and which of them each row goes to."""
    if topic is not None:
        return [topic], np.zeros(rows.num_rows, np.int64)
    column = rows.column("topic")
    if column.null_count:
        raise BadRows("column topic: a row has null there, and there is no option topic")
    encoded = column.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _named_partitions(rows: pa.RecordBatch) -> Ints:
    """The partitions that rows name; -1 for none. A negative one is -2, and is nobody's."""
    if "partition" not in rows.schema.names:
        return np.full(rows.num_rows, -1, np.int64)
    column = rows.column("partition")
    named: Ints = pc.fill_null(column, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    named[(named < 0) & column.is_valid().to_numpy(zero_copy_only=False)] = -2
    return named


def _column(rows: pa.RecordBatch, name: str) -> pa.Array:
    """Keys or values as bytes."""
    if name not in rows.schema.names:
        return pa.nulls(rows.num_rows, pa.binary())
    column = rows.column(name)
    return column if column.type == pa.binary() else column.cast(pa.binary())


def _body(rows: pa.RecordBatch) -> pa.RecordBatch:
    columns = {"key": _column(rows, "key"), "value": _column(rows, "value")}
    if "headers" in rows.schema.names:
        columns["headers"] = rows.column("headers")
    return pa.RecordBatch.from_pydict(columns)


def _headers(rows: pa.RecordBatch) -> pa.Array | None:
    return rows.column("headers") if "headers" in rows.schema.names else None
