"""What a stream's planner knows between two calls of Spark: where the query began, what there is, what was lost.

Not here: Spark's own interface (`stream_reader`), how much a micro-batch takes (`admission`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any, Final

from quorate.client import QuorateError, TopicPartition, UnknownTopic
from quorate.spark import planner
from quorate.spark.admission import Admission
from quorate.spark.clients import Cluster
from quorate.spark.errors import DataLost, Missing
from quorate.spark.offsets import Offsets, to_json
from quorate.spark.options import LATEST, ReadOptions
from quorate.spark.ranges import Range, split

LOST: Final = "~lost"
"""Stands among the queues of the reported latest offset, with counts of offsets that were skipped, once there are any."""

_log = logging.getLogger(__name__)
_SHORTEST_POLL_S: Final = 0.005
_LONGEST_POLL_S: Final = 0.05
_LIST_EVERY_S: Final = 0.5
"""How often it is asked which partitions there are."""
_PATIENCE_S: Final = 5.0
"""How long a partition has to be unknown before it is taken for deleted: a node may not know yet what others know."""


class StreamPlanner:
    """What `StreamReader` knows between two calls."""

    def __init__(self, cluster: Cluster, options: ReadOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._admission = Admission(cluster, options)
        self._initial: Offsets | None = None
        self._initial_is_fresh = False
        self._target: Offsets | None = None
        self._latest: Offsets = {}
        self._lost: Offsets = {}
        self._told: set[Missing] = set()
        self._vanished: set[TopicPartition] = set()
        self._parts: tuple[TopicPartition, ...] = ()
        self._listed_s = float("-inf")

    def initial(self) -> Offsets:
        """Where a new query begins. Spark asks twice and has to get one answer."""
        if self._initial is None:
            options = self._options
            with planner.named(options):
                parts = planner.find_parts(self._cluster, options.subscription, must_exist=True)
                self._initial = planner.starts(self._cluster, options, parts)
            self._initial_is_fresh = self._depends_on_now()
        return self._initial

    def _depends_on_now(self) -> bool:
        position = self._options.starting
        return position.everywhere == LATEST or LATEST in (position.offsets or {}).values() or self._options.start_at_latest

    def next_end(self, start: Offsets, *, limited: bool) -> Offsets:
        """Where the next micro-batch ends."""
        if self._initial_is_fresh and start == self._initial:
            # Of the first micro-batch Spark keeps the end and not the start. Should it have to do it again, it asks for
            # the start anew, and "latest" would be later by then: so the first one is empty, and its end is the start.
            self._initial_is_fresh = False
            return start
        self._initial_is_fresh = False
        deadline = time.monotonic() + self._options.long_poll_ms / 1000
        pause_s = _SHORTEST_POLL_S
        while True:
            latest = self._look(start)
            end = self._admission.end(start, latest, limited=limited, until_target=self._target is not None)
            left_s = deadline - time.monotonic()
            if end != start or self._target is not None or left_s <= 0:
                return end
            time.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, _LONGEST_POLL_S)

    def _look(self, start: Offsets) -> Offsets:
        """The ends of all partitions that there are, new ones too."""
        with planner.named(self._options):
            parts = self._find(start)
            latest = planner.latest(self._cluster, parts)
        self._latest = latest
        missing = [
            Missing(*part, start[part], start[part] + 1, "the partition does not exist any more")
            for part in sorted(set(start) - set(latest))
        ]
        self._vanished.update(set(start) - set(latest))
        # A log that ends before what was read of it is another one by the same name.
        missing += [
            Missing(*part, end, start[part], f"the log ends at {end} now")
            for part, end in sorted(latest.items())
            if end < start.get(part, 0)
        ]
        self._complain(missing)
        if self._target is None:
            return latest
        # Whatever is beyond the target already stays there, or the query would never be done.
        ends = {part: min(end, self._target[part]) for part, end in latest.items() if part in self._target}
        return ends | {part: offset for part, offset in start.items() if offset > ends.get(part, -1)}

    def _find(self, start: Offsets) -> tuple[TopicPartition, ...]:
        """The partitions that there are, as of a moment ago."""
        now = time.monotonic()
        if now < self._listed_s + _LIST_EVERY_S:
            return self._parts
        deadline = now + _PATIENCE_S
        while True:
            parts = planner.find_parts(self._cluster, self._options.subscription, must_exist=False)
            self._vanished.difference_update(parts)
            if set(start) <= set(parts) | self._vanished or time.monotonic() > deadline:
                self._parts, self._listed_s = parts, time.monotonic()
                return parts
            time.sleep(_LONGEST_POLL_S)

    def fix_target(self) -> None:
        """Nothing that is appended later counts."""
        with planner.named(self._options):
            parts = planner.find_parts(self._cluster, self._options.subscription, must_exist=False)
            self._target = planner.latest(self._cluster, parts)

    def ranges(self, start: Offsets, end: Offsets) -> list[Range]:
        """What a micro-batch reads. Partitions that are new in it are read from their beginning. Raises DataLost."""
        begin = {part: start.get(part, 0) for part in end}
        busy = [part for part in end if begin[part] < end[part]]
        log_start = self._log_starts(busy)
        deleted = [part for part in busy if part not in log_start]
        missing = [Missing(*part, begin[part], end[part], "the partition does not exist any more") for part in deleted]
        self._complain([*missing, *planner.gone({part: begin[part] for part in busy}, end, log_start)])
        ranges = [Range(part, max(begin[part], first), end[part]) for part, first in log_start.items()]
        return split(ranges, self._options.min_partitions)

    def _log_starts(self, parts: Sequence[TopicPartition]) -> Offsets:
        """Where logs begin; nothing about those that are deleted."""
        with planner.named(self._options):
            try:
                return planner.earliest(self._cluster, parts)
            except UnknownTopic:
                there = planner.find_parts(self._cluster, self._options.subscription, must_exist=False)
                return planner.earliest(self._cluster, [part for part in parts if part in there])

    def _complain(self, missing: Sequence[Missing]) -> None:
        """Raise DataLost, or count it and say so once."""
        news = [one for one in missing if one not in self._told]
        if not news:
            return
        lost = DataLost(news)
        if self._options.fail_on_data_loss:
            raise lost
        _log.warning("%s", lost)
        self._told.update(news)
        for one in news:
            part = TopicPartition(one.topic, one.partition)
            self._lost[part] = self._lost.get(part, 0) + one.end - one.first

    def reported(self) -> dict[str, Any] | None:
        """The ends of the logs as of the last look, and what was lost."""
        if not self._latest:
            return None
        report: dict[str, Any] = dict(to_json(self._latest))
        if self._lost:
            report[LOST] = to_json(self._lost)
        return report

    def commit(self, end: Offsets) -> None:
        """Commit to the group. Whatever goes wrong: Spark has its own offsets, and the next commit says more."""
        if self._options.group is None:
            return
        try:
            self._cluster.commit_group_offsets(self._options.group, end)
        except QuorateError as error:
            _log.warning("the offsets of group %s could not be committed: %s", self._options.group, error)
