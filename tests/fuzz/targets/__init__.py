"""What the fuzzer calls, and what the replay of its corpus calls: any bytes in, one typed error or a true statement out.

A target is a function of the module that is named here. It is imported when it is asked for: the fuzzer instruments whatever
is imported, which takes far longer for all of Quorate than for one decoder.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final

TARGETS: Final = {
    "answers": "replies",
    "batch": "batches",
    "client": "clients",
    "cluster": "metadata",
    "commands": "metadata",
    "folder": "node_files",
    "frames": "streams",
    "groups": "consumer_groups",
    "history": "histories",
    "http": "bodies",
    "journals": "leveldb_files",
    "kafka": "requests",
    "log": "logs",
    "notes": "between_nodes",
    "offsets": "option_texts",
    "partition": "partitions",
    "peer": "peers",
    "raft": "replicas",
    "served": "served",
    "settings": "node_files",
    "spark": "columns",
    "values": "values",
}


def target(name: str) -> Callable[[bytes], None]:
    """The target of this name."""
    found: Callable[[bytes], None] = getattr(import_module(f"{__name__}.{TARGETS[name]}"), name)
    return found
