"""Queues as DataFrames: the one place where pipelines name the options of source and sink."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from quorate.client import EARLIEST, LATEST, Client, ClientSettings, TopicPartition
from quorate.spark.pipelines.errors import PipelineError

FORMAT = "quorate"
_RETRY_MS = 30_000


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where queues are, and the options that the user handed on."""

    bootstrap: str
    reading: Mapping[str, str] = field(default_factory=dict)
    writing: Mapping[str, str] = field(default_factory=dict)

    def stream(self, session: SparkSession, queues: Sequence[str], **options: str) -> DataFrame:
        """What is and what comes, from the earliest message on unless the options say otherwise."""
        reader = session.readStream.format(FORMAT).options(**self._shared())
        return reader.options(
            **{"subscribe": ",".join(queues), "startingOffsets": "earliest", **options, **self.reading}
        ).load()

    def range(self, session: SparkSession, queue: str, offsets: Mapping[int, tuple[int, int]], **options: str) -> DataFrame:
        """A queue's messages at the offsets [first, last) of each partition that is named."""
        starts, ends = ({str(part): bounds[side] for part, bounds in sorted(offsets.items())} for side in (0, 1))
        given = {
            "assign": json.dumps({queue: sorted(offsets)}),
            "startingOffsets": json.dumps({queue: starts}),
            "endingOffsets": json.dumps({queue: ends}),
        }
        return session.read.format(FORMAT).options(**{**self._shared(), **given, **options, **self.reading}).load()

    def append_once(self, rows: DataFrame, queue: str, application: str, batch: int) -> None:
        """Append to a queue, once: what this batch of this application has appended is not appended again."""
        options = {**self._shared(), "topic": queue, "delivery": "exactly-once", **self.writing}
        options |= {"applicationId": application, "batchId": str(batch)}
        rows.write.format(FORMAT).mode("append").options(**options).save()

    def client(self) -> Client:
        return Client(ClientSettings(bootstrap=self.bootstrap, client_id="quorate-pipeline", retry_ms=_RETRY_MS))

    def _shared(self) -> dict[str, str]:
        return {"bootstrap": self.bootstrap}


def register(session: SparkSession) -> None:
    """Make `format("quorate")` known to a session."""
    from quorate.spark.source import QuorateDataSource

    session.dataSource.register(QuorateDataSource)


def partitions(client: Client, queue: str) -> list[TopicPartition]:
    """A queue's partitions. Raises PipelineError if there is no such queue."""
    info = client.topics([queue])[queue]
    if info.error or not info.partitions:
        raise PipelineError(f"there is no queue {queue!r}")
    return [TopicPartition(queue, one.index) for one in info.partitions]


def bounds(client: Client, queue: str, since_ms: int | None, until_ms: int | None) -> dict[int, tuple[int, int]]:
    """For each partition the offsets [first, last) of the messages stamped in [since, until), as they are now."""
    parts = partitions(client, queue)
    ends = client.offsets(dict.fromkeys(parts, LATEST))
    starts = client.offsets(dict.fromkeys(parts, EARLIEST if since_ms is None else since_ms))
    stops = ends if until_ms is None else client.offsets(dict.fromkeys(parts, until_ms))
    found = {}
    for part in parts:
        end = ends[part].offset
        # No message is that late: it is as if the wish were the end.
        start, stop = (end if offset < 0 else min(offset, end) for offset in (starts[part].offset, stops[part].offset))
        found[part.partition] = (start, max(start, stop))
    return found
