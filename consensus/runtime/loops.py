"""The process that a node runs in: its event loop, its garbage collector, how its threads take turns."""

from __future__ import annotations

import asyncio
import gc
import sys

_COLLECT_AFTER = 50_000
_SWITCH_S = 0.001


def new_event_loop() -> asyncio.AbstractEventLoop:
    """For `asyncio.Runner(loop_factory=new_event_loop)`: uvloop where it is installed, asyncio's own elsewhere."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def tune_process() -> None:
    """Settings of the whole interpreter that suit a node; for `main`, after everything was imported.

    Messages and batches form no cycles, so the collector need not look at them after every few hundred. And a writer
    thread whose sync is done should not wait for five milliseconds, Python's default, until a busy loop lets it say so.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 50)
    sys.setswitchinterval(_SWITCH_S)
