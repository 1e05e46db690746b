"""A read of a fixed range of each partition: planned once, on the driver, then read by tasks.

The plan is made when Spark asks for partitions, so that filters which were pushed down count. Not here: options, offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from quorate.client import TopicPartition
from quorate.spark import planner
from quorate.spark.clients import Cluster, shared_client
from quorate.spark.errors import BadOption, DataLost
from quorate.spark.filters import FAR, Bounds
from quorate.spark.offsets import Offsets
from quorate.spark.options import ReadOptions
from quorate.spark.ranges import Range, split, tasks
from quorate.spark.reading import read_task

_log = logging.getLogger(__name__)
_LAST_MS: Final = 253_402_300_799_999


class BatchReader(DataSourceReader):
    """Reads what the options say."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._bounds = Bounds()

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks. Raises BadOption for queues and offsets that there are not, DataLost for those that are gone."""
        return tasks(plan(shared_client(self._options.client), self._options, self._bounds))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """A task's rows."""
        return read_task(self._options, partition)


class FilteringReader(BatchReader):
    """The same for a Spark that pushes filters down."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Use filters of partitions, offsets and times, and return those that Spark has to look at again."""
        return list(self._bounds.take(filters))


def plan(cluster: Cluster, options: ReadOptions, bounds: Bounds) -> list[Range]:
    """The ranges to read."""
    with planner.named(options):
        parts = planner.find_parts(cluster, options.subscription, must_exist=True)
        if not parts:
            raise BadOption(options.subscription.option, f"no queue's name matches {options.subscription.pattern!r}")
        # The ends first: what begins later than it ends is empty, and no offset is left out.
        ends = planner.ends(cluster, options, parts)
        starts = planner.starts(cluster, options, parts)
        starts = _what_is_left(cluster, options, starts, ends)
        wanted = [part for part in parts if _is_wanted(part, bounds)]
        first, last = _between(cluster, wanted, bounds)
    ranges = [Range(part, max(starts[part], first[part]), min(ends[part], last[part])) for part in wanted]
    return split(ranges, options.min_partitions)


def _what_is_left(cluster: Cluster, options: ReadOptions, starts: Offsets, ends: Offsets) -> Offsets:
    """The starts, moved to what is still there if that may be. Raises DataLost otherwise."""
    if options.starting.offsets is None:
        return starts
    log_start = planner.earliest(cluster, list(starts))
    missing = planner.gone(starts, ends, log_start)
    if not missing:
        return starts
    if options.fail_on_data_loss:
        raise DataLost(missing)
    _log.warning("%s", DataLost(missing))
    return {part: max(start, log_start[part]) for part, start in starts.items()}


def _is_wanted(part: TopicPartition, bounds: Bounds) -> bool:
    return (bounds.partitions is None or part.partition in bounds.partitions) and (
        bounds.topics is None or part.topic in bounds.topics
    )


def _between(cluster: Cluster, parts: Sequence[TopicPartition], bounds: Bounds) -> tuple[Offsets, Offsets]:
    """The offsets that may match, by offset and by time. Log time never falls, so times are ranges of offsets."""
    first, last = (dict.fromkeys(parts, offset) for offset in bounds.offsets)
    begin_ms, end_ms = bounds.times_us[0] // 1000, -(-bounds.times_us[1] // 1000)
    if 0 < begin_ms <= _LAST_MS and parts:
        for part, offset in cluster.offsets(dict.fromkeys(parts, begin_ms)).items():
            first[part] = max(first[part], offset.offset if offset.offset >= 0 else FAR)
    if 0 <= end_ms <= _LAST_MS and parts:
        for part, offset in cluster.offsets(dict.fromkeys(parts, end_ms)).items():
            if offset.offset >= 0:
                last[part] = min(last[part], offset.offset)
    return first, last
