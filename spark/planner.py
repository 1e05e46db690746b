"""From options to offsets: which partitions there are, where to begin, where to end. Asks the cluster, and nothing else.

What the user got wrong becomes BadOption with the option's name. Not here: reading, and what a stream remembers.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NoReturn

from quorate.client import EARLIEST, LATEST, Closed, NotSupported, TopicInfo, TopicPartition, UnknownTopic, Unreachable
from quorate.spark.clients import Cluster
from quorate.spark.errors import BadOption, Missing, NotClosed
from quorate.spark.offsets import Offsets, shown
from quorate.spark.options import Position, ReadOptions, Subscription

_PATIENCE_S: Final = 3.0
"""A node may not know yet what another one has just created."""
_PAUSE_S: Final = 0.1
_LONGEST_WAIT_MS: Final = 5_000


@contextmanager
def named(options: ReadOptions) -> Iterator[None]:
    """Say by which option a cluster or a queue was chosen that is not there."""
    try:
        yield
    except Unreachable as error:
        raise BadOption("kafka.bootstrap.servers", str(error)) from error
    except UnknownTopic as error:
        raise BadOption(options.subscription.option, f"{error} (any more)") from error


def find_parts(cluster: Cluster, subscription: Subscription, *, must_exist: bool) -> tuple[TopicPartition, ...]:
    """The partitions that are subscribed to, sorted. `must_exist`: it is an error if one that is named does not."""
    if subscription.pattern is not None:
        matches = re.compile(subscription.pattern).fullmatch
        return _parts(info for name, info in cluster.topics().items() if matches(name) and not info.internal)
    names = subscription.topics or sorted({part.topic for part in subscription.parts})
    found = _parts(_named(cluster, subscription.option, names) if must_exist else cluster.topics(names).values())
    if not subscription.parts:
        return found
    missing = sorted(set(subscription.parts) - set(found))
    if missing and must_exist:
        raise BadOption(subscription.option, f"there is no partition {shown(missing)}")
    return tuple(part for part in subscription.parts if part not in missing)


def _parts(infos: Iterable[TopicInfo]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(TopicPartition(info.name, one.index) for info in infos if not info.error for one in info.partitions))


def _named(cluster: Cluster, option: str, names: Collection[str]) -> list[TopicInfo]:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        infos = cluster.topics(names)
        unknown = sorted(name for name in names if name not in infos or infos[name].error)
        if not unknown:
            return [infos[name] for name in names]
        if time.monotonic() > deadline:
            raise BadOption(option, f"there is no queue {', '.join(map(repr, unknown))}")
        time.sleep(_PAUSE_S)


def earliest(cluster: Cluster, parts: Collection[TopicPartition]) -> Offsets:
    """Where the logs begin now."""
    return _all_at(cluster, parts, EARLIEST)


def latest(cluster: Cluster, parts: Collection[TopicPartition]) -> Offsets:
    """Where what is committed ends now."""
    return _all_at(cluster, parts, LATEST)


def _all_at(cluster: Cluster, parts: Collection[TopicPartition], wish: int) -> Offsets:
    if not parts:
        return {}
    return {part: found.offset for part, found in cluster.offsets(dict.fromkeys(parts, wish)).items()}


def starts(cluster: Cluster, options: ReadOptions, parts: Collection[TopicPartition]) -> Offsets:
    """Where to begin, by the options."""
    position = options.starting
    if position.everywhere is not None:
        return _all_at(cluster, parts, position.everywhere)
    if position.offsets is not None:
        return _given(cluster, position, parts)
    wishes = _times(position, parts)
    found = cluster.offsets(wishes) if wishes else {}
    late = [part for part, offset in found.items() if offset.offset < 0]
    if late and not options.start_at_latest:
        moments = ", ".join(f"{part.topic}-{part.partition} ({wishes[part]} ms)" for part in sorted(late))
        raise BadOption(
            position.option,
            f"there is no record at or after that time yet in {moments}; "
            "startingOffsetsByTimestampStrategy=latest would begin with the next ones",
        )
    last = latest(cluster, late)
    return {part: last.get(part, offset.offset) for part, offset in found.items()}


def ends(cluster: Cluster, options: ReadOptions, parts: Collection[TopicPartition]) -> Offsets:
    """Where to end, by the options of a batch read."""
    if options.as_of_ms is not None:
        return _as_of(cluster, options, options.as_of_ms, parts)
    position = options.ending
    if position.everywhere is not None:
        return _all_at(cluster, parts, position.everywhere)
    if position.offsets is not None:
        return _given(cluster, position, parts)
    return _before(cluster, _times(position, parts))


def _before(cluster: Cluster, times: Mapping[TopicPartition, int]) -> Offsets:
    """The first offsets at or after a time; where no record is that late, the log's end."""
    # The ends first: what is appended between the two questions may be later than the time.
    last = latest(cluster, list(times))
    found = cluster.offsets(times) if times else {}
    return {part: last[part] if offset.offset < 0 else offset.offset for part, offset in found.items()}


def _given(cluster: Cluster, position: Position, parts: Collection[TopicPartition]) -> Offsets:
    given = _complete(position.option, position.offsets or {}, parts)
    wishes = {part: offset for part, offset in given.items() if offset < 0}
    found = cluster.offsets(wishes) if wishes else {}
    last = latest(cluster, [part for part in given if part not in wishes])
    for part, end in last.items():
        if given[part] > end:
            place = f"{part.topic}-{part.partition}"
            raise BadOption(position.option, f"{place} ends before offset {end}, and {given[part]} is asked for")
    return {part: found[part].offset if part in found else offset for part, offset in given.items()}


def _times(position: Position, parts: Collection[TopicPartition]) -> Offsets:
    if position.times is not None:
        return _complete(position.option, position.times, parts)
    return dict.fromkeys(parts, position.time_ms or 0)


def _complete(option: str, given: Offsets, parts: Collection[TopicPartition]) -> Offsets:
    missing, extra = set(parts) - set(given), set(given) - set(parts)
    if missing:
        hint = "" if option.endswith("ByTimestamp") else "; use -2 for earliest, -1 for latest"
        raise BadOption(option, f"it has to name every partition that is read, and {shown(missing)} is missing{hint}")
    if extra:
        raise BadOption(option, f"{shown(extra)} is not among the partitions that are read")
    return {part: given[part] for part in sorted(given)}


# A cut in time.


def _as_of(cluster: Cluster, options: ReadOptions, time_ms: int, parts: Collection[TopicPartition]) -> Offsets:
    """Where to end so that all records up to this time are read, and no later one: of all partitions, for ever the same."""
    _await_closed(cluster, options, time_ms, parts)
    # Every record up to a closed time is committed, and log time never falls: they all come before the first later one.
    return _before(cluster, dict.fromkeys(parts, time_ms + 1))


def _await_closed(cluster: Cluster, options: ReadOptions, time_ms: int, parts: Collection[TopicPartition]) -> None:
    deadline = time.monotonic() + options.as_of_timeout_ms / 1000
    waiting = list(parts)
    while waiting:
        left_ms = max(0, int(1000 * (deadline - time.monotonic())))
        try:
            closed = cluster.closed_time(waiting, at_least=time_ms, max_wait_ms=min(left_ms, _LONGEST_WAIT_MS))
        except NotSupported as error:
            raise BadOption("asOf", f"these servers do not publish closed time: {error}") from error
        open_ = {part: one for part, one in closed.items() if one.closed_ms < time_ms}
        if open_ and left_ms == 0:
            _not_closed(options, time_ms, open_)
        waiting = list(open_)


def _not_closed(options: ReadOptions, time_ms: int, open_: Mapping[TopicPartition, Closed]) -> NoReturn:
    behind = ", ".join(
        f"{part.topic}-{part.partition} ({'unknown' if one.closed_ms < 0 else f'{time_ms - one.closed_ms} ms before it'})"
        for part, one in sorted(open_.items())
    )
    now_ms = int(1000 * time.time())
    why = (
        f"that time is {time_ms - now_ms} ms in the future by this machine's clock"
        if time_ms > now_ms
        else "a partition without a working leader closes nothing; its leader's clock may be behind"
    )
    raise NotClosed(
        f"option asOf: after {options.as_of_timeout_ms} ms (asOfTimeoutMs) the time {time_ms} is still open, and "
        f"records may yet get it: closed time is at {behind}. {why[0].upper()}{why[1:]}."
    )


# What is gone.


def gone(start: Offsets, end: Offsets, log_start: Offsets) -> list[Missing]:
    """Offsets in [start, end) that logs which begin at `log_start` do not hold any more."""
    found = []
    for part, first in sorted(start.items()):
        if part in log_start and part in end and first < min(log_start[part], end[part]):
            why = f"the log begins at {log_start[part]} now"
            found.append(Missing(part.topic, part.partition, first, min(log_start[part], end[part]), why))
    return found
