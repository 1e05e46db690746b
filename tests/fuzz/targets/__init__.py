"""What the fuzzer calls, and what the replay of its corpus calls: any bytes in, one typed error or a true statement out."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.targets.batches import batch
from tests.fuzz.targets.between_nodes import notes
from tests.fuzz.targets.bodies import http
from tests.fuzz.targets.consumer_groups import groups
from tests.fuzz.targets.histories import history
from tests.fuzz.targets.leveldb_files import journals
from tests.fuzz.targets.logs import log
from tests.fuzz.targets.metadata import cluster, commands
from tests.fuzz.targets.node_files import folder, settings
from tests.fuzz.targets.partitions import partition
from tests.fuzz.targets.peers import peer
from tests.fuzz.targets.replicas import raft
from tests.fuzz.targets.requests import kafka
from tests.fuzz.targets.streams import frames
from tests.fuzz.targets.values import values

TARGETS: dict[str, Callable[[bytes], None]] = {
    "batch": batch,
    "cluster": cluster,
    "commands": commands,
    "folder": folder,
    "frames": frames,
    "groups": groups,
    "history": history,
    "http": http,
    "journals": journals,
    "kafka": kafka,
    "log": log,
    "notes": notes,
    "partition": partition,
    "peer": peer,
    "raft": raft,
    "settings": settings,
    "values": values,
}
