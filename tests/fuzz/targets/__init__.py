"""What the fuzzer calls, and what the replay of its corpus calls: any bytes in, one typed error or a true statement out."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.targets.batches import batch
from tests.fuzz.targets.logs import log
from tests.fuzz.targets.peers import peer
from tests.fuzz.targets.replicas import raft
from tests.fuzz.targets.replies import answers
from tests.fuzz.targets.requests import kafka
from tests.fuzz.targets.streams import frames
from tests.fuzz.targets.values import values

TARGETS: dict[str, Callable[[bytes], None]] = {
    "answers": answers,
    "batch": batch,
    "frames": frames,
    "kafka": kafka,
    "peer": peer,
    "log": log,
    "raft": raft,
    "values": values,
}
