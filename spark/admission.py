"""How much of what is there a micro-batch takes: at most and at least so many offsets, about so many bytes.

Bytes are estimated from the batches where each partition is to be read next. Not here: what is there (`stream_reader`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Final

from quorate.client import OffsetOutOfRange, TopicPartition
from quorate.client.batches import read_header, split_batches
from quorate.spark.clients import Cluster
from quorate.spark.offsets import Offsets
from quorate.spark.options import ReadOptions
from quorate.spark.ranges import limited as share_out

_log = logging.getLogger(__name__)
_SAMPLE_BYTES: Final = 64 << 10


class Admission:
    """Decides ends of micro-batches, one after the other."""

    def __init__(self, cluster: Cluster, options: ReadOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._turn = 0
        self._last_s = time.monotonic()

    def end(self, start: Offsets, latest: Offsets, *, limited: bool, until_target: bool) -> Offsets:
        """Where the next micro-batch ends; `start` to wait. `until_target`: nothing will be added, so do not wait for it."""
        begin = {part: start.get(part, 0) for part in latest}
        # A partition that is shorter than it was is taken up where it ends now.
        total = sum(max(0, latest[part] - begin[part]) for part in latest)
        if not total and all(latest[part] >= begin[part] for part in latest):
            return start
        if limited and not until_target and self._wait_for_more(total):
            return start
        end = dict(latest)
        if limited:
            most = self._most(begin, latest, total)
            if most is not None and most < total:
                end = share_out(begin, latest, most, self._turn)
                self._turn += 1
        self._last_s = time.monotonic()
        return end

    def _wait_for_more(self, total: int) -> bool:
        least = self._options.min_offsets
        if least is None or total >= least:
            return False
        return 1000 * (time.monotonic() - self._last_s) < self._options.max_delay_ms

    def _most(self, begin: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], total: int) -> int | None:
        most = self._options.max_offsets
        if self._options.max_bytes is None:
            return most
        by_bytes = self._by_bytes(self._options.max_bytes, begin, latest, total)
        return by_bytes if most is None else min(most, by_bytes)

    def _by_bytes(
        self, most: int, begin: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], total: int
    ) -> int:
        """How many offsets have about so many bytes; at least one for progress."""
        size = 0.0
        for part, end in latest.items():
            if end > begin[part]:
                size += (end - begin[part]) * self._bytes_per_offset(part, begin[part])
        return max(1, int(total * most / size)) if size > most else total

    def _bytes_per_offset(self, part: TopicPartition, offset: int) -> float:
        try:
            data = self._cluster.fetch(part, offset, max_bytes=_SAMPLE_BYTES).data
        except OffsetOutOfRange:
            return 0.0  # planning the batch will say what is gone
        offsets = sum(read_header(batch).last_delta + 1 for batch in split_batches(data))
        return len(data) / offsets if offsets else 0.0
