"""Every replica's own log, read from its disk after the nodes have stopped.

A copy is opened, not the original: opening a log writes to it, and what a run leaves behind is evidence.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import aiohttp

from quorate.chaos.api import NodeUnderTest, System
from quorate.chaos.history import Action, Place, Record, Recorder
from quorate.consensus.core import Offset
from quorate.consensus.core.log import new_replica
from quorate.consensus.storage.api import StorageError
from quorate.consensus.storage.level import LevelLog

_CHUNK_BYTES = 4 << 20
_ASK_S = 10.0
_PROCESS = "end"
_FOLDER = re.compile(r"g(\d+)-(\d+)")


class Whereabouts(NamedTuple):
    """Which group a partition is, and which nodes hold it."""

    place: Place
    group: int
    nodes: tuple[int, ...]


async def whereabouts(system: System, topics: Sequence[str]) -> list[Whereabouts]:
    """Asked over HTTP while the nodes still run; nothing if none of them answers."""
    timeout = aiohttp.ClientTimeout(total=_ASK_S)
    for node in system.nodes.values():
        if not node.http:
            continue
        try:
            async with aiohttp.ClientSession(timeout=timeout) as session, session.get(f"{node.http}/v1/queues") as answer:
                queues = (await answer.json())["queues"]
        except (aiohttp.ClientError, TimeoutError, KeyError, ValueError):
            continue
        return [
            Whereabouts(Place(queue["name"], one["partition"]), one["group"], tuple(one["replicas"]))
            for queue in queues
            if queue["name"] in topics
            for one in queue["partitions"]
        ]
    return []


async def record_replicas(nodes: Mapping[int, NodeUnderTest], known: Sequence[Whereabouts], recorder: Recorder) -> None:
    """Record what each replica holds, where its data folder is there."""
    for one in known:
        for node in one.nodes:
            data = nodes[node].data if node in nodes else None
            if data is None:
                continue
            place = one.place
            what = {"topic": place.topic, "partition": place.partition, "node": node}
            number = recorder.invoke(_PROCESS, Action.REPLICA, **what)
            try:
                commit, batches = await asyncio.to_thread(read_replica, data / "logs", one.group)
            except (StorageError, OSError) as error:
                recorder.fail(number, str(error))
            else:
                recorder.ok(number, records=batches, offset=commit)


def read_replica(logs: Path, group: int) -> tuple[int, list[Record]]:
    """Up to where a replica knows its log to be committed, and its batches: first offset, digest, last offset.

    Raises StorageError and OSError.
    """
    found = [
        (int(match[2]), path)
        for path in logs.iterdir()
        if (match := _FOLDER.fullmatch(path.name)) and int(match[1]) == group
    ]
    if not found:
        raise FileNotFoundError(f"{logs} has no replica of group {group}")
    _, newest = max(found)
    with tempfile.TemporaryDirectory(prefix="quorate-replica-") as folder:
        copy = Path(folder) / newest.name
        shutil.copytree(newest, copy)
        log = LevelLog.open(copy, new_replica())
        try:
            return log.restore().hard_state.commit, _batches(log)
        finally:
            log.close()


def _batches(log: LevelLog) -> list[Record]:
    found: list[Record] = []
    at = Offset(log.start + 1)
    while at <= log.last:
        for stored in log.read(at, _CHUNK_BYTES):
            digest = blake2b(bytes(stored.data), digest_size=8, salt=stored.term.to_bytes(8)).hexdigest()
            found.append(Record(stored.base, digest, stored.last))
            at = Offset(stored.last + 1)
    return found
